//! The money each flag puts at risk, and how it is joined with differences.

use payfold_schemas::ids::OrderKey;
use payfold_schemas::ipn::{IpnPolicy, MoneyContent};
use payfold_schemas::money::Amount;
use payfold_schemas::order::{Known, KnownIpn, OrderState};
use payfold_schemas::order_money::{Asked, MoneyFacts, MoneySummary};
use payfold_schemas::position::Position;
use payfold_schemas::time::Time;

use super::*;
use crate::action::action_for_flag;

fn known<T>(content: T) -> Known<T> {
    Known { content, position: Position::default() }
}

/// `asked 100 VND; r1 SUCCESS 90 VND; r1 REFUNDED 40 VND e1; overpaid 100; returned 40`, with these
/// flags.
fn order(text: &str, flags: &[Flag]) -> OrderMoney {
    let raised = |flag: &Flag| RaisedFlag {
        flag: *flag,
        severity: Severity::Critical,
        evidence: Digest::of_bytes(flag.as_str().as_bytes()),
        decided_by: None,
    };
    let mut order = OrderMoney {
        key: OrderKey::parse("p/M/o1").unwrap(),
        first_seen: Time::from_unix_ms(0),
        summary: MoneySummary {
            state: OrderState::Paid,
            flags: flags.iter().map(raised).collect(),
            reference: None,
            attempt: None,
            currency: None,
            refunded_amount: 0,
            overpaid: 0,
        },
        facts: MoneyFacts {
            creates: Vec::new(),
            ipns: Vec::new(),
            query_answers: Vec::new(),
            shared_refs: Vec::new(),
        },
    };
    for said in text.split(';').map(str::trim) {
        match said.split(' ').collect::<Vec<_>>()[..] {
            ["asked", amount, currency] => {
                let currency = Currency::parse(currency).unwrap();
                order.summary.currency.get_or_insert(currency);
                let asked = Asked { amount: Amount::parse(amount).unwrap(), currency };
                order.facts.creates.push(known(asked));
            }
            ["overpaid", minor] => order.summary.overpaid = minor.parse().unwrap(),
            ["returned", minor] => order.summary.refunded_amount = minor.parse().unwrap(),
            [name, status, amount, currency, ref event @ ..] => {
                let unconfirmed = event.first() == Some(&"unconfirmed");
                let event = event.first().filter(|_| !unconfirmed);
                let event_ref = event.map(|event| EventRef::parse(event).unwrap());
                let ipn = KnownIpn {
                    provider_ref: ProviderRef::parse(name).unwrap(),
                    status: Status::parse(status).unwrap(),
                    money: MoneyContent {
                        amount: Amount::parse(amount).unwrap(),
                        currency: Currency::parse(currency).unwrap(),
                        paid_at: None,
                        event_ref,
                    },
                    policy: IpnPolicy { unconfirmed, ..IpnPolicy::default() },
                };
                order.facts.ipns.push(known(ipn));
            }
            _ => panic!("{said:?}"),
        }
    }
    order
}

/// Flags, facts / minor units at risk by differences => minor units at risk by each flag.
const TABLE: &str = "
    DOUBLE_PAYMENT asked 100 VND; r1 SUCCESS 100 VND; r2 SUCCESS 100 VND; overpaid 100 / 0 => 100 VND
    AMOUNT_MISMATCH asked 100 VND; r1 SUCCESS 90 VND / 0 => 10 VND
    AMOUNT_MISMATCH asked 100 VND; r1 SUCCESS 130 VND / 0 => 30 VND
    AMOUNT_MISMATCH asked 100 VND; r1 FAILED 7 VND / 0 => 0 VND
    AMOUNT_MISMATCH asked 100 VND; r1 SUCCESS 100 VND; r1 REFUNDED 120 VND / 0 => 20 VND
    CONTENT_VARIANT asked 100 VND; r1 SUCCESS 100 VND; r1 SUCCESS 60 VND / 0 => 40 VND
    CONTENT_VARIANT asked 100 VND; r1 REFUNDED 30 VND e1; r1 REFUNDED 35 VND e1; r1 REFUNDED 70 VND e2 / 0 => 5 VND
    CREATE_CONFLICT asked 100 VND; asked 150 VND / 0 => 50 VND
    CREATE_CONFLICT asked 100 VND; asked 100 VND / 0 => 0 VND
    CURRENCY_MISMATCH asked 100 VND; r1 SUCCESS 5 EUR / 0 => 100 VND
    PROVIDER_REF_REUSED asked 100 VND; r1 SUCCESS 100 VND / 0 => 100 VND
    PAID_AFTER_DEADLINE asked 100 VND; r1 SUCCESS 100 VND / 0 => 100 VND
    UNKNOWN_ORDER r1 SUCCESS 100 EUR / 0 => 100 EUR
    UNKNOWN_ORDER r1 REFUNDED 100 EUR / 0 => 100 EUR
    REFUND_WITHOUT_SUCCESS asked 100 VND; r1 REFUNDED 100 VND; returned 100 / 0 => 100 VND
    PARTIAL_REFUND asked 100 VND; r1 SUCCESS 100 VND; r1 REFUNDED 40 VND; returned 40 / 0 => 40 VND
    UNCONFIRMED asked 100 VND; r1 SUCCESS 9000 VND unconfirmed / 0 => 100 VND
    UNCONFIRMED r1 SUCCESS 9000 VND unconfirmed / 0 => 9000 VND
    AMOUNT_MISMATCH asked 100 VND; r1 SUCCESS 90 VND; r2 SUCCESS 9000 VND unconfirmed / 0 => 10 VND
    PARTIAL_REFUND asked 100 VND; r1 REFUNDED 99 VND unconfirmed; returned 40 / 0 => 40 VND
    SECOND_SESSION asked 100 VND / 0 => 0 VND
    AMOUNT_MISMATCH asked 100 VND; r1 SUCCESS 90 VND / 10 => 0 VND
    DOUBLE_PAYMENT asked 100 VND; overpaid 100 / 30 => 70 VND
    AMOUNT_MISMATCH,CONTENT_VARIANT asked 100 VND; r1 SUCCESS 100 VND; r1 SUCCESS 90 VND / 0 => 10 0 VND
    AMOUNT_MISMATCH,DOUBLE_PAYMENT asked 100 VND; r1 SUCCESS 90 VND; overpaid 100 / 0 => 0 100 VND
    AMOUNT_MISMATCH,DOUBLE_PAYMENT asked 100 VND; r1 SUCCESS 90 VND; overpaid 100 / 500 => 0 0 VND
";

#[test]
fn the_money_of_one_order_is_at_risk_once() {
    for case in TABLE.lines().map(str::trim).filter(|case| !case.is_empty()) {
        let (given, expected) = case.split_once(" => ").unwrap();
        let (given, differing) = given.rsplit_once(" / ").unwrap();
        let (flags, facts) = given.split_once(' ').unwrap();
        let flags: Vec<Flag> = flags.split(',').map(|word| Flag::parse(word).unwrap()).collect();
        let flags = OrderFlags::of(&order(facts, &flags)).unwrap();
        let currency = flags.currency.unwrap();
        let joined = flags.join_with_differences(differing.parse().unwrap());
        let at_risk: Vec<_> = joined.flags.iter().map(|flag| flag.at_risk.to_string()).collect();
        assert_eq!(format!("{} {currency}", at_risk.join(" ")), expected, "{case}");
    }
}

#[test]
fn only_high_flags_are_findings_and_each_has_its_own_id_and_action() {
    let mut raised = order("asked 100 VND", &Flag::ALL);
    for flag in &mut raised.summary.flags {
        flag.severity = Severity::Warn;
    }
    assert_eq!(OrderFlags::of(&raised), None);
    let flags = OrderFlags::of(&order("asked 100 VND", &Flag::ALL)).unwrap();
    let finding = |flag: &OrderFlag| flags.finding(*flag, "2026-01-31");
    let found: Vec<DetectedFinding> = flags.flags.iter().map(finding).collect();
    let ids: std::collections::BTreeSet<&str> = found.iter().map(|f| f.id.as_str()).collect();
    assert_eq!(ids.len(), Flag::ALL.len());
    let other = flags.finding(flags.flags[0], "2026-02-01");
    assert!(!ids.contains(other.id.as_str()), "another day makes another finding");
    assert!(found.iter().all(|found| !action_for_flag(found.flag.unwrap()).is_empty()));
}

/// Both have one identity, so the worse of two open ones is the finding.
#[test]
fn a_flag_of_two_severities_is_one_finding() {
    let both = [Flag::PartialRefund, Flag::PartialRefund];
    let mut order = order("asked 100 VND; r1 SUCCESS 100 VND", &both);
    order.summary.flags[0].severity = Severity::High;
    let flags = OrderFlags::of(&order).unwrap().flags;
    let severities: Vec<_> = flags.iter().map(|one| one.severity).collect();
    assert_eq!(severities, [Severity::Critical]);
}
