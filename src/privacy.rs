//! Owns what keeps this process's memory, which holds keys, its own: no core files, no other process of its user that
//! attaches to it. Root still can.

use rustix::process::{Resource, Rlimit, setrlimit};

/// No core file is written of this process, and nobody but root reads its memory, from now on. Errors: the system
/// refuses; the process is as it was.
pub fn keep_memory_private() -> std::io::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    // Of a limit of 0 a handler that is a program, as systemd's and Ubuntu's are, takes no notice; of this it does.
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
}
