//! What an order's facts come to as our side of a comparison.

use payfold_schemas::fact::Create;
use payfold_schemas::ids::EventRef;
use payfold_schemas::ipn::{IpnPolicy, MoneyContent};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::order::{KnownFacts, Order, Summary};

use super::*;

/// The order with C of 100 VND, these R notices, `40 VND e1`, the n-th of n ms, and R answers of
/// these amounts.
fn refunded(notices: &[&str], answers: &[&str]) -> OurOrder {
    noticed(notices, answers, |_| ())
}

/// The same with each notice changed.
fn noticed(notices: &[&str], answers: &[&str], change: impl Fn(&mut KnownIpn)) -> OurOrder {
    let provider_ref = ProviderRef::parse("r").unwrap();
    let create = Create {
        amount: Amount::parse("100").unwrap(),
        currency: Currency::parse("VND").unwrap(),
        reference: Reference::parse("basket").unwrap(),
        attempt: 1,
        deadline: Time::from_unix_ms(0),
    };
    let notice = |(said, n): (&&str, i64)| {
        let words: Vec<&str> = said.split(' ').collect();
        let mut ipn = KnownIpn {
            provider_ref: provider_ref.clone(),
            status: Status::Refunded,
            money: MoneyContent {
                amount: Amount::parse(words[0]).unwrap(),
                currency: Currency::parse(words[1]).unwrap(),
                paid_at: Some(Time::from_unix_ms(n)),
                event_ref: words.get(2).map(|name| EventRef::parse(name).unwrap()),
            },
            policy: IpnPolicy::default(),
        };
        change(&mut ipn);
        ipn
    };
    let answer = |amount: &&str| QueryAnswer {
        provider_ref: provider_ref.clone(),
        status: Status::Refunded,
        amount: Amount::parse(amount).unwrap(),
        currency: Currency::parse("VND").unwrap(),
    };
    let position = Position::default();
    let facts = KnownFacts {
        creates: vec![Known { content: create, position }],
        ipns: (notices.iter().zip(1..).map(notice))
            .map(|content| Known { content, position })
            .collect(),
        query_answers: (answers.iter().map(answer))
            .map(|content| Known { content, position })
            .collect(),
        ..KnownFacts::default()
    };
    let order = Order {
        key: payfold_schemas::ids::OrderKey::parse("p/M/o").unwrap(),
        version: 1,
        first_seen: Time::from_unix_ms(0),
        position,
        summary: Summary::new(OrderState::Requested),
        facts,
    };
    OurOrder::of(order.into())
}

/// Anybody can send a notice that no query has confirmed, and with any amount.
#[test]
fn an_unconfirmed_notice_states_no_money() {
    for (unconfirmed, claimed) in [(true, 0), (false, 1)] {
        let policy = IpnPolicy { unconfirmed, ..IpnPolicy::default() };
        let ours = noticed(&["100 VND"], &[], |ipn| {
            (ipn.status, ipn.policy, ipn.money.amount) =
                (Status::Success, policy, Amount::parse("99").unwrap());
        });
        assert_eq!(ours.refs[0].claimed.len(), claimed, "{unconfirmed}");
        assert!(!ours.refs[0].is_paid());
    }
}

#[test]
fn a_refund_returns_the_payment_of_its_own_currency_only() {
    for (notice, is_returned) in
        [("100 VND", true), ("99 VND", false), ("100 EUR", false), ("101 EUR", false)]
    {
        assert_eq!(refunded(&[notice], &[]).refs[0].is_returned, is_returned, "{notice}");
    }
}

/// As in the fold.
#[test]
fn several_amounts_of_one_named_refund_are_one_refund() {
    for (notices, answers, expected) in [
        (&["40 VND e1", "60 VND e1"][..], &[][..], "60 VND e1 1"),
        (&["60 VND e1", "40 VND e1"], &[], "60 VND e1 1"),
        (&["40 VND e1", "60 VND e1"], &["40"], "60 VND e1 1"),
        (&["40 VND e1", "60 VND e1"], &["30"], "60 VND e1 1; 30 VND - -"),
        (&["40 VND e1", "60 VND e2"], &[], "40 VND e1 1; 60 VND e2 2"),
        (&["40 VND e1", "60 EUR e1"], &[], "40 VND e1 1; 60 EUR e1 2"),
        (&["40 VND", "60 VND"], &["40"], "40 VND - 1; 60 VND - 2"),
    ] {
        let describe = |refund: &Refund| {
            let Refund { money: Money { amount, currency, at }, event_ref, .. } = refund;
            let name = event_ref.as_ref().map_or("-".to_owned(), ToString::to_string);
            let at = at.map_or("-".to_owned(), |at| at.unix_ms().to_string());
            format!("{amount} {currency} {name} {at}")
        };
        let order = refunded(notices, answers);
        let refunds: Vec<_> = order.refs[0].refunds.iter().map(describe).collect();
        assert_eq!(refunds.join("; "), expected, "{notices:?} {answers:?}");
    }
}
