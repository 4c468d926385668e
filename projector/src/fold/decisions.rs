//! Owns the effect of decisions (D). A decision closes one flag while the flag's evidence is the
//! same as when the person decided. It changes no state. Decisions that disagree close nothing and
//! raise DECISIONS_CONFLICT.

use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Decision;
use payfold_schemas::order::{Flag, Known};

/// The id of the decision that closes a flag on this evidence: the smallest id if all decisions
/// agree; `None` if they disagree or there is none.
pub(super) fn closed_by(
    decisions: &[Known<Decision>],
    flag: Flag,
    evidence: Digest,
) -> Option<String> {
    let decisions_on_flag = || {
        let all = decisions.iter().map(|known| &known.content);
        all.filter(|decision| decision.flag == flag && decision.evidence == evidence)
    };
    let first = decisions_on_flag().next()?;
    // The list is sorted by id.
    decisions_on_flag().all(|decision| decision.accept == first.accept).then(|| first.id.clone())
}

/// The evidence of DECISIONS_CONFLICT: a digest over the (flag, evidence) pairs on which decisions
/// disagree; `None` if they agree on all.
pub(super) fn conflicts(decisions: &[Known<Decision>]) -> Option<Digest> {
    let mut pairs = Vec::new();
    for (known, later) in decisions.iter().zip(1..) {
        let (one, others) = (&known.content, decisions.get(later..).unwrap_or_default());
        let disagrees = |other: &Known<Decision>| {
            let same = other.content.flag == one.flag && other.content.evidence == one.evidence;
            same && other.content.accept != one.accept
        };
        if others.iter().any(disagrees) {
            pairs.push(Digest::of_content("decided on", &(one.flag, one.evidence)));
        }
    }
    (!pairs.is_empty()).then(|| Digest::of_set(Flag::DecisionsConflict.as_str(), pairs))
}
