//! Owns the protection of this process's memory, which holds keys: no core files, and no other
//! process of its user can attach. Root still can.

use rustix::process::{Resource, Rlimit, setrlimit};

/// Forbids core files of this process and reads of its memory by anyone but root. Errors: the
/// operating system refuses; the process is unchanged.
pub(crate) fn keep_memory_private() -> std::io::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    // If core files are piped to a program, as with systemd and Ubuntu, the kernel ignores the
    // limit of 0. It respects this flag.
    #[cfg(target_os = "linux")]
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(())
}
