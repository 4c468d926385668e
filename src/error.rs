//! Owns the shape of an error a person reads: one line what is wrong, one line how to mend it, and the
//! exit code. Everything else is an `anyhow` chain printed in one line.

use std::fmt;
use std::path::Path;

/// An error with its fix.
#[derive(Debug)]
pub struct Fixable {
    what: String,
    fix: String,
    /// Stored data does not fit together: the command exits with 3 instead of 1.
    is_difference: bool,
}

impl Fixable {
    /// `what` is wrong; `fix` says how to mend it.
    pub fn error(what: impl Into<String>, fix: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Self { what: what.into(), fix: fix.into(), is_difference: false })
    }

    /// Files or tables that don't belong together: printed like any error, with exit code 3.
    pub fn difference(what: impl Into<String>, fix: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Self { what: what.into(), fix: fix.into(), is_difference: true })
    }
}

/// A file or folder of ours that is there and can't be read: never to be taken for a missing one.
pub fn unreadable(path: &Path, error: &std::io::Error) -> anyhow::Error {
    let why = match error.kind() {
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    };
    Fixable::error(
        format!("can't read {}: {why}", path.display()),
        "run the command as the user that runs payfold, or name another path",
    )
}

/// Whether a file or folder is there. Errors: anything but its absence keeps this user from it.
pub fn is_there(path: &Path) -> anyhow::Result<bool> {
    path.try_exists().map_err(|error| unreadable(path, &error))
}

/// Whether an error was made by `Fixable::difference`, in whatever context.
pub fn is_difference(error: &anyhow::Error) -> bool {
    let mut fixables = error.chain().filter_map(|cause| cause.downcast_ref::<Fixable>());
    fixables.any(|fixable| fixable.is_difference)
}

/// What an error says is wrong, in one line, and how it says to mend it, if it does.
pub fn told(error: &anyhow::Error) -> (String, Option<String>) {
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
    (said.join(": ").replace('\n', "; "), fix)
}

impl fmt::Display for Fixable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  fix: {}", self.what, self.fix)
    }
}

impl std::error::Error for Fixable {}

/// A command that found differences: exit code 3, and not an error to print.
#[derive(Debug)]
pub struct DifferencesFound;

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
    fn what_is_wrong_and_how_to_mend_it_are_told_apart() {
        let plain = anyhow::anyhow!("one\ntwo");
        assert_eq!(told(&plain), ("one; two".to_owned(), None));
        let fixable = Fixable::error("the file can't be read", "name another");
        let named = Err::<(), _>(fixable).context("in the vault").unwrap_err();
        let said = "in the vault: the file can't be read".to_owned();
        assert_eq!(told(&named), (said, Some("name another".to_owned())));
    }

    #[test]
    fn a_difference_is_known_in_any_context() {
        let plain = Fixable::error("the file can't be read", "name another");
        assert!(!is_difference(&plain));
        let difference = Fixable::difference("the log is missing", "restore it");
        let named = Err::<(), _>(difference).context("at the start").unwrap_err();
        assert!(is_difference(&named));
        assert_eq!(told(&named).1.as_deref(), Some("restore it"));
    }
}
