//! Owns the reading of a trace: lines of `strace -f -ttt -y`, in the order in which the kernel's
//! stops were seen.
//!
//! A call that another thread's stop interrupts is written as two lines, `… <unfinished ...>` at
//! its begin and `<... name resumed>…` at its end. What a call reads is known at its end, what it
//! writes at its begin.

use std::collections::HashMap;
use std::fmt;

/// The calls that prove one notice durable before its 200, by the line they stand on.
#[derive(Clone, Debug, PartialEq)]
pub struct Proof {
    pub read: usize,
    pub written: usize,
    pub synced: usize,
    pub answered: usize,
    /// Seconds between the read and the answer.
    pub took_s: f64,
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { read, written, synced, answered, took_s } = self;
        write!(
            f,
            "read on line {read}, pwrite64 on {written}, sync returned on {synced}, \
             200 on {answered}, {:.1} ms",
            took_s * 1_000.0
        )
    }
}

/// What a line means here.
enum Step {
    /// A request was read.
    Read,
    /// The write-ahead log was written on this descriptor.
    Written(String),
    /// This descriptor was synced, and the sync returned 0.
    Synced(String),
    /// A 200 begins to be written.
    Answered,
}

/// Judges every notice of a trace, in order: a proof, or what is missing.
pub fn judge(trace: &str) -> Vec<Result<Proof, String>> {
    let mut judged = Vec::new();
    let mut begun: HashMap<&str, &str> = HashMap::new();
    let mut read: Option<(usize, f64)> = None;
    let mut written: Option<(usize, String)> = None;
    let mut synced = None;
    for (index, line) in trace.lines().enumerate() {
        let number = index + 1;
        let Some((thread, time, call)) = parts(line) else { continue };
        match step(call, thread, &mut begun) {
            Some(Step::Read) => (read, written, synced) = (Some((number, time)), None, None),
            Some(Step::Written(descriptor)) => {
                (written, synced) = (Some((number, descriptor)), None);
            }
            Some(Step::Synced(descriptor)) => {
                let same = written.as_ref().is_some_and(|(_, written)| *written == descriptor);
                synced = same.then_some(number).or(synced);
            }
            Some(Step::Answered) => {
                let Some((read, at)) = read.take() else { continue };
                judged.push(match (&written, synced) {
                    (None, _) => Err(format!(
                        "nothing was written to the log between the read on line {read} and the \
                         200 on line {number}"
                    )),
                    (Some((written, _)), None) => Err(format!(
                        "what was written to the log on line {written} was not synced before the \
                         200 on line {number}"
                    )),
                    (Some((written, _)), Some(synced)) => {
                        let took_s = time - at;
                        Ok(Proof { read, written: *written, synced, answered: number, took_s })
                    }
                });
            }
            None => {}
        }
    }
    judged
}

/// `pid seconds call`.
fn parts(line: &str) -> Option<(&str, f64, &str)> {
    let (thread, rest) = line.trim_start().split_once(' ')?;
    let (time, call) = rest.trim_start().split_once(' ')?;
    Some((thread, time.parse().ok()?, call.trim_start()))
}

/// What a line means; `begun` holds the unfinished call of each thread.
fn step<'a>(call: &'a str, thread: &'a str, begun: &mut HashMap<&'a str, &'a str>) -> Option<Step> {
    let writes = ["write(", "writev(", "sendto(", "sendmsg("].iter().any(|n| call.starts_with(n));
    if writes && call.contains("\"HTTP/1.1 200 ") {
        return Some(Step::Answered);
    }
    if let Some(begin) = call.strip_suffix("<unfinished ...>") {
        begun.insert(thread, begin);
        return None;
    }
    let begin = if call.starts_with("<... ") { begun.remove(thread)? } else { call };
    let returned = call.rsplit_once(" = ")?.1;
    let succeeded = returned.starts_with(|c: char| c.is_ascii_digit());
    if !succeeded {
        return None;
    }
    let (name, arguments) = begin.split_once('(')?;
    match name {
        "read" | "recvfrom" if call.contains("\"POST /api/payment/ipn") => Some(Step::Read),
        "pwrite64" => wal(arguments).map(Step::Written),
        "fsync" | "fdatasync" if returned == "0" => wal(arguments).map(Step::Synced),
        _ => None,
    }
}

/// The descriptor of the first argument, if it is the log's write-ahead log.
fn wal(arguments: &str) -> Option<String> {
    let (descriptor, rest) = arguments.split_once('<')?;
    let (path, _) = rest.split_once('>')?;
    path.ends_with("/log.db-wal").then(|| descriptor.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: &str = concat!(
        r#"11 1.0 recvfrom(9<TCP:[7]>, "POST /api/payment/ipn HTTP/1.1\r\n"..., "#,
        "4096, 0, NULL, NULL) = 512"
    );
    const WRITE: &str = r#"12 1.1 pwrite64(5</d/log.db-wal>, "\0\0"..., 8192, 32) = 8192"#;
    const SYNC: &str = "12 1.2 fdatasync(5</d/log.db-wal>) = 0";
    const ANSWER: &str =
        r#"11 1.5 sendto(9<TCP:[7]>, "HTTP/1.1 200 OK\r\n"..., 75, 0, NULL, 0) = 75"#;

    fn judged(lines: &[&str]) -> String {
        match &judge(&lines.join("\n"))[..] {
            [Ok(_)] => "proved".to_owned(),
            [Err(why)] => why.clone(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_write_and_a_sync_that_returned_are_a_proof() {
        assert_eq!(judged(&[READ, WRITE, SYNC, ANSWER]), "proved");
        let begin = "12 1.2 fdatasync(5</d/log.db-wal> <unfinished ...>";
        let end = "12 1.3 <... fdatasync resumed>) = 0";
        assert_eq!(judged(&[READ, WRITE, begin, end, ANSWER]), "proved");
    }

    #[test]
    fn anything_less_is_none() {
        let begin = "12 1.2 fdatasync(5</d/log.db-wal> <unfinished ...>";
        let end = "12 1.6 <... fdatasync resumed>) = 0";
        let failed = "12 1.2 fdatasync(5</d/log.db-wal>) = -1 EIO (Input/output error)";
        let other = "12 1.2 fdatasync(6</d/orders.db-wal>) = 0";
        let another = "12 1.2 fdatasync(7</e/log.db-wal>) = 0";
        for lines in [
            &[READ, WRITE, ANSWER][..],
            &[READ, SYNC, ANSWER],
            &[READ, SYNC, WRITE, ANSWER],
            &[READ, WRITE, SYNC, WRITE, ANSWER],
            &[WRITE, SYNC, READ, ANSWER],
            &[READ, WRITE, failed, ANSWER],
            &[READ, WRITE, other, ANSWER],
            &[READ, WRITE, another, ANSWER],
            &[READ, WRITE, begin, ANSWER, end],
            &[READ, ANSWER, WRITE, SYNC],
        ] {
            assert_ne!(judged(lines), "proved", "{lines:#?}");
        }
        assert_eq!(judge(""), []);
    }
}
