//! Owns how a finding changes: opened, changed, decided, cleared, opened again. Pure. Invariant: what is the same is not
//! told again, so a repeated run appends nothing.

use payfold_schemas::finding::{
    DecisionEnd, EarlierDecision, FindingChanged, FindingDecision, FindingStatus,
};
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
    if known.status != FindingStatus::Open {
        return None;
    }
    let mut earlier_decisions = known.earlier_decisions.clone();
    if let Some(first) = known.decision.as_ref().filter(|first| first.accept != decision.accept) {
        let by = (&decision.author, decision.at);
        keep_earlier(&mut earlier_decisions, ended(first, (DecisionEnd::Replaced, None), by));
    }
    Some(FindingChanged {
        version: known.version.saturating_add(1),
        status: match word {
            Standing::Waits | Standing::Replaces => FindingStatus::Open,
            Standing::Alone | Standing::Seconded => FindingStatus::Decided,
        },
        run: None,
        decision: Some(decision),
        earlier_decisions,
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
    #[error(
        "this finding was decided by {by} at {at}: {said}. A decision is final on its evidence; if the evidence changes, \
         the finding opens again"
    )]
    Decided {
        /// Who: one person, or two.
        by: String,
        /// When the first of them decided.
        at: Time,
        /// What.
        said: &'static str,
    },
    /// The second person is the first.
    #[error(
        "{by} has decided this before; it is critical and takes a second person: the same command with another token \
         (--admin-token-file FILE). `withdraw` in place of the verb takes it back"
    )]
    SamePerson {
        /// Who.
        by: Author,
    },
    /// There is nothing to withdraw.
    #[error("no decision waits for a second person here: there is nothing to withdraw")]
    NothingWaits,
    /// Another person's decision waits.
    #[error(
        "the decision that waits is {by}'s, and only {by} can withdraw it. If you disagree, decide something else: your \
         decision takes its place, and needs a second person of its own"
    )]
    NotTheAuthor {
        /// Whose it is.
        by: Author,
    },
}

/// A person takes back what that person decided first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withdrawal {
    /// Who.
    pub author: Author,
    /// Why.
    pub reason: String,
    /// When.
    pub at: Time,
}

/// Earlier decisions that a finding carries; its older versions have the others.
const EARLIER_MAX: usize = 32;

/// What a person's word changes. What is critical waits open for a second person who says the same.
/// Errors: `DecideError`.
pub fn decided(
    known: &FindingChanged,
    decision: FindingDecision,
) -> Result<FindingChanged, DecideError> {
    let waiting = waiting(known)?;
    let first = waiting.map(|first| (&first.author, first.accept.as_str()));
    let said = (&decision.author, decision.accept.as_str());
    let standing = agree(first, said, known.severity)?;
    let (decision, is_whole) = match (waiting, standing) {
        (Some(first), Standing::Seconded) => {
            (FindingDecision { seconded_by: Some(decision.author), ..first.clone() }, true)
        }
        (_, standing) => (decision, standing == Standing::Alone),
    };
    let mut earlier_decisions = known.earlier_decisions.clone();
    if let (Some(first), false) = (waiting, standing == Standing::Seconded) {
        let by = (&decision.author, decision.at);
        keep_earlier(&mut earlier_decisions, ended(first, (DecisionEnd::Replaced, None), by));
    }
    Ok(FindingChanged {
        version: known.version.saturating_add(1),
        status: if is_whole { FindingStatus::Decided } else { FindingStatus::Open },
        run: None,
        decision: Some(FindingDecision { evidence: known.evidence, ..decision }),
        earlier_decisions,
        ..known.clone()
    })
}

/// What a person's withdrawal changes: the finding is as if nobody had decided, and names who had. Errors: `DecideError`.
pub fn withdrawn(
    known: &FindingChanged,
    withdrawal: Withdrawal,
) -> Result<FindingChanged, DecideError> {
    let first = waiting(known)?.ok_or(DecideError::NothingWaits)?;
    if first.author != withdrawal.author {
        return Err(DecideError::NotTheAuthor { by: first.author.clone() });
    }
    let end = (DecisionEnd::Withdrawn, Some(withdrawal.reason));
    let mut earlier_decisions = known.earlier_decisions.clone();
    keep_earlier(&mut earlier_decisions, ended(first, end, (&withdrawal.author, withdrawal.at)));
    let version = known.version.saturating_add(1);
    Ok(FindingChanged { version, run: None, decision: None, earlier_decisions, ..known.clone() })
}

/// The decision that waits for a second person, if there is one. Errors: the finding is decided or cleared.
fn waiting(known: &FindingChanged) -> Result<Option<&FindingDecision>, DecideError> {
    match (known.status, &known.decision) {
        (FindingStatus::Cleared, _) => Err(DecideError::Cleared),
        (FindingStatus::Decided, Some(before)) => Err(DecideError::Decided {
            by: people(&before.author, before.seconded_by.as_ref()),
            at: before.at,
            said: before.accept.as_str(),
        }),
        (FindingStatus::Open | FindingStatus::Decided, decision) => {
            Ok(decision.as_ref().filter(|before| before.evidence == known.evidence))
        }
    }
}

fn ended(
    first: &FindingDecision,
    (ended, ended_reason): (DecisionEnd, Option<String>),
    (by, at): (&Author, Time),
) -> EarlierDecision {
    EarlierDecision {
        accept: first.accept,
        author: first.author.clone(),
        reason: first.reason.clone(),
        at: first.at,
        ended,
        ended_by: by.clone(),
        ended_at: at,
        ended_reason,
    }
}

fn keep_earlier(earlier: &mut Vec<EarlierDecision>, one: EarlierDecision) {
    if earlier.len() >= EARLIER_MAX {
        earlier.remove(0);
    }
    earlier.push(one);
}

/// The one or two people of a decision, as people read it.
pub(crate) fn people(author: &Author, second: Option<&Author>) -> String {
    second.map_or_else(|| author.to_string(), |second| format!("{author} and {second}"))
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
    /// It is not what was decided first: it takes the place of that, and takes a second person.
    Replaces,
}

/// The one rule of two people, whatever they decide on: `first` is the word that waits, `said` is the one that comes, each
/// with who says it. Errors: the same person says the same twice.
pub fn agree(
    first: Option<(&Author, &'static str)>,
    (author, word): (&Author, &'static str),
    severity: Severity,
) -> Result<Standing, DecideError> {
    match first {
        None if severity == Severity::Critical => Ok(Standing::Waits),
        None => Ok(Standing::Alone),
        Some((_, said)) if said != word && severity == Severity::Critical => Ok(Standing::Replaces),
        Some((_, said)) if said != word => Ok(Standing::Alone),
        Some((by, _)) if by == author => Err(DecideError::SamePerson { by: by.clone() }),
        Some(_) => Ok(Standing::Seconded),
    }
}

#[cfg(test)]
mod tests;
