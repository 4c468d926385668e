//! Owns a finding about a topic: what is wrong, and how to mend it.

use std::fmt;

use crate::EngineError;

/// The remedy for missing topics and markers.
pub(super) const APPLY: &str = "run `payfold topics apply`";

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// A guarantee of the log doesn't hold, so the log is not opened.
    Refuse,
    /// The log works, with a drawback.
    Warn,
}

/// Which `EngineError` a refusal becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultKind {
    /// A setting or a command mends it.
    Invalid,
    /// The stored data contradicts itself.
    Corrupt,
}

/// Something that is wrong with a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Kafka's name of the topic.
    pub subject: String,
    /// What is wrong with it, and what that breaks.
    pub what: String,
    /// How to mend it: a command or a setting.
    pub fix: String,
    /// How bad it is.
    pub severity: Severity,
    pub(super) fault: FaultKind,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; mend: {}", self.subject, self.what, self.fix)
    }
}

impl Finding {
    pub(super) fn refuse(subject: &str, what: impl Into<String>, fix: impl Into<String>) -> Self {
        let (subject, what, fix) = (subject.to_owned(), what.into(), fix.into());
        Self { subject, what, fix, severity: Severity::Refuse, fault: FaultKind::Invalid }
    }

    pub(super) fn corrupt(subject: &str, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { fault: FaultKind::Corrupt, ..Self::refuse(subject, what, fix) }
    }

    /// Whether this finding says that brokers compress with a codec this program can't read.
    pub(super) fn is_codec(&self) -> bool {
        self.severity == Severity::Refuse && self.what.starts_with("compression.type")
    }

    pub(super) fn warn(self) -> Self {
        Self { severity: Severity::Warn, ..self }
    }

    pub(super) fn error(&self) -> EngineError {
        match self.fault {
            FaultKind::Invalid => EngineError::Invalid(self.to_string()),
            FaultKind::Corrupt => EngineError::Corrupt(self.to_string()),
        }
    }
}
