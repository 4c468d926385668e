//! Owns the file of a record key: `records.ROLE.KEYID`, with the secret and `valid_from` as in a
//! key file of an account. Pure.

use payfold_schemas::record_mac::Writer;
use payfold_schemas::time::Time;

use super::key_file::{FileProblems, key_items};
use crate::record_key::RecordKeyEntry;
use crate::vault::dir::problem::{BadFile, FileProblem};

/// The shortest secret, bytes: that of SHA-256's output.
const SECRET_BYTES_MIN: usize = 32;

/// The role in the name of a record key's file; `None` for another file.
pub(super) fn writer_of(name: &str) -> Option<Writer> {
    let (writer, id) = name.strip_prefix("records.")?.split_once('.')?;
    Writer::from_name(writer).filter(|_| !id.is_empty() && !id.contains('.'))
}

/// Parses a file. Errors: all problems of it.
pub(super) fn parse(writer: Writer, bytes: &[u8]) -> Result<RecordKeyEntry, Vec<String>> {
    let mut problems = FileProblems::default();
    let Some(mut items) = problems.ok_or_push(key_items(bytes)) else { return Err(problems.0) };
    let from = problems.ok_or_push(items.time("valid_from")).flatten();
    problems.ok_or_push(items.check_rest("secret and valid_from"));
    let length = items.secret.expose().len();
    if length < SECRET_BYTES_MIN {
        problems.ok_or_push::<()>(BadFile::err(format!(
            "its secret has {length} bytes, {SECRET_BYTES_MIN} or more are needed: openssl rand \
             -hex 32"
        )));
    }
    let valid_from = from.unwrap_or(Time::from_unix_ms(0));
    let entry = RecordKeyEntry { writer, secret: items.secret, valid_from };
    if problems.0.is_empty() { Ok(entry) } else { Err(problems.0) }
}

/// Finds the problems between files: each key has a secret of its own, and of two keys of a role
/// one begins later.
pub(super) fn conflicts(files: &[(String, RecordKeyEntry)]) -> Vec<FileProblem> {
    let mut problems = Vec::new();
    for (at, (file, key)) in files.iter().enumerate() {
        let mut report = |problem: String| {
            problems.push(FileProblem { file: file.clone(), problem });
        };
        for (other, earlier) in &files[..at] {
            if key.id() == earlier.id() {
                report(format!("it has the secret of {other}; give it one of its own"));
            } else if key.writer == earlier.writer && key.valid_from == earlier.valid_from {
                report(format!(
                    "its valid_from is that of {other}, or neither has one; write a later \
                     valid_from into the newer one"
                ));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_role() {
        assert_eq!(writer_of("records.ingest.2026-a"), Some(Writer::Ingest));
        // The account `ingest` at a partner `records`.
        for other in ["records.ingest.ipn.a", "records.shop.a", "records.ingest.", "acme.S.ipn.a"] {
            assert_eq!(writer_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_file_has_a_long_secret_and_perhaps_a_beginning() {
        let hex = "00".repeat(32);
        let plain = parse(Writer::Ingest, format!("hex:{hex}").as_bytes()).unwrap();
        assert_eq!(plain.valid_from, Time::from_unix_ms(0));
        let dated = format!("secret = 'hex:{hex}'\nvalid_from = 2026-01-31T10:00:00Z\n");
        let dated = parse(Writer::Ingest, dated.as_bytes()).unwrap();
        assert_eq!(dated.valid_from, Time::parse("2026-01-31T10:00:00Z").unwrap());
        assert_eq!(dated.id(), plain.id());
        let files =
            [("a", &plain), ("b", &dated)].map(|(name, key)| (name.to_owned(), key.clone()));
        let problems = conflicts(&files);
        assert!(problems.len() == 1 && problems[0].problem.contains("the secret of a"));
        let other = parse(Writer::Ingest, format!("text:{hex}").as_bytes()).unwrap();
        let problems = conflicts(&[("a".to_owned(), plain), ("b".to_owned(), other)]);
        assert!(problems.len() == 1 && problems[0].problem.contains("is that of a"));
        for (content, expected) in [
            ("hush", "line 1 is not understood"),
            ("text:hush", "its secret has 4 bytes, 32 or more"),
            (&format!("secret = 'hex:{hex}'\nserial = 'a'"), "other items than secret and"),
        ] {
            let problems = parse(Writer::Ingest, content.as_bytes()).unwrap_err();
            assert!(problems.len() == 1 && problems[0].contains(expected), "{problems:?}");
        }
    }
}
