//! Owns our side of one order as it is compared: each of its refs, the payments on it and its
//! refunds. Pure. The rules of the projector's fold decide which payments count. Here they are
//! applied to each ref.

mod money;
mod totals;

use minicbor::{Decode, Encode};
use payfold_schemas::fact::QueryAnswer;
use payfold_schemas::ids::{MerchantCode, OrderId, ProviderRef, Reference};
use payfold_schemas::ipn::Status;
use payfold_schemas::order::{Known, KnownIpn, OrderState};
use payfold_schemas::order_money::{Asked, MoneyFacts, OrderMoney};
use payfold_schemas::position::Position;
use payfold_schemas::time::Time;

pub use self::money::{Money, Refund};
use self::totals::RefundTotals;
use crate::question::{answer_matches_notice, is_confirmed};

/// How long before an order was created something of it may be said to have been paid, ms. Clocks
/// differ by less, so an earlier time is a mistake of the partner's.
const EARLY_MS: i64 = 3_600_000;

/// An order. If the partner's records name no orders: one ref of an order.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct OurOrder {
    /// The account.
    #[n(0)]
    pub merchant_code: MerchantCode,
    /// The order.
    #[n(1)]
    pub order_id: OrderId,
    /// The shop's reference.
    #[n(2)]
    pub(crate) reference: Option<Reference>,
    /// The order's state.
    #[n(3)]
    pub state: OrderState,
    /// When the order was first seen. This is also the time of an undated payment.
    #[n(4)]
    pub(crate) first_seen: Time,
    /// The refs with a notice or an answer, sorted by ref.
    #[n(5)]
    pub(crate) refs: Vec<OurRef>,
}

/// What is known of one transaction of an order.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct OurRef {
    /// The partner's ref.
    #[n(0)]
    pub provider_ref: ProviderRef,
    /// Counting payments, one entry for each notice or answer that states another amount or time.
    /// Empty if the transaction isn't paid.
    #[n(1)]
    pub(crate) paid: Vec<Money>,
    /// Payments that confirmed notices state and that don't count: another amount than requested,
    /// or no create request.
    #[n(2)]
    pub claimed: Vec<Money>,
    /// The refunds.
    #[n(3)]
    pub(crate) refunds: Vec<Refund>,
    /// Another order of the account with the same ref.
    #[n(4)]
    pub(crate) shared_with: Option<OrderId>,
    /// Whether a confirmed notice names this ref.
    #[n(5)]
    pub(crate) noticed: bool,
    /// The amounts that the payment must have had, from the create requests. Only a ref that is
    /// known by refunds alone has them.
    #[n(6)]
    pub(crate) implied: Vec<Money>,
    /// Whether the refunds add up to an amount in `implied`, so the payment is refunded in full;
    /// false if `implied` is empty.
    #[n(7)]
    pub(crate) is_returned: bool,
    /// The record of `intake` since which a payment counts: its first statement, or what that had
    /// to wait for.
    #[n(8)]
    pub(crate) counts_since: Option<Position>,
}

/// What the amounts of a ref's refunds mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RefundAmounts {
    /// Separate amounts: those with a name of their own add up.
    Separate,
    /// Cumulative totals: the steps between the totals add up.
    Cumulative,
}

impl OurOrder {
    /// Whether a payment or a refund counts.
    pub(crate) fn has_moved_money(&self) -> bool {
        self.refs.iter().any(OurRef::is_paid)
    }

    /// Builds our side from an order's facts.
    pub(crate) fn of(order: OrderMoney) -> Self {
        let OrderMoney { key, first_seen, summary, facts } = order;
        let mut refs: Vec<OurRef> = Vec::new();
        let mut totals = RefundTotals::default();
        for known in &facts.ipns {
            add_notice(&mut refs, &mut totals, &facts, known);
        }
        for known in &facts.query_answers {
            let answer = &known.content;
            let money = Money { amount: answer.amount, currency: answer.currency, at: None };
            let known_ref = ref_entry(&mut refs, &answer.provider_ref);
            match answer.status {
                Status::Success if is_requested(&facts.creates, &money) => {
                    let requested = requested_by(&facts.creates, &money);
                    known_ref.add_payment(money, known.position.max(requested))
                }
                Status::Refunded if totals.has_ref(&answer.provider_ref) => {
                    totals.add(&answer.provider_ref, money, known.position);
                }
                // The notice may have stated a larger amount since.
                Status::Refunded if facts.ipns.iter().any(|ipn| states(&ipn.content, answer)) => {}
                Status::Refunded => known_ref.add_refund_once(money, known.position),
                Status::Success | Status::Failed | Status::Expired => {}
            }
        }
        let cumulative_refs = totals.refs();
        for (provider_ref, refund) in totals.steps() {
            ref_entry(&mut refs, &provider_ref).refunds.push(refund);
        }
        for known in refs.iter_mut().filter(|known| known.is_known_by_refunds()) {
            let parts = match cumulative_refs.contains(&known.provider_ref) {
                true => RefundAmounts::Cumulative,
                false => RefundAmounts::Separate,
            };
            known.imply_payment(&facts.creates, parts);
        }
        for known in &facts.shared_refs {
            let shared = &known.content;
            if let Some(known_ref) = refs.iter_mut().find(|r| r.provider_ref == shared.provider_ref)
            {
                known_ref.shared_with.get_or_insert_with(|| shared.other_order.clone());
            }
        }
        refs.sort_by(|a, b| a.provider_ref.cmp(&b.provider_ref));
        let mut ours = Self {
            merchant_code: key.merchant_code,
            order_id: key.order_id,
            reference: summary.reference,
            state: summary.state,
            first_seen,
            refs,
        };
        if !facts.creates.is_empty() {
            ours.remove_times_before_order();
        }
        ours
    }

    /// Removes the times of refunds from before the order: they are of no day.
    fn remove_times_before_order(&mut self) {
        let earliest = self.first_seen.plus_ms(-EARLY_MS);
        for refund in self.refs.iter_mut().flat_map(|known| &mut known.refunds) {
            refund.money.at = refund.money.at.filter(|at| *at >= earliest);
        }
    }

    /// Whether a refund has no time.
    pub(crate) fn has_undated_refunds(&self) -> bool {
        self.refs.iter().flat_map(|known| &known.refunds).any(|refund| refund.money.at.is_none())
    }

    /// The latest time of a payment or refund that is not after `latest`. If there is none, the
    /// time when the order was first seen.
    pub(crate) fn last_moved(&self, latest: Time) -> Time {
        let of_ref = |known: &OurRef| {
            let moved = known.paid.iter().chain(&known.claimed);
            let times = moved.chain(known.refunds.iter().map(|refund| &refund.money));
            times.filter_map(|money| money.at).filter(|at| *at <= latest).max()
        };
        self.refs.iter().filter_map(of_ref).max().unwrap_or(self.first_seen)
    }

    /// When each payment and refund was made, and the record of `intake` since which it counts.
    pub(crate) fn items(&self) -> impl Iterator<Item = (Time, Position)> {
        self.refs.iter().flat_map(|known| {
            let paid = known.counts_since.map(|position| (known.paid_at(self), position));
            let refunds = known.refunds.iter();
            let dated = |refund: &Refund| Some((refund.money.at?, refund.position));
            paid.into_iter().chain(refunds.filter_map(dated))
        })
    }

    /// Finds a ref.
    pub(crate) fn find(&self, provider_ref: &ProviderRef) -> Option<&OurRef> {
        self.refs.iter().find(|known| known.provider_ref == *provider_ref)
    }
}

impl OurRef {
    /// Whether a payment or refund on it is known here.
    pub(crate) fn is_paid(&self) -> bool {
        !self.paid.is_empty() || !self.refunds.is_empty()
    }

    /// When it was paid. If no payment is dated, or the time is from before the order, which a
    /// payment that counts can't be: when the order was first seen.
    pub(crate) fn paid_at(&self, order: &OurOrder) -> Time {
        let earliest = self.paid.iter().filter_map(|money| money.at).min();
        let earliest = earliest.filter(|at| *at >= order.first_seen.plus_ms(-EARLY_MS));
        earliest.unwrap_or(order.first_seen)
    }

    /// The counting payment, or the one that a full refund implies.
    pub(crate) fn payment(&self) -> Option<Money> {
        let implied = || self.implied.iter().find(|_| self.is_returned);
        self.paid.first().or_else(implied).copied()
    }

    /// The payment, else the largest refund.
    pub(crate) fn money(&self) -> Option<Money> {
        self.payment().or_else(|| self.largest_refund())
    }

    /// Whether there are refunds and no counting payment.
    pub(crate) fn is_known_by_refunds(&self) -> bool {
        self.paid.is_empty() && !self.refunds.is_empty()
    }

    /// The largest refund.
    pub(crate) fn largest_refund(&self) -> Option<Money> {
        self.refunds.iter().map(|refund| refund.money).max_by_key(|money| money.amount)
    }

    /// Works out the payment that these refunds imply: SUCCESS must have the requested amount
    /// (contract, section 2.3). As in the fold, partial refunds without a name don't add up, unless
    /// they are steps of a total.
    fn imply_payment(&mut self, creates: &[Known<Asked>], parts: RefundAmounts) {
        let asked = |known: &Known<Asked>| {
            let Asked { amount, currency } = known.content;
            Money { amount, currency, at: None }
        };
        let returned = |asked: &Money| {
            let of_currency = || {
                let refunds = self.refunds.iter();
                refunds.filter(|refund| refund.money.currency == asked.currency)
            };
            let adds_up =
                |refund: &&Refund| parts == RefundAmounts::Cumulative || refund.event_ref.is_some();
            let sum = of_currency().filter(adds_up).map(|refund| refund.money.amount.minor());
            of_currency().any(|refund| refund.money.amount == asked.amount)
                || sum.fold(0, i64::saturating_add) >= asked.amount.minor()
        };
        let (whole, rest): (Vec<Money>, Vec<Money>) =
            creates.iter().map(asked).partition(|asked| returned(asked));
        self.is_returned = !whole.is_empty();
        // The amount that was refunded in full comes first: it is the payment.
        self.implied = [whole, rest].concat();
    }

    fn add_payment(&mut self, money: Money, since: Position) {
        self.counts_since = Some(self.counts_since.map_or(since, |first| first.min(since)));
        // An undated answer adds nothing to a dated notice of the same money.
        let same = |known: &Money| (known.amount, known.currency) == (money.amount, money.currency);
        if money.at.is_some() || !self.paid.iter().any(same) {
            self.paid.push(money);
        }
    }

    /// Adds a refund of a notice. Of several amounts of one event of the partner the largest
    /// counts, as in the fold, and the earliest time.
    fn add_refund(&mut self, refund: Refund) {
        let is_same = |known: &&mut Refund| {
            known.event_ref.is_some()
                && known.event_ref == refund.event_ref
                && known.money.currency == refund.money.currency
        };
        match self.refunds.iter_mut().find(is_same) {
            Some(known) => {
                known.money.amount = known.money.amount.max(refund.money.amount);
                known.money.at = [known.money.at, refund.money.at].into_iter().flatten().min();
                known.position = known.position.min(refund.position);
            }
            None => self.refunds.push(refund),
        }
    }

    /// Adds a refund of an answer, unless a refund of the same money is known: an answer does not
    /// say which refund it means.
    fn add_refund_once(&mut self, money: Money, position: Position) {
        let same = |known: &Refund| {
            (known.money.amount, known.money.currency) == (money.amount, money.currency)
        };
        if !self.refunds.iter().any(same) {
            self.refunds.push(Refund { money, event_ref: None, position });
        }
    }
}

/// Adds a notice's statements about its ref.
fn add_notice(
    refs: &mut Vec<OurRef>,
    totals: &mut RefundTotals,
    facts: &MoneyFacts,
    known: &Known<KnownIpn>,
) {
    let ipn = &known.content;
    if ipn.policy.placeholder_ref {
        return;
    }
    let confirmed = is_confirmed(ipn, &facts.query_answers);
    let money =
        Money { amount: ipn.money.amount, currency: ipn.money.currency, at: ipn.money.paid_at };
    let known_ref = ref_entry(refs, &ipn.provider_ref);
    known_ref.noticed |= confirmed;
    match ipn.status {
        Status::Success if confirmed && is_requested(&facts.creates, &money) => {
            let requested = requested_by(&facts.creates, &money);
            let confirmed = confirmed_by(ipn, &facts.query_answers);
            let since = known.position.max(requested).max(confirmed);
            known_ref.add_payment(money, since)
        }
        Status::Success if confirmed => known_ref.claimed.push(money),
        Status::Refunded if confirmed && totals::is_cumulative(ipn) => {
            totals.add(&ipn.provider_ref, money, known.position);
        }
        Status::Refunded if confirmed => {
            let event_ref = ipn.money.event_ref.clone();
            known_ref.add_refund(Refund { money, event_ref, position: known.position });
        }
        Status::Success | Status::Refunded | Status::Failed | Status::Expired => {}
    }
}

/// Whether a notice that counts has the content of an answer.
fn states(ipn: &KnownIpn, answer: &QueryAnswer) -> bool {
    !ipn.policy.placeholder_ref && answer_matches_notice(answer, ipn)
}

/// The ref's entry; makes one if there is none.
fn ref_entry<'a>(refs: &'a mut Vec<OurRef>, provider_ref: &ProviderRef) -> &'a mut OurRef {
    let index = refs.iter().position(|known| known.provider_ref == *provider_ref);
    let index = index.unwrap_or_else(|| {
        refs.push(OurRef {
            provider_ref: provider_ref.clone(),
            paid: Vec::new(),
            claimed: Vec::new(),
            refunds: Vec::new(),
            shared_with: None,
            noticed: false,
            implied: Vec::new(),
            is_returned: false,
            counts_since: None,
        });
        refs.len() - 1
    });
    &mut refs[index]
}

/// The first create request of this money.
fn requested_by(creates: &[Known<Asked>], money: &Money) -> Position {
    let equal = creates.iter().filter(|known| {
        known.content.amount == money.amount && known.content.currency == money.currency
    });
    equal.map(|known| known.position).min().unwrap_or_default()
}

/// The first answer that confirms a notice; the default if it counts by itself.
fn confirmed_by(ipn: &KnownIpn, answers: &[Known<QueryAnswer>]) -> Position {
    let equal = answers.iter().filter(|known| answer_matches_notice(&known.content, ipn));
    let first = equal.map(|known| known.position).min().unwrap_or_default();
    if ipn.policy.unconfirmed { first } else { Position::default() }
}

/// Whether a create request has this amount and currency.
fn is_requested(creates: &[Known<Asked>], money: &Money) -> bool {
    creates.iter().any(|known| {
        known.content.amount == money.amount && known.content.currency == money.currency
    })
}

#[cfg(test)]
mod tests;
