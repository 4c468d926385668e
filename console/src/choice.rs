//! Owns what a person can choose when they decide: which record is right, or what becomes of a
//! quarantined notice.

use payfold_schemas::fact::Verdict;
use payfold_schemas::released::Because;

/// A choice of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Which record of a finding or a flag is right.
    Accept(Verdict),
    /// The notice becomes a fact.
    Release(Because),
    /// The notice stays in quarantine for good.
    Dismiss,
}

impl Choice {
    /// The choices about a finding or a flag.
    pub(crate) const RECORDS: &[Self] = &[
        Self::Accept(Verdict::Ours),
        Self::Accept(Verdict::Partner),
        Self::Accept(Verdict::WriteOff),
    ];
    /// The choices about a notice.
    pub(crate) const NOTICES: &[Self] = &[
        Self::Release(Because::ClockFixed),
        Self::Release(Because::LateRetry),
        Self::Release(Because::ProfileFixed),
        Self::Dismiss,
    ];
    /// The choices about a notice that was refused for its time.
    pub(crate) const STALE_NOTICES: &[Self] =
        &[Self::Release(Because::ClockFixed), Self::Release(Because::LateRetry), Self::Dismiss];
    /// The choices about a notice that was refused for anything else.
    pub(crate) const UNFIT_NOTICES: &[Self] =
        &[Self::Release(Because::ProfileFixed), Self::Dismiss];

    /// The choice that agrees with a first decision on a finding, alone.
    pub(crate) fn agreeing(accept: Verdict) -> &'static [Self] {
        let at = Self::RECORDS.iter().position(|choice| *choice == Self::Accept(accept));
        let at = at.expect("every side can be chosen");
        &Self::RECORDS[at..=at]
    }

    /// The value in a form.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Accept(verdict) => verdict.as_str(),
            Self::Release(because) => because.as_str(),
            Self::Dismiss => "dismiss",
        }
    }

    /// Parses the value of a form. `None` for any other text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut all = Self::RECORDS.iter().chain(Self::NOTICES);
        all.find(|choice| choice.as_str() == text).copied()
    }

    /// What a person reads.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Accept(Verdict::Ours) => "Our record is right",
            Self::Accept(Verdict::Partner) => "The partner's record is right",
            Self::Accept(Verdict::WriteOff) => "Neither is settled: the difference is written off",
            Self::Release(Because::ClockFixed) => {
                "Release: a clock was wrong, ours or the partner's, and is right now"
            }
            Self::Release(Because::LateRetry) => {
                "Release: the partner sent old notices once more, after an outage"
            }
            Self::Release(Because::ProfileFixed) => {
                "Release: the partner's profile is corrected and takes it as it came"
            }
            Self::Dismiss => "Dismiss: it is kept as evidence only, for good",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_reads_what_it_writes() {
        for choice in Choice::RECORDS.iter().chain(Choice::NOTICES) {
            assert_eq!(Choice::parse(choice.as_str()), Some(*choice));
        }
        assert_eq!(Choice::parse("mine"), None);
    }
}
