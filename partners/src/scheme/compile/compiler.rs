//! Owns the state of compiling a profile: the mistakes found so far, and the names that templates
//! may use.

use crate::profile::mistake::ProfileMistake;
use crate::scheme::compile::lint_mode::LintMode;
use crate::scheme::template::{Template, TemplateNames};

/// The section of the partner's payment records.
pub(crate) const RECORDS: &str = "records";

/// Compiles one profile and collects its mistakes.
#[derive(Default)]
pub(crate) struct ProfileCompiler {
    pub(crate) wrong: Vec<ProfileMistake>,
    pub(crate) names: TemplateNames,
    pub(crate) lint: LintMode,
    pub(crate) texts: Vec<Template>,
    /// The section that is being compiled, for messages.
    pub(crate) section: &'static str,
    /// `client_certificate = true`: our connections show a certificate.
    pub(crate) has_certificate: bool,
    /// The profile has `[oauth]`, so calls may carry an access token.
    pub(crate) has_token: bool,
}
