//! Owns the resource use of processes, read from `/proc` on Linux: CPU time and memory.

/// Why the resource use of a process can't be read.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// The process or `/proc` does not exist.
    #[error("CPU time and memory are read from /proc, which this system may not have: {0}")]
    Unreadable(#[from] std::io::Error),
    /// This value is missing or not a number.
    #[error("/proc has no {0}")]
    Missing(&'static str),
}

/// The clock tick of CPU times in `/proc`: 1/100 s.
const MICROS_PER_TICK: u64 = 10_000;

/// The CPU time of this process so far in µs: user and system, all threads.
pub fn cpu_micros() -> Result<u64, UsageError> {
    cpu_micros_of("self")
}

/// The peak memory of a process in KiB, from its `/proc` status file.
pub fn memory_peak_kib(status_path: &str) -> Result<u64, UsageError> {
    read_status_kib(status_path, "VmHWM:")
}

/// The current memory of a process in KiB, from its `/proc` status file.
pub fn memory_kib(status_path: &str) -> Result<u64, UsageError> {
    read_status_kib(status_path, "VmRSS:")
}

fn read_status_kib(status_path: &str, name: &'static str) -> Result<u64, UsageError> {
    let status = std::fs::read_to_string(status_path)?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
    kib.ok_or(UsageError::Missing(name))
}

/// The CPU time of a process so far in µs: user and system, all threads.
pub fn cpu_micros_of(pid: &str) -> Result<u64, UsageError> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The command name in parentheses may contain spaces, so count the fields after it.
    let (_, fields) =
        stat.rsplit_once(") ").ok_or(UsageError::Missing("command name in parentheses"))?;
    let field = |n: usize| fields.split(' ').nth(n).and_then(|text| text.parse::<u64>().ok());
    let (user, system) = (
        field(11).ok_or(UsageError::Missing("utime"))?,
        field(12).ok_or(UsageError::Missing("stime"))?,
    );
    Ok((user + system) * MICROS_PER_TICK)
}
