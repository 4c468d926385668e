//! Owns the fold: an order's state as a pure function of the set of facts known about it.
//!
//! Invariants: no clock, no configuration, no other order is read; arrival order and repeats don't
//! matter while nothing overflows; every list of `KnownFacts` is sorted by content, so that equal sets are
//! equal values. `apply` adds a fact to the set, `summarize` says what the set comes to.
//!
//! | File | Owns |
//! |---|---|
//! | `content` | a fact's content and its digest |
//! | `keep` | adding a fact, within the caps |
//! | `terms` | what the create requests asked for, and what agrees with it |
//! | `refs` | what is said of one ref, and what of it counts |
//! | `refunds` | what went back on one ref |
//! | `state` | where the order stands |
//! | `flags` | which flags hold, on which evidence |
//! | `decisions` | which flags are closed |
//! | `summary` | all of it as `Summary` |
//! | `rules` | which rules a generation is folded by |
//! | `table` | the state table of the docs, made from the rules |

mod content;
mod decisions;
mod flags;
mod keep;
mod refs;
mod refunds;
mod rules;
mod state;
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
use payfold_schemas::record::Position;

pub use content::Content;
pub use rules::Rules;
pub use summary::summarize;

/// What adding a fact did to the kept set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// The fact is new and kept.
    Added,
    /// The fact was known; its merged policy is another now.
    Merged,
    /// Over a cap: another fact gave way, or this one was the first ever left out.
    Overflowed,
    /// Known already, or left out of a set that had overflowed before.
    Unchanged,
}

impl Effect {
    /// Whether the kept set is another now: the version moves and an event tells of it.
    pub fn is_change(self) -> bool {
        match self {
            Self::Added | Self::Merged | Self::Overflowed => true,
            Self::Unchanged => false,
        }
    }
}

/// Adds a fact, read at `position`, to the kept facts of its order.
pub fn apply(facts: &mut KnownFacts, fact: &Fact, position: Position) -> Effect {
    keep::keep(facts, fact, position)
}

/// Folds facts in the order given; returns the kept set and how many of them changed it (the version).
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
