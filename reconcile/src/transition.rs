//! Owns the transitions of a finding: it opens, changes, is decided, is cleared, and opens again.
//! Pure. Invariant: an unchanged finding is not published again, so a repeated run appends nothing.

use std::fmt::Display;

use payfold_schemas::finding::{
    DecisionEnd, EarlierDecision, FindingChanged, FindingDecision, FindingStatus,
};
use payfold_schemas::ids::Author;
use payfold_schemas::order::Severity;
use payfold_schemas::time::Time;

use super::detected_finding::DetectedFinding;

/// What a change of findings is made by: a run, or a decision or recheck outside of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChangeMoment<'a> {
    /// The day that a new finding gets, `2026-01-31`.
    pub day: &'a str,
    /// The run; `None` outside of one.
    pub run: Option<&'a str>,
    /// When the run began, or the time of the change.
    pub at: Time,
}

/// Who ends a decision when its finding opens again.
const THIS_SYSTEM: &str = "payfold";

/// The change that a detected finding makes: the known finding opens, or opens again on new
/// evidence, and keeps its decisions as earlier ones. `None` if it is uncleared on the same
/// evidence.
pub(crate) fn open_finding(
    known: Option<&FindingChanged>,
    detected: DetectedFinding,
    moment: ChangeMoment<'_>,
) -> Option<FindingChanged> {
    let Some(known) = known else {
        return Some(detected.into_opened(1, (moment.day, moment.run), moment.at));
    };
    if is_unchanged(known, &detected) {
        return None;
    }
    let version = known.version.saturating_add(1);
    let mut earlier_decisions = known.earlier_decisions.clone();
    if let Some(decision) = &known.decision {
        let by = (&Author::parse(THIS_SYSTEM).expect("it is printable"), moment.at);
        let ended = end_decision(decision, (DecisionEnd::Reopened, None), by);
        keep_earlier(&mut earlier_decisions, ended);
    }
    let opened = detected.into_opened(version, (&known.day, moment.run), known.first_seen);
    Some(FindingChanged { earlier_decisions, ..opened })
}

/// Whether a known finding is uncleared and has the evidence that was detected now.
pub(crate) fn is_unchanged(known: &FindingChanged, detected: &DetectedFinding) -> bool {
    known.evidence == detected.evidence && known.status != FindingStatus::Cleared
}

/// The same finding with the severity, file, lines and money at risk that were read now; `None` if
/// those are the same too. It keeps its status and the run that opened it.
pub(crate) fn update_citation(
    known: &FindingChanged,
    detected: DetectedFinding,
) -> Option<FindingChanged> {
    let updated = FindingChanged {
        severity: detected.severity,
        partners: detected.partners,
        lines: detected.lines,
        money_at_risk: detected.at_risk,
        ..known.clone()
    };
    (updated != *known)
        .then(|| FindingChanged { version: known.version.saturating_add(1), ..updated })
}

/// The change that a decision on a flag makes of the flag's finding; `None` if the finding is
/// cleared or decided.
pub(crate) fn apply_flag_decision(
    known: &FindingChanged,
    decision: FindingDecision,
    effect: DecisionEffect,
) -> Option<FindingChanged> {
    if known.status != FindingStatus::Open {
        return None;
    }
    let mut earlier_decisions = known.earlier_decisions.clone();
    if let Some(first) = known.decision.as_ref().filter(|first| first.accept != decision.accept) {
        let by = (&decision.author, decision.at);
        keep_earlier(
            &mut earlier_decisions,
            end_decision(first, (DecisionEnd::Replaced, None), by),
        );
    }
    Some(FindingChanged {
        version: known.version.saturating_add(1),
        status: match effect {
            DecisionEffect::AwaitsSecond | DecisionEffect::ReplacesFirst => FindingStatus::Open,
            DecisionEffect::DecidedAlone | DecisionEffect::DecidedBySecond => {
                FindingStatus::Decided
            }
        },
        run: None,
        decision: Some(decision),
        earlier_decisions,
        ..known.clone()
    })
}

/// The change that clears a finding without a cause; `None` if it is cleared already.
pub(crate) fn clear_finding(
    known: &FindingChanged,
    moment: ChangeMoment<'_>,
) -> Option<FindingChanged> {
    (known.status != FindingStatus::Cleared).then(|| FindingChanged {
        version: known.version.saturating_add(1),
        status: FindingStatus::Cleared,
        money_at_risk: 0,
        run: moment.run.map(str::to_owned),
        action: "nothing: its cause has gone".to_owned(),
        ..known.clone()
    })
}

/// Why a decision or withdrawal can't be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecideError {
    /// The finding is cleared.
    #[error("this finding is cleared: its cause has gone, and there is nothing left to decide")]
    Cleared,
    /// The finding has a final decision.
    #[error(
        "this finding was decided by {by} at {at}: {said}. A decision is final on its evidence; \
         if the evidence changes, the finding opens again"
    )]
    Decided {
        /// Who decided: one person, or two.
        by: String,
        /// When the first of them decided.
        at: Time,
        /// The decision.
        said: &'static str,
    },
    /// The second decision is by the author of the first.
    #[error(
        "{by} has decided this before. It is critical and waits for a second person, who runs \
         the same command with their own token (--admin-token-file FILE). {by} can withdraw it: \
         payfold reconcile withdraw, or payfold quarantine withdraw for a notice"
    )]
    SamePerson {
        /// The person.
        by: Author,
    },
    /// No decision waits.
    #[error("no decision waits for a second person here: there is nothing to withdraw")]
    NothingWaits,
    /// The waiting decision is another person's.
    #[error(
        "the decision that waits is {by}'s, and only {by} can withdraw it. If you disagree, \
         decide something else: your decision takes its place, and needs a second person of its \
         own"
    )]
    NotTheAuthor {
        /// The author of the waiting decision.
        by: Author,
    },
}

/// A person's withdrawal of their own first decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Withdrawal {
    /// Who withdraws.
    pub author: Author,
    /// The person's reason.
    pub reason: String,
    /// When it is withdrawn.
    pub at: Time,
}

/// Earlier decisions that an event of a finding carries, at most; older events have the others.
const EARLIER_MAX: usize = 32;

/// The change that a decision makes. A critical finding stays open until a second person decides
/// the same. Errors: `DecideError`.
pub(crate) fn apply_decision(
    known: &FindingChanged,
    decision: FindingDecision,
) -> Result<FindingChanged, DecideError> {
    let waiting = waiting_decision(known)?;
    let first = waiting.map(|first| (&first.author, first.accept.as_str()));
    let new = (&decision.author, decision.accept.as_str());
    let effect = combine_decisions(first, new, known.severity)?;
    let (decision, is_final) = match (waiting, effect) {
        (Some(first), DecisionEffect::DecidedBySecond) => {
            let (seconded_by, second_reason) = (Some(decision.author), Some(decision.reason));
            (FindingDecision { seconded_by, second_reason, ..first.clone() }, true)
        }
        (_, effect) => (decision, effect == DecisionEffect::DecidedAlone),
    };
    let mut earlier_decisions = known.earlier_decisions.clone();
    if let (Some(first), false) = (waiting, effect == DecisionEffect::DecidedBySecond) {
        let by = (&decision.author, decision.at);
        keep_earlier(
            &mut earlier_decisions,
            end_decision(first, (DecisionEnd::Replaced, None), by),
        );
    }
    Ok(FindingChanged {
        version: known.version.saturating_add(1),
        status: if is_final { FindingStatus::Decided } else { FindingStatus::Open },
        run: None,
        decision: Some(FindingDecision { evidence: known.evidence, ..decision }),
        earlier_decisions,
        ..known.clone()
    })
}

/// The change that a withdrawal makes: the finding is undecided again and lists the decision among
/// the earlier ones. Errors: `DecideError`.
pub(crate) fn withdraw_decision(
    known: &FindingChanged,
    withdrawal: Withdrawal,
) -> Result<FindingChanged, DecideError> {
    let first = waiting_decision(known)?.ok_or(DecideError::NothingWaits)?;
    if first.author != withdrawal.author {
        return Err(DecideError::NotTheAuthor { by: first.author.clone() });
    }
    let end = (DecisionEnd::Withdrawn, Some(withdrawal.reason));
    let mut earlier_decisions = known.earlier_decisions.clone();
    keep_earlier(
        &mut earlier_decisions,
        end_decision(first, end, (&withdrawal.author, withdrawal.at)),
    );
    let version = known.version.saturating_add(1);
    Ok(FindingChanged { version, run: None, decision: None, earlier_decisions, ..known.clone() })
}

/// The decision that waits for a second person, if there is one. Errors: the finding is decided or
/// cleared.
fn waiting_decision(known: &FindingChanged) -> Result<Option<&FindingDecision>, DecideError> {
    match (known.status, &known.decision) {
        (FindingStatus::Cleared, _) => Err(DecideError::Cleared),
        (FindingStatus::Decided, Some(before)) => Err(DecideError::Decided {
            by: format_people(&before.author, before.seconded_by.as_ref()),
            at: before.at,
            said: before.accept.as_str(),
        }),
        (FindingStatus::Open | FindingStatus::Decided, decision) => {
            Ok(decision.as_ref().filter(|before| before.evidence == known.evidence))
        }
    }
}

fn end_decision(
    first: &FindingDecision,
    (ended, ended_reason): (DecisionEnd, Option<String>),
    (by, at): (&Author, Time),
) -> EarlierDecision {
    EarlierDecision {
        accept: first.accept,
        author: first.author.clone(),
        seconded_by: first.seconded_by.clone(),
        second_reason: first.second_reason.clone(),
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

/// The names of the one or two people of a decision, for a text.
pub fn format_people(author: impl Display, second: Option<impl Display>) -> String {
    second.map_or_else(|| author.to_string(), |second| format!("{author} and {second}"))
}

/// What a decision leads to under the rule of two people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionEffect {
    /// It waits for a second person, who has to decide the same.
    AwaitsSecond,
    /// It is final: one person is enough.
    DecidedAlone,
    /// It is final: a second person has decided the same.
    DecidedBySecond,
    /// It differs from the first decision, takes its place, and waits for a second person.
    ReplacesFirst,
}

/// The rule of two people, for findings, flags and notices alike. `first` is the decision that
/// waits; `author` and `decision` are the new one. Errors: the same person decides the same twice.
pub(crate) fn combine_decisions(
    first: Option<(&Author, &'static str)>,
    (author, decision): (&Author, &'static str),
    severity: Severity,
) -> Result<DecisionEffect, DecideError> {
    match first {
        None if severity == Severity::Critical => Ok(DecisionEffect::AwaitsSecond),
        None => Ok(DecisionEffect::DecidedAlone),
        Some((_, before)) if before != decision && severity == Severity::Critical => {
            Ok(DecisionEffect::ReplacesFirst)
        }
        Some((_, before)) if before != decision => Ok(DecisionEffect::DecidedAlone),
        Some((by, _)) if by == author => Err(DecideError::SamePerson { by: by.clone() }),
        Some(_) => Ok(DecisionEffect::DecidedBySecond),
    }
}

#[cfg(test)]
mod tests;
