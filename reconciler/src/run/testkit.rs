//! Rows and facts in short words, for tests.

use payfold_schemas::digest::Digest;
use payfold_schemas::fact::{Create, Fact, Presentation, QueryAnswer, Session};
use payfold_schemas::ids::{OrderKey, ProviderRef, Reference};
use payfold_schemas::ipn::{Ipn, IpnPolicy, MoneyContent, Status};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::order::{Known, KnownFacts, KnownIpn, Order, OrderState, Summary};
use payfold_schemas::record::{FactRecord, Position};
use payfold_schemas::time::Time;

/// `10:05` of the one day all tests play on.
pub(crate) fn at(clock: &str) -> Time {
    Time::parse(&format!("2026-01-31T{clock}:00Z")).unwrap()
}

pub(crate) fn key(order: &str) -> OrderKey {
    OrderKey::parse(&format!("p/M/{order}")).unwrap()
}

pub(crate) fn known<T>(content: T) -> Known<T> {
    Known { content, position: Position::default() }
}

pub(crate) fn passed(deadline: Time) -> Known<Time> {
    known(deadline)
}

/// A row without facts.
pub(crate) fn order(id: &str, state: OrderState, deadline: Option<Time>) -> Order {
    let summary = Summary {
        state,
        fulfil: false,
        flags: Vec::new(),
        reference: None,
        attempt: None,
        amount: None,
        currency: None,
        paid_amount: 0,
        refunded_amount: 0,
        overpaid: 0,
        refunded_at_least: false,
        session_ref: None,
        payment_ref: None,
        paid_at: None,
        deadline,
    };
    Order {
        key: key(id),
        version: 1,
        first_seen: at("10:00"),
        position: Position::default(),
        summary,
        facts: KnownFacts::default(),
    }
}

fn provider_ref(text: &str) -> ProviderRef {
    ProviderRef::parse(text).unwrap()
}

fn money() -> (Amount, Currency) {
    (Amount::parse("100").unwrap(), Currency::parse("VND").unwrap())
}

pub(crate) fn create(deadline: &str) -> Create {
    let ((amount, currency), reference) = (money(), Reference::parse("basket 1").unwrap());
    Create { amount, currency, reference, attempt: 1, deadline: at(deadline) }
}

pub(crate) fn session(text: &str, deadline: &str) -> Session {
    Session {
        provider_ref: provider_ref(text),
        presentation: Presentation::QrPayload("qr".into()),
        expires_at: at(deadline),
        deadline: at(deadline),
        create: Digest::of_bytes(b"C"),
    }
}

pub(crate) fn answer(text: &str) -> QueryAnswer {
    let (amount, currency) = money();
    QueryAnswer { provider_ref: provider_ref(text), status: Status::Success, amount, currency }
}

/// A SUCCESS whose ref is one of the profile's placeholders.
pub(crate) fn placeholder(text: &str) -> Ipn {
    let policy = IpnPolicy { placeholder_ref: true, ..IpnPolicy::default() };
    Ipn { policy, ..ipn(text) }
}

/// A SUCCESS.
pub(crate) fn ipn(text: &str) -> Ipn {
    let (amount, currency) = money();
    Ipn {
        provider_ref: provider_ref(text),
        status: Status::Success,
        money: MoneyContent { amount, currency, paid_at: Some(at("10:05")), event_ref: None },
        timestamp: None,
        nonce: None,
        policy: IpnPolicy::default(),
    }
}

pub(crate) fn known_ipn(ipn: &Ipn) -> KnownIpn {
    KnownIpn {
        provider_ref: ipn.provider_ref.clone(),
        status: ipn.status,
        money: ipn.money.clone(),
        policy: ipn.policy,
    }
}

/// A record received at 10:00.
pub(crate) fn record(order: &str, fact: Fact) -> FactRecord {
    FactRecord {
        order: key(order),
        fact,
        request_id: "01939b1c-7a00-7000-8000-000000000001".parse().unwrap(),
        received_at: at("10:00"),
        source: None,
    }
}

/// A SUCCESS that counts only once it is confirmed.
fn unconfirmed(text: &str) -> Ipn {
    let policy = IpnPolicy { unconfirmed: true, ..IpnPolicy::default() };
    Ipn { policy, ..ipn(text) }
}

/// Reads one fact: `C deadline`, `O ref deadline`, `S ref`, `unconfirmed ref`, `placeholder ref`, `P ref`.
pub(crate) fn fact(text: &str) -> Fact {
    match text.split_whitespace().collect::<Vec<_>>()[..] {
        ["C", deadline] => Fact::CreateRequested(create(deadline)),
        ["O", reference, deadline] => Fact::SessionOpened(session(reference, deadline)),
        ["S", reference] => Fact::Ipn(ipn(reference)),
        ["unconfirmed", reference] => Fact::Ipn(unconfirmed(reference)),
        ["placeholder", reference] => Fact::Ipn(placeholder(reference)),
        ["P", reference] => Fact::QueryAnswered(answer(reference)),
        _ => panic!("{text:?} is no fact"),
    }
}
