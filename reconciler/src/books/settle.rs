//! Owns how a finding changes: opened, changed, decided, cleared, opened again. Pure. Invariant: what is the same is not
//! told again, so a repeated run appends nothing.

use payfold_schemas::finding::{FindingChanged, FindingDecision, FindingStatus};
use payfold_schemas::ids::Author;
use payfold_schemas::order::Severity;
use payfold_schemas::time::Time;

use super::found::Found;

/// Which run, or which moment, changes findings.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// The partner's day.
    pub day: &'a str,
    /// The run; none outside of one.
    pub run: Option<&'a str>,
    /// When it began.
    pub at: Time,
}

/// What finding a difference changes; none if it is known as it is.
pub fn found(
    known: Option<&FindingChanged>,
    found: Found,
    moment: Moment<'_>,
) -> Option<FindingChanged> {
    let Some(known) = known else {
        return Some(found.opened(1, (moment.day, moment.run), moment.at));
    };
    if is_same(known, &found) {
        return None;
    }
    let version = known.version.saturating_add(1);
    Some(found.opened(version, (&known.day, moment.run), known.first_seen))
}

/// Whether a finding is known as it was found now: it stands, on the same evidence.
pub fn is_same(known: &FindingChanged, found: &Found) -> bool {
    known.evidence == found.evidence && known.status != FindingStatus::Cleared
}

/// The same finding, with the file, the lines and the money at risk that were seen now; `None` if those are the same too.
/// It stays open or decided, and keeps the run that opened it.
pub fn cited(known: &FindingChanged, found: Found) -> Option<FindingChanged> {
    let cited = FindingChanged {
        partners: found.partners,
        lines: found.lines,
        money_at_risk: found.at_risk,
        ..known.clone()
    };
    (cited != *known).then(|| FindingChanged { version: known.version.saturating_add(1), ..cited })
}

/// What a person's word on a flag makes of the flag's finding; `None` if it is cleared or decided.
pub fn flag_decided(
    known: &FindingChanged,
    decision: FindingDecision,
    word: Standing,
) -> Option<FindingChanged> {
    (known.status == FindingStatus::Open).then(|| FindingChanged {
        version: known.version.saturating_add(1),
        status: match word {
            Standing::Waits => FindingStatus::Open,
            Standing::Alone | Standing::Seconded => FindingStatus::Decided,
        },
        run: None,
        decision: Some(decision),
        ..known.clone()
    })
}

/// What the going of its cause changes; none if it is cleared already.
pub fn gone(known: &FindingChanged, moment: Moment<'_>) -> Option<FindingChanged> {
    (known.status != FindingStatus::Cleared).then(|| FindingChanged {
        version: known.version.saturating_add(1),
        status: FindingStatus::Cleared,
        money_at_risk: 0,
        run: moment.run.map(str::to_owned),
        action: "nothing: its cause has gone".to_owned(),
        ..known.clone()
    })
}

/// Why a decision can't be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecideError {
    /// It is cleared.
    #[error("this finding has cleared: there is nothing left to decide")]
    Cleared,
    /// It is decided.
    #[error("this finding was decided by {by} on this evidence already")]
    Decided {
        /// Who.
        by: Author,
    },
    /// The second person is the first.
    #[error(
        "{by} has decided this before; it is critical and takes a second person: the same command with another token"
    )]
    SamePerson {
        /// Who.
        by: Author,
    },
    /// The two want different things.
    #[error(
        "{by} said {said} before; the second person has to say the same, or nothing is decided"
    )]
    Disagree {
        /// Who was first.
        by: Author,
        /// What they want.
        said: &'static str,
    },
}

/// What a person's word changes. What is critical waits open for a second person who says the same.
/// Errors: `DecideError`.
pub fn decided(
    known: &FindingChanged,
    decision: FindingDecision,
) -> Result<FindingChanged, DecideError> {
    match (known.status, &known.decision) {
        (FindingStatus::Cleared, _) => return Err(DecideError::Cleared),
        (FindingStatus::Decided, Some(before)) => {
            return Err(DecideError::Decided { by: before.author.clone() });
        }
        (FindingStatus::Open | FindingStatus::Decided, _) => {}
    }
    let waiting = known.decision.as_ref().filter(|before| before.evidence == known.evidence);
    let first = waiting.map(|first| (&first.author, first.accept.as_str()));
    let said = (&decision.author, decision.accept.as_str());
    let standing = agree(first, said, known.severity)?;
    let (decision, is_whole) = match (waiting, standing) {
        (Some(first), Standing::Seconded) => {
            (FindingDecision { seconded_by: Some(decision.author), ..first.clone() }, true)
        }
        (_, standing) => (decision, standing != Standing::Waits),
    };
    Ok(FindingChanged {
        version: known.version.saturating_add(1),
        status: if is_whole { FindingStatus::Decided } else { FindingStatus::Open },
        run: None,
        decision: Some(FindingDecision { evidence: known.evidence, ..decision }),
        ..known.clone()
    })
}

/// What a person's word makes of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It takes a second person.
    Waits,
    /// It takes nobody else.
    Alone,
    /// It is the second person's.
    Seconded,
}

/// The one rule of two people, whatever they decide on: `first` is the word that waits, `said` is the one that comes, each
/// with who says it. Errors: the same person twice, or another word.
pub fn agree(
    first: Option<(&Author, &'static str)>,
    (author, word): (&Author, &'static str),
    severity: Severity,
) -> Result<Standing, DecideError> {
    match first {
        None if severity == Severity::Critical => Ok(Standing::Waits),
        None => Ok(Standing::Alone),
        Some((by, _)) if by == author => Err(DecideError::SamePerson { by: by.clone() }),
        Some((by, said)) if said != word => Err(DecideError::Disagree { by: by.clone(), said }),
        Some(_) => Ok(Standing::Seconded),
    }
}

#[cfg(test)]
mod tests;
