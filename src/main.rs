//! The one binary: reads its arguments and runs one command.

use std::process::ExitCode;

/// Notices are many small, short-lived allocations on several threads: measured, the system's allocator costs
/// a tenth of a notice's CPU time more.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    payfold::command::main()
}
