//! Owns what adding a fact to the kept set of an order did.

/// What adding a fact did to the kept set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// The fact is new and kept.
    Added,
    /// The fact was known, and the merge has changed its policy.
    Merged,
    /// A cap was exceeded: another fact was displaced, or this one is the first that was left out.
    Overflowed,
    /// The fact was known, or is left out of a set that had overflowed before.
    Unchanged,
}

impl Effect {
    /// Whether the kept set has changed, so that the version grows and an event is published.
    pub fn is_change(self) -> bool {
        match self {
            Self::Added | Self::Merged | Self::Overflowed => true,
            Self::Unchanged => false,
        }
    }
}
