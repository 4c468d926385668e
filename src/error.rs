//! Owns errors for people: one line says what is wrong, one line how to fix it. Also the exit code
//! that an error leads to. Other errors are `anyhow` chains, printed in one line.

use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

use payfold_engines::EngineError;
use payfold_kit::search::SearchError;

/// An error that says how to fix it.
#[derive(Debug)]
pub(crate) struct Fixable {
    what: String,
    fix: String,
    /// Whether stored data does not belong together or is damaged; the command then exits with 3
    /// instead of 1.
    is_difference: bool,
}

impl Fixable {
    /// Makes an error: `what` happened to what, and `fix` says what to do now. Exit code 1.
    pub(crate) fn error(what: impl Into<String>, fix: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Self { what: what.into(), fix: fix.into(), is_difference: false })
    }

    /// Makes an error about files or tables that are damaged or don't belong together. Exit code 3.
    pub(crate) fn difference(what: impl Into<String>, fix: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Self { what: what.into(), fix: fix.into(), is_difference: true })
    }
}

/// The error for a file or folder that exists and can't be read. Callers must not treat it as
/// missing: a system that takes its own files for missing would start anew.
pub(crate) fn unreadable(path: &Path, error: &std::io::Error) -> anyhow::Error {
    let path = path.display();
    match error.kind() {
        ErrorKind::PermissionDenied => Fixable::error(
            format!("can't read {path}: permission denied"),
            "run the command as the user that runs payfold, or give another path",
        ),
        ErrorKind::NotFound => {
            Fixable::error(format!("can't read {path}: there is no such file"), "give its path")
        }
        _ => Fixable::error(
            format!("can't read {path}: {error}"),
            "give another path, or check the disk",
        ),
    }
}

/// Whether a file or folder exists. Errors: permission denied, or the disk fails.
pub(crate) fn is_there(path: &Path) -> anyhow::Result<bool> {
    path.try_exists().map_err(|error| unreadable(path, &error))
}

/// Whether an error, or any of its causes, was made by `Fixable::difference`, or says that stored
/// data is damaged.
pub(crate) fn is_difference(error: &anyhow::Error) -> bool {
    let mut fixables = error.chain().filter_map(|cause| cause.downcast_ref::<Fixable>());
    fixables.any(|fixable| fixable.is_difference) || error.chain().any(is_corrupt)
}

fn is_corrupt(cause: &(dyn std::error::Error + 'static)) -> bool {
    let inside = match cause.downcast_ref() {
        // A transparent error hides its engine's error from the chain.
        Some(SearchError::Engine(error)) => Some(error),
        _ => cause.downcast_ref(),
    };
    matches!(inside, Some(EngineError::Corrupt(_)))
}

/// What to do about damaged storage.
pub(crate) const CORRUPT_FIX: &str =
    "don't change any file; docs/how-to/corrupt.md says how to recover";

/// Splits an error into one line that says what is wrong, and its fix, if it has one.
pub(crate) fn describe(error: &anyhow::Error) -> (String, Option<String>) {
    let mut fix = None;
    let said: Vec<String> = error
        .chain()
        .map(|cause| match cause.downcast_ref::<Fixable>() {
            Some(fixable) => {
                fix = Some(fixable.fix.clone());
                fixable.what.clone()
            }
            None => cause.to_string(),
        })
        .collect();
    let fix = fix.or_else(|| corrupt_fix(error).map(str::to_owned));
    (said.join(": ").replace('\n', "; "), fix)
}

/// The fix for damaged storage, if the error doesn't bring its own.
pub(crate) fn corrupt_fix(error: &anyhow::Error) -> Option<&'static str> {
    let says_fix = error.chain().any(|cause| cause.is::<Fixable>());
    (!says_fix && error.chain().any(is_corrupt)).then_some(CORRUPT_FIX)
}

impl fmt::Display for Fixable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  fix: {}", self.what, self.fix)
    }
}

impl std::error::Error for Fixable {}

/// The result of a command that found differences. Exit code 3; nothing is printed for it.
#[derive(Debug)]
pub(crate) struct DifferencesFound;

impl fmt::Display for DifferencesFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("differences found")
    }
}

impl std::error::Error for DifferencesFound {}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn an_error_is_split_into_problem_and_fix() {
        let plain = anyhow::anyhow!("one\ntwo");
        assert_eq!(describe(&plain), ("one; two".to_owned(), None));
        let fixable = Fixable::error("the file can't be read", "name another");
        let named = Err::<(), _>(fixable).context("in the vault").unwrap_err();
        let said = "in the vault: the file can't be read".to_owned();
        assert_eq!(describe(&named), (said, Some("name another".to_owned())));
        let corrupt = anyhow::Error::new(EngineError::Corrupt("a page".to_owned()));
        assert_eq!(describe(&corrupt).1.as_deref(), Some(CORRUPT_FIX));
    }

    #[test]
    fn a_difference_is_recognised_below_any_context() {
        let plain = Fixable::error("the file can't be read", "name another");
        assert!(!is_difference(&plain));
        let difference = Fixable::difference("the log is missing", "restore it");
        let named = Err::<(), _>(difference).context("at the start").unwrap_err();
        assert!(is_difference(&named));
        assert_eq!(describe(&named).1.as_deref(), Some("restore it"));
    }
}
