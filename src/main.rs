//! The one binary: reads its arguments and runs one command.

use std::process::ExitCode;

fn main() -> ExitCode {
    payfold::command::main()
}
