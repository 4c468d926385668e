//! Owns the refusal to create a log beside files that were made from one. Invariant: a new log is
//! created only where neither an order store nor claims exist; beside one of them, a missing log is
//! a lost log.

use std::path::{Path, PathBuf};

use crate::EngineError;
use crate::sqlite::file_exists;

/// Checks that the log at `log` exists, or that none of `others` does, the files that are created
/// after a log. An empty file is no log. Errors: `Corrupt` if the log is missing, `Unavailable` if
/// a file can't be read.
pub fn check(log: &Path, others: &[PathBuf]) -> Result<(), EngineError> {
    if file_exists(log)? && std::fs::metadata(log).is_ok_and(|found| found.len() > 0) {
        return Ok(());
    }
    let mut left = Vec::new();
    for other in others {
        if file_exists(other)? {
            left.push(other.display().to_string());
        }
    }
    if left.is_empty() {
        return Ok(());
    }
    Err(EngineError::Corrupt(format!(
        "there is no log {}, and there is {}: the log holds every fact of this system, and a new \
         one is never made in its place",
        log.display(),
        left.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_missing_where_anything_made_after_it_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let [log, orders, claims] =
            ["log.db", "orders.db", "orders.claims.db"].map(|name| dir.path().join(name));
        let others = [orders.clone(), claims.clone()];
        assert_eq!(check(&log, &others), Ok(()), "a new system");
        std::fs::write(&claims, b"claims").unwrap();
        for empty in [false, true] {
            if empty {
                std::fs::write(&log, b"").unwrap();
            }
            let Err(EngineError::Corrupt(text)) = check(&log, &others) else {
                panic!("it is refused")
            };
            assert!(
                text.contains("there is no log") && text.contains("orders.claims.db"),
                "{text}"
            );
            assert!(!text.contains("orders.db,"), "only what is there is named: {text}");
        }
        std::fs::write(&log, b"a log").unwrap();
        assert_eq!(check(&log, &others), Ok(()));
    }

    #[test]
    fn a_file_that_can_not_be_read_is_not_missing() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log.db");
        std::os::unix::fs::symlink(&log, &log).unwrap();
        let Err(EngineError::Unavailable(text)) = check(&log, &[]) else { panic!("it is refused") };
        assert!(text.starts_with("can't read ") && text.contains("log.db"), "{text}");
    }
}
