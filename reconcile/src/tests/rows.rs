//! Short constructors of rows and notices, for the tests of this crate and of the reconciler role.

use payfold_schemas::fact::Fact;
use payfold_schemas::ids::{OrderKey, ProviderRef};
use payfold_schemas::ipn::{Ipn, IpnPolicy, MoneyContent, Status};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::order::{KnownFacts, KnownIpn, Order, OrderState, Summary};
use payfold_schemas::position::Position;
use payfold_schemas::record::FactRecord;
use payfold_schemas::time::Time;

/// A time of the day on which all tests happen, as `10:05`.
pub(crate) fn at(clock: &str) -> Time {
    Time::parse(&format!("2026-01-31T{clock}:00Z")).unwrap()
}

pub(crate) fn key(order: &str) -> OrderKey {
    OrderKey::parse(&format!("p/M/{order}")).unwrap()
}

/// An order without facts.
pub(crate) fn order(id: &str, state: OrderState, deadline: Option<Time>) -> Order {
    let summary = Summary { deadline, ..Summary::new(state) };
    Order {
        key: key(id),
        version: 1,
        first_seen: at("10:00"),
        position: Position::default(),
        summary,
        facts: KnownFacts::default(),
    }
}

pub(crate) fn provider_ref(text: &str) -> ProviderRef {
    ProviderRef::parse(text).unwrap()
}

pub(crate) fn money() -> (Amount, Currency) {
    (Amount::parse("100").unwrap(), Currency::parse("VND").unwrap())
}

/// A SUCCESS notice with this ref.
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
