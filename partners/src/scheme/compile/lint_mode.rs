//! Owns whether the safety rules are checked.

/// Whether the rules are checked that a profile must keep to be taken now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LintMode {
    /// Checked: notices are admitted under this profile.
    #[default]
    Checked,
    /// Not checked: the default scheme, which the contract gives, or a recorded profile of an
    /// older program, under which stored notices are only read again.
    Skipped,
}
