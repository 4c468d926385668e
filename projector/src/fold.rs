//! Owns the fold: an order's state as a pure function of the set of facts known about it.
//!
//! Invariants: no clock, no configuration, no other order is read; arrival order and repeats don't
//! matter while nothing overflows; every list of `KnownFacts` is sorted by content, so that equal
//! sets are equal values. `apply` adds a fact to the set, `summarize` computes the state from
//! the set.
//!
//! | File | Owns |
//! |---|---|
//! | `content` | a fact's content and its digest |
//! | `effect` | the effect of adding a fact |
//! | `insertion` | adding a fact, within the caps |
//! | `terms` | what the create requests asked for, and what agrees with it |
//! | `statement` | the statements about each ref, and which of them count |
//! | `refs` | the outcome of each ref |
//! | `refunds` | the refunds of one ref |
//! | `state` | the state of the order |
//! | `flags` | which flags hold, on which evidence |
//! | `decisions` | which flags are closed |
//! | `summary` | all of these as a `Summary` |
//! | `rules` | the rules by which a build is folded |
//! | `table` | the state table of the docs, made from the rules |

mod content;
mod decisions;
mod effect;
mod flags;
mod insertion;
mod refs;
mod refunds;
mod rules;
mod state;
mod statement;
mod summary;
pub mod table;
mod terms;
mod variants;

#[cfg(test)]
pub(crate) mod testkit;
#[cfg(test)]
mod tests;

use payfold_schemas::fact::Fact;
use payfold_schemas::order::KnownFacts;
use payfold_schemas::position::Position;

pub use content::FactContent;
pub use effect::Effect;
pub use rules::FoldRules;
pub use summary::summarize;

/// Adds a fact, read at `position`, to the kept facts of its order.
pub fn apply(facts: &mut KnownFacts, fact: &Fact, position: Position) -> Effect {
    insertion::insert_fact(facts, fact, position)
}

/// Folds facts in the order given; returns the kept set and how many of them changed it (the
/// version).
pub fn fold(facts: impl IntoIterator<Item = (Position, Fact)>) -> (KnownFacts, u64) {
    let mut known = KnownFacts::default();
    let mut version = 0_u64;
    for (position, fact) in facts {
        if apply(&mut known, &fact, position).is_change() {
            version = version.saturating_add(1);
        }
    }
    (known, version)
}
