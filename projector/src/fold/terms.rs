//! Owns the terms of an order, which are the amounts its create requests (C) ask for, and the match
//! of a statement with them. Of two different C, a match with either is enough; CREATE_CONFLICT
//! keeps fulfil false meanwhile.

use std::collections::BTreeMap;

use payfold_schemas::fact::Create;
use payfold_schemas::ipn::Status;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::order::Known;

/// How the amount of a statement matches the terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TermsMatch {
    /// The amount and currency are those of a C.
    Full,
    /// A refund in the currency of a C, below its amount.
    Part,
    /// Anything else, and everything while no C is known.
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

    /// Whether the amount and currency are those of a C.
    pub(super) fn agree(self, amount: Amount, currency: Currency) -> bool {
        self.iter().any(|create| create.amount == amount && create.currency == currency)
    }

    /// Matches a statement of this status with the terms.
    pub(super) fn match_amount(
        self,
        status: Status,
        amount: Amount,
        currency: Currency,
    ) -> TermsMatch {
        if self.agree(amount, currency) {
            return TermsMatch::Full;
        }
        let below = |create: &Create| create.currency == currency && amount < create.amount;
        if status == Status::Refunded && self.iter().any(below) {
            TermsMatch::Part
        } else {
            TermsMatch::Foreign
        }
    }

    /// Whether some C asks in this currency.
    pub(super) fn ask_in(self, currency: Currency) -> bool {
        self.iter().any(|create| create.currency == currency)
    }

    /// Whether some C asks for this number of minor units, in any currency.
    pub(super) fn ask_for(self, amount: Amount) -> bool {
        self.iter().any(|create| create.amount == amount)
    }

    /// The largest amount asked for in each currency, minor units.
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
