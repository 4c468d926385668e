//! Owns the terms of an order, what its create requests (C) asked for, and what agrees with them.
//! Of two different C, either's terms will do (CREATE_CONFLICT keeps fulfil false meanwhile).

use std::collections::BTreeMap;

use payfold_schemas::fact::Create;
use payfold_schemas::ipn::Status;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::order::Known;

/// How an amount said of a ref stands to the terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Amount and currency are a C's.
    Whole,
    /// A refund in a C's currency and below its amount.
    Part,
    /// Neither; also everything while no C is known.
    Foreign,
}

/// The create requests of an order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms<'a>(&'a [Known<Create>]);

impl<'a> Terms<'a> {
    pub(super) fn new(creates: &'a [Known<Create>]) -> Self {
        Self(creates)
    }

    pub(super) fn iter(self) -> impl Iterator<Item = &'a Create> {
        self.0.iter().map(|known| &known.content)
    }

    /// Whether amount and currency are a C's own.
    pub(super) fn agree(self, amount: Amount, currency: Currency) -> bool {
        self.iter().any(|create| create.amount == amount && create.currency == currency)
    }

    /// How a statement of this status stands to the terms.
    pub(super) fn standing(self, status: Status, amount: Amount, currency: Currency) -> Standing {
        if self.agree(amount, currency) {
            return Standing::Whole;
        }
        let below = |create: &Create| create.currency == currency && amount < create.amount;
        if status == Status::Refunded && self.iter().any(below) {
            Standing::Part
        } else {
            Standing::Foreign
        }
    }

    /// Whether some C asks in this currency.
    pub(super) fn ask_in(self, currency: Currency) -> bool {
        self.iter().any(|create| create.currency == currency)
    }

    /// Whether some C asks for this number of minor units, in whatever currency.
    pub(super) fn ask_for(self, amount: Amount) -> bool {
        self.iter().any(|create| create.amount == amount)
    }

    /// What C is in each currency: the largest amount asked for in it, minor units.
    pub(super) fn largest_by_currency(self) -> BTreeMap<Currency, i64> {
        let mut largest = BTreeMap::new();
        for create in self.iter() {
            let known = largest.entry(create.currency).or_default();
            *known = create.amount.minor().max(*known);
        }
        largest
    }

    /// The largest amount a C asks for, minor units; 0 without one.
    pub(super) fn largest(self) -> i64 {
        self.iter().map(|create| create.amount.minor()).max().unwrap_or(0)
    }
}
