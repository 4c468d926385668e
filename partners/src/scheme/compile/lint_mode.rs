//! Owns whether the safety rules are checked.

/// Whether a profile is checked against the rules of `lint`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LintMode {
    /// Checked: notices are admitted under this profile.
    #[default]
    Checked,
    /// Not checked: an older program admitted notices under this profile, and it only says how to
    /// read them again.
    Skipped,
}
