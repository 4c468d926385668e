//! Owns what is known here of one order as its books are compared: each of its refs, what was paid on it and what went
//! back. Pure; the same rules of what counts as in the fold, told ref by ref.

mod totals;

use minicbor::{Decode, Encode};
use payfold_schemas::ids::{EventRef, MerchantCode, OrderId, ProviderRef, Reference};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::order::{Asked, Known, KnownIpn, MoneyFacts, OrderMoney, OrderState};
use payfold_schemas::record::Position;
use payfold_schemas::time::Time;

use self::totals::Totals;
use crate::stuck::says_as;

/// One order, or one ref of it where the partner's records know no orders.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct OurOrder {
    /// Which account.
    #[n(0)]
    pub merchant_code: MerchantCode,
    /// Which order.
    #[n(1)]
    pub order_id: OrderId,
    /// The shop's reference.
    #[n(2)]
    pub reference: Option<Reference>,
    /// Where it stands.
    #[n(3)]
    pub state: OrderState,
    /// When it was first seen: the time of a payment that nobody dated.
    #[n(4)]
    pub first_seen: Time,
    /// Its refs that something is said of, by ref.
    #[n(5)]
    pub refs: Vec<OurRef>,
}

/// What is known of one transaction of an order.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct OurRef {
    /// Which.
    #[n(0)]
    pub provider_ref: ProviderRef,
    /// What was paid, told in as many ways as notices and answers did; none if it isn't paid.
    #[n(1)]
    pub paid: Vec<Money>,
    /// What notices say was paid and that does not count: another amount, nothing asked for, not confirmed.
    #[n(2)]
    pub claimed: Vec<Money>,
    /// What went back.
    #[n(3)]
    pub refunds: Vec<Refund>,
    /// Another order of the account has this ref too.
    #[n(4)]
    pub shared_with: Option<OrderId>,
    /// Whether a notice told anything of it.
    #[n(5)]
    pub noticed: bool,
    /// What its payment has to be: the money that was asked for. Only of a ref that is known by refunds alone.
    #[n(6)]
    pub implied: Vec<Money>,
    /// Whether all of `implied` went back, so that the payment is over; false where `implied` is empty.
    #[n(7)]
    pub is_returned: bool,
}

/// Money, and when it was paid if that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Money {
    /// Minor units.
    #[n(0)]
    pub amount: Amount,
    /// ISO 4217.
    #[n(1)]
    pub currency: Currency,
    /// When.
    #[n(2)]
    pub at: Option<Time>,
}

/// Money that went back.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Refund {
    /// How much.
    #[n(0)]
    pub money: Money,
    /// The partner's name of this refund, if it has one.
    #[n(1)]
    pub event_ref: Option<EventRef>,
    /// The record that told it: its receipt dates it where nothing else does.
    #[n(2)]
    pub position: Position,
}

/// What the amounts of a ref's refunds are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parts {
    /// One by one: those with a name of their own add up.
    Named,
    /// As all that went back so far: the steps between the totals add up.
    Totals,
}

impl OurOrder {
    /// What is known of an order.
    pub fn of(order: OrderMoney) -> Self {
        let OrderMoney { key, first_seen, summary, facts } = order;
        let mut refs: Vec<OurRef> = Vec::new();
        let mut totals = Totals::default();
        for known in &facts.ipns {
            add_notice(&mut refs, &mut totals, &facts, known);
        }
        for known in &facts.query_answers {
            let answer = &known.content;
            let money = Money { amount: answer.amount, currency: answer.currency, at: None };
            let entry = entry(&mut refs, &answer.provider_ref);
            match answer.status {
                Status::Success if counts(&facts.creates, &money) => entry.pays(money),
                Status::Refunded if totals.are_told_of(&answer.provider_ref) => {
                    totals.add(&answer.provider_ref, money, known.position);
                }
                Status::Refunded => entry.refunds_once(money, known.position),
                Status::Success | Status::Failed | Status::Expired => {}
            }
        }
        let told_as_totals = totals.refs();
        for (provider_ref, refund) in totals.steps() {
            entry(&mut refs, &provider_ref).refunds.push(refund);
        }
        for known in refs.iter_mut().filter(|known| known.is_known_by_refunds()) {
            let parts = match told_as_totals.contains(&known.provider_ref) {
                true => Parts::Totals,
                false => Parts::Named,
            };
            known.imply(&facts.creates, parts);
        }
        for known in &facts.shared_refs {
            let shared = &known.content;
            if let Some(entry) = refs.iter_mut().find(|r| r.provider_ref == shared.provider_ref) {
                entry.shared_with.get_or_insert_with(|| shared.other_order.clone());
            }
        }
        refs.sort_by(|a, b| a.provider_ref.cmp(&b.provider_ref));
        Self {
            merchant_code: key.merchant_code,
            order_id: key.order_id,
            reference: summary.reference,
            state: summary.state,
            first_seen,
            refs,
        }
    }

    /// Whether a refund says no time.
    pub(crate) fn has_undated_refunds(&self) -> bool {
        self.refs.iter().flat_map(|known| &known.refunds).any(|refund| refund.money.at.is_none())
    }

    /// When money last moved on it, as far as that is dated and not after `latest`; else when it was first seen.
    pub(crate) fn last_moved(&self, latest: Time) -> Time {
        let of_ref = |known: &OurRef| {
            let moved = known.paid.iter().chain(&known.claimed);
            let times = moved.chain(known.refunds.iter().map(|refund| &refund.money));
            times.filter_map(|money| money.at).filter(|at| *at <= latest).max()
        };
        self.refs.iter().filter_map(of_ref).max().unwrap_or(self.first_seen)
    }

    /// The ref of this name.
    pub(crate) fn find(&self, provider_ref: &ProviderRef) -> Option<&OurRef> {
        self.refs.iter().find(|known| known.provider_ref == *provider_ref)
    }
}

impl OurRef {
    /// Whether money moved on it, as far as is known here.
    pub(crate) fn is_paid(&self) -> bool {
        !self.paid.is_empty() || !self.refunds.is_empty()
    }

    /// When it was paid; the order's first sight where nobody dated it.
    pub(crate) fn paid_at(&self, order: &OurOrder) -> Time {
        self.paid.iter().filter_map(|money| money.at).min().unwrap_or(order.first_seen)
    }

    /// A counting success, or the payment that a refund in full implies.
    pub(crate) fn payment(&self) -> Option<Money> {
        let implied = || self.implied.iter().find(|_| self.is_returned);
        self.paid.first().or_else(implied).copied()
    }

    /// The money that moved on it: the payment, else the largest refund.
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

    /// Works out what the payment was that these refunds imply: SUCCESS has to say the amount that was asked for (contract,
    /// section 2.3). As in the fold, parts without a name never add up, unless they are steps of a total.
    fn imply(&mut self, creates: &[Known<Asked>], parts: Parts) {
        let asked = |known: &Known<Asked>| {
            let Asked { amount, currency } = known.content;
            Money { amount, currency, at: None }
        };
        let returned = |asked: &Money| {
            let of_currency = || {
                let refunds = self.refunds.iter();
                refunds.filter(|refund| refund.money.currency == asked.currency)
            };
            let adds_up = |refund: &&Refund| parts == Parts::Totals || refund.event_ref.is_some();
            let sum = of_currency().filter(adds_up).map(|refund| refund.money.amount.minor());
            of_currency().any(|refund| refund.money.amount == asked.amount)
                || sum.fold(0, i64::saturating_add) >= asked.amount.minor()
        };
        let (whole, rest): (Vec<Money>, Vec<Money>) =
            creates.iter().map(asked).partition(|asked| returned(asked));
        self.is_returned = !whole.is_empty();
        // What went back in full first: it is the payment.
        self.implied = [whole, rest].concat();
    }

    fn pays(&mut self, money: Money) {
        // An undated answer tells nothing beside a dated notice of the same money.
        let same = |known: &Money| (known.amount, known.currency) == (money.amount, money.currency);
        if money.at.is_some() || !self.paid.iter().any(same) {
            self.paid.push(money);
        }
    }

    fn refunds_once(&mut self, money: Money, position: Position) {
        let same = |known: &Refund| {
            (known.money.amount, known.money.currency) == (money.amount, money.currency)
        };
        if !self.refunds.iter().any(same) {
            self.refunds.push(Refund { money, event_ref: None, position });
        }
    }
}

fn add_notice(
    refs: &mut Vec<OurRef>,
    totals: &mut Totals,
    facts: &MoneyFacts,
    known: &Known<KnownIpn>,
) {
    let ipn = &known.content;
    if ipn.policy.placeholder_ref {
        return;
    }
    let confirmed =
        !ipn.policy.unconfirmed || facts.query_answers.iter().any(|p| says_as(&p.content, ipn));
    let money =
        Money { amount: ipn.money.amount, currency: ipn.money.currency, at: ipn.money.paid_at };
    let entry = entry(refs, &ipn.provider_ref);
    entry.noticed = true;
    match ipn.status {
        Status::Success if confirmed && counts(&facts.creates, &money) => entry.pays(money),
        Status::Success => entry.claimed.push(money),
        Status::Refunded if confirmed && totals::is_total(ipn) => {
            totals.add(&ipn.provider_ref, money, known.position);
        }
        Status::Refunded if confirmed => {
            let event_ref = ipn.money.event_ref.clone();
            entry.refunds.push(Refund { money, event_ref, position: known.position });
        }
        Status::Refunded | Status::Failed | Status::Expired => {}
    }
}

fn entry<'a>(refs: &'a mut Vec<OurRef>, provider_ref: &ProviderRef) -> &'a mut OurRef {
    let place = refs.iter().position(|known| known.provider_ref == *provider_ref);
    let place = place.unwrap_or_else(|| {
        refs.push(OurRef {
            provider_ref: provider_ref.clone(),
            paid: Vec::new(),
            claimed: Vec::new(),
            refunds: Vec::new(),
            shared_with: None,
            noticed: false,
            implied: Vec::new(),
            is_returned: false,
        });
        refs.len() - 1
    });
    &mut refs[place]
}

/// Whether a create request asked for this money.
fn counts(creates: &[Known<Asked>], money: &Money) -> bool {
    creates.iter().any(|known| {
        known.content.amount == money.amount && known.content.currency == money.currency
    })
}
