//! Owns the money of one payment or refund of ours.

use minicbor::{Decode, Encode};
use payfold_schemas::ids::EventRef;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::position::Position;
use payfold_schemas::time::Time;

/// An amount of money, and when it moved if that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Money {
    /// Minor units.
    #[n(0)]
    pub amount: Amount,
    /// The ISO 4217 currency.
    #[n(1)]
    pub currency: Currency,
    /// When it moved; `None` if that is not known.
    #[n(2)]
    pub at: Option<Time>,
}

/// A refund.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Refund {
    /// The refunded money.
    #[n(0)]
    pub money: Money,
    /// The partner's name of this refund, if it has one.
    #[n(1)]
    pub(crate) event_ref: Option<EventRef>,
    /// The record of `intake` that stated it first. The time it was received stands in while the
    /// money has no time of its own.
    #[n(2)]
    pub position: Position,
}
