//! Owns what decisions (D) do: each closes one flag while that flag's evidence is what the person saw.
//! It changes no state. Decisions that disagree close nothing and raise DECISIONS_CONFLICT.

use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Decision;
use payfold_schemas::order::{Flag, Known};

/// The id of the decision that closes a flag on this evidence: the smallest, if all agree.
pub(super) fn closed_by(
    decisions: &[Known<Decision>],
    flag: Flag,
    evidence: Digest,
) -> Option<String> {
    let on_it = || {
        let all = decisions.iter().map(|known| &known.content);
        all.filter(|decision| decision.flag == flag && decision.evidence == evidence)
    };
    let first = on_it().next()?;
    // The list is sorted by id.
    on_it().all(|decision| decision.accept == first.accept).then(|| first.id.clone())
}

/// The evidence of DECISIONS_CONFLICT: a digest over the (flag, evidence) that decisions disagree on.
/// None if they agree on all.
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
