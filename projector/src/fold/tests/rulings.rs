//! The rulings on cases that `docs/order-state.md` left open, as tables: partial refunds, variants,
//! unknown orders, two create requests, two decisions of one id.

use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Verdict;
use payfold_schemas::order::{Flag, Summary};

use super::super::testkit::{fact, known};
use super::{check, decide, evidence, summary};

#[test]
fn partial_refunds_add_up_by_their_event_references() {
    check(
        "C 100; S r 100; R r 50                       => PAID fulfil PARTIAL_REFUND
         C 100; S r 100; R r 50 !a                    => PAID fulfil PARTIAL_REFUND
         C 100; S r 100; R r 50 !a; R r 50 !b         => REFUNDED
         C 100; S r 100; R r 50 !a; R r 49 !b         => PAID fulfil PARTIAL_REFUND
         C 100; S r 100; R r 50 !a; R r 51 !b         => REFUNDED PARTIAL_REFUND
         C 100; S r 100; R r 50 !a; R q 50 !b         => PAID REFUND_WITHOUT_SUCCESS PARTIAL_REFUND
         C 100; S r 100; R r 50; R r 100              => REFUNDED PARTIAL_REFUND
         C 100; S r 100; R r 50 !a; R r 50 !b; R r 100 => REFUNDED PARTIAL_REFUND",
    );
}

#[test]
fn one_event_reference_is_one_refund_of_its_largest_amount() {
    check(
        "C 100; S r 100; R r 50 !a @10:01; R r 50 !a @10:02 => PAID fulfil content_variant PARTIAL_REFUND
         C 100; S r 100; R r 40 !a; R r 60 !a         => PAID CONTENT_VARIANT PARTIAL_REFUND
         C 100; S r 100; R r 40 !a; R r 60 !a; R r 40 !b => REFUNDED CONTENT_VARIANT
         C 100; S r 100; R r 50 !a unconfirmed; R r 50 !b => PAID fulfil PARTIAL_REFUND UNCONFIRMED
         C 100; S r 100; R r 50 !a unconfirmed; R r 50 !b; P R r 50 => REFUNDED",
    );
}

#[test]
fn refunds_without_an_event_reference_never_add_to_those_with_one() {
    check(
        "C 100; S r 100; R r 50 @10:01; R r 50 @10:02 => PAID fulfil PARTIAL_REFUND
         C 100; S r 100; R r 50 !a; R r 50            => PAID PARTIAL_REFUND
         C 100; S r 100; R r 60; R r 40               => PAID PARTIAL_REFUND
         C 100; S r 100; R r 60; R r 39               => PAID fulfil PARTIAL_REFUND
         C 100; S r 100; R r 60; P R r 40             => PAID fulfil PARTIAL_REFUND
         C 100; S r 100; R r 50 !a; R r 50 !b; R r 10 => REFUNDED PARTIAL_REFUND
         C 100; S r 100; R r 50 !a; R r 50 !b; P R r 50 => REFUNDED
         C 100; S r 100; R r 40 !a; R r 70 !b; P R r 30 => REFUNDED PARTIAL_REFUND
         C 100; S r 100; R r 70 !b; P R r 30          => PAID fulfil PARTIAL_REFUND
         C 100; S r 100; P R r 60                     => PAID fulfil PARTIAL_REFUND settled_by_query",
    );
}

#[test]
fn totals_of_what_went_back_so_far_never_add_up() {
    check(
        "C 100; S r 100; R r 10 so-far                => PAID fulfil PARTIAL_REFUND
         C 100; S r 100; R r 60 so-far; R r 40 so-far => PAID fulfil PARTIAL_REFUND
         C 100; S r 100; R r 40 so-far; R r 100 so-far => REFUNDED
         C 100; S r 100; R r 40 so-far; R r 60        => PAID fulfil PARTIAL_REFUND
         C 100; S r 100; R r 60 !a; R r 40 !b; R r 90 so-far => REFUNDED
         C 100; S r 100; R r 60 !a; R r 50 !b; R r 90 so-far => REFUNDED PARTIAL_REFUND
         C 100; S r 100; R r 40 so-far; R r 100 EUR so-far => PAID CURRENCY_MISMATCH PARTIAL_REFUND
         C 100; C 300; S r 100; R r 100; R r 200 so-far => REFUNDED CREATE_CONFLICT PARTIAL_REFUND
         C 100; C 300; S r 100; R r 100; R r 90 so-far => REFUNDED CREATE_CONFLICT",
    );
}

#[test]
fn refunds_are_compared_with_the_largest_create_request_of_their_currency() {
    check(
        "C 100; C 150; R r 60 !a; R r 40 !b  => REQUESTED CREATE_CONFLICT REFUND_WITHOUT_SUCCESS PARTIAL_REFUND
         C 100; C 150; R r 60 !a; R r 90 !b  => REFUNDED CREATE_CONFLICT REFUND_WITHOUT_SUCCESS
         C 60; C 150; R r 100 !a             => REQUESTED CREATE_CONFLICT REFUND_WITHOUT_SUCCESS PARTIAL_REFUND
         C 60; C 150; R r 60 !a              => REFUNDED CREATE_CONFLICT REFUND_WITHOUT_SUCCESS
         C 100; C 150 EUR; R r 60 !a; R r 40 !b => REFUNDED CREATE_CONFLICT REFUND_WITHOUT_SUCCESS
         C 100; C 150 EUR; R r 60 !a; R r 90 !b EUR => REQUESTED CREATE_CONFLICT REFUND_WITHOUT_SUCCESS PARTIAL_REFUND",
    );
}

#[test]
fn an_order_is_unknown_to_notices_and_to_query_answers() {
    check(
        "P F r 100                               => UNMATCHED UNKNOWN_ORDER
         P S r 100; O r                          => UNMATCHED UNKNOWN_ORDER
         P S r 100; F r 100                      => UNMATCHED SUCCESS_AND_FAILED UNKNOWN_ORDER QUERY_DISAGREES
         O r; CF refused; X 10:30; K r other     => UNMATCHED PROVIDER_REF_REUSED
         P S r 100; C 100                        => PAID fulfil settled_by_query",
    );
    let of = |text| evidence(text, Flag::UnknownOrder);
    assert_ne!(of("S r 100"), of("S r 100; P S r 100"), "answers are evidence too");
}

#[test]
fn variants_are_judged_by_their_dedup_key() {
    check(
        "C 100; F r 100; F r 100 @10:12; S r 100 @10:05; S r 100 EUR @10:21 => \
           PAID CURRENCY_MISMATCH content_variant CONTENT_VARIANT SUCCESS_AND_FAILED
         C 100; F r 100 @10:01; F r 100 @10:02; F r 100 EUR => FAILED CURRENCY_MISMATCH CONTENT_VARIANT
         C 100; S r 100; S q 100 @10:01; R q 100 => PAID fulfil
         C 100; F r 100; S r 100 @10:01          => PAID fulfil SUCCESS_AND_FAILED
         C 100; S r 100 @10:01 !a; S r 100 @10:01 !b => PAID fulfil content_variant
         C 100; S r 100; R r 100 @10:01; R r 100 @10:02 => REFUNDED
         C 100; S r 100; R r 100 !a; R r 100 !b  => REFUNDED
         C 100; S r 100; R r 100 !a; R q 100 !a  => REFUNDED REFUND_WITHOUT_SUCCESS
         C 100; S r 100; R r 100 !a; R r 100 !a @10:02 => REFUNDED content_variant
         C 100; S r 100; R r 100 !a; R r 100 EUR !a => REFUNDED CURRENCY_MISMATCH CONTENT_VARIANT
         C 100; S r 100; R r 100 !a; P R r 60    => REFUNDED PARTIAL_REFUND",
    );
}

#[test]
fn variants_of_each_severity_have_their_own_evidence() {
    let variants = |text: &str| -> Vec<_> {
        let raised = summary(text).flags.into_iter();
        raised.filter(|raised| raised.flag == Flag::ContentVariant).map(|r| r.evidence).collect()
    };
    let (times, money) = ("C 100; F r 100; F r 100 @10:12", "C 100; S r 100; S r 101");
    let both = variants(&format!("{times}; {money}"));
    assert_eq!(both, [variants(times), variants(money)].concat());
    let decided = decide("d1", Flag::ContentVariant, both[1], "ours");
    check(&format!(
        "{times}; {money}{decided} => \
           PAID AMOUNT_MISMATCH content_variant [CONTENT_VARIANT] SUCCESS_AND_FAILED"
    ));
}

#[test]
fn amounts_paid_refunded_and_overpaid() {
    for line in "C 100                                  => 0 0 0
         C 100; S r 100                                 => 100 0 0
         C 100; S r 99                                  => 0 0 0
         C 100; S r 100; S r 100 @10:00                 => 100 0 0
         C 100; P S r 100; S r 100                      => 100 0 0
         C 100; S r 100; R r 100                        => 100 100 0
         C 100; S r 100; R r 30                         => 100 30+ 0
         C 100; S r 100; R r 30 !a                      => 100 30 0
         C 100; S r 100; R r 30 !a; P R r 30            => 100 30 0
         C 100; S r 100; R r 30 !a; P R r 40            => 100 70+ 0
         C 100; S r 100; R r 30; R r 100                => 100 100 0
         C 100; S r 100; R r 70 @10:01; R r 70 @10:02   => 100 70+ 0
         C 100; S r 100; R r 70; R r 60                 => 100 100+ 0
         C 100; S r 100; R r 70; P R r 70               => 100 70+ 0
         C 100; S r 100; R r 40 !a; R r 30 !a; R r 20 !b => 100 60 0
         C 100; S r 100; R r 40 !a; R r 40              => 100 80+ 0
         C 100; S r 100; R r 40 !a; R r 60 !b; R r 10   => 100 100 0
         C 100; S r 100; R r 10 so-far; R r 20 so-far; R r 30 so-far => 100 30 0
         C 100; S r 100; R r 60 so-far; R r 60 so-far @10:01 => 100 60 0
         C 100; S r 100; R r 60 so-far; R r 100 so-far  => 100 100 0
         C 100; S r 100; R r 60; R r 60 so-far          => 100 60 0
         C 100; S r 100; R r 60; R r 70 so-far          => 100 70+ 0
         C 100; S r 100; R r 80; R r 70 so-far          => 100 80+ 0
         C 100; S r 100; R r 60 !a; R r 70 so-far       => 100 70 0
         C 100; S r 100; R r 60 !a; R r 20 !b; R r 70 so-far => 100 80 0
         C 100; S r 100; R r 60 so-far; P R r 60        => 100 60 0
         C 100; S r 100; R r 60 so-far; P R r 70; P R r 80 => 100 80 0
         C 100; S r 100; R r 60 so-far; R q 50          => 100 110+ 0
         C 100; S r 100; R r 60 so-far unconfirmed; P R r 50 => 100 50+ 0
         C 100; C 300; S r 100; R r 100; R r 200 so-far => 100 200 0
         C 100; S r 100; R r 200                        => 100 0 0
         C 100; S r 100; R r 30 EUR                     => 100 0 0
         C 100; S r 100; R r 30 unconfirmed             => 100 0 0
         C 100; S r 100; S q 100                        => 200 0 100
         C 100; S r 100; S q 100; R q 30                => 200 30+ 70
         C 100; S r 100; S q 100; R q 100               => 200 100 0
         C 100; S r 100; S q 100; R q 100; R r 100      => 200 200 0
         C 100; C 300; S r 300; S q 100                 => 400 0 100
         C 100; C 300; S r 300; R r 100                 => 300 100 0
         C 100; C 300; S r 300; R r 100; R r 150 !a     => 300 250 0
         C 100; C 300 EUR; S r 100; R r 100; R r 20 EUR => 100 100 0"
        .lines()
    {
        let (text, expected) = line.split_once("=>").expect(line);
        let Summary { paid_amount, refunded_amount, refunded_at_least, overpaid, .. } =
            summary(text);
        let at_least = if refunded_at_least { "+" } else { "" };
        let shown = format!("{paid_amount} {refunded_amount}{at_least} {overpaid}");
        assert_eq!(shown, expected.trim(), "{line}");
    }
}

#[test]
fn of_two_decisions_of_one_id_the_smaller_is_kept() {
    let d = |verdict| fact(&format!("D d1 DOUBLE_PAYMENT {} {verdict}", Digest::of_bytes(b"")));
    for (set, version) in [([d("ours"), d("partner")], 1), ([d("partner"), d("ours")], 2)] {
        let (known, changes) = known(&set);
        let accepted: Vec<_> = known.decisions.iter().map(|d| d.content.accept).collect();
        assert_eq!((accepted, changes), (vec![Verdict::Ours], version));
    }
}

#[test]
fn an_amount_is_compared_with_the_create_requests_of_its_currency() {
    check(
        "C 100; C 200 EUR; S r 100              => PAID CREATE_CONFLICT
         C 100; C 200 EUR; S r 200              => REQUESTED AMOUNT_MISMATCH CREATE_CONFLICT
         C 100; C 200 EUR; S r 100 EUR          => REQUESTED AMOUNT_MISMATCH CREATE_CONFLICT
         C 100; C 200 EUR; S r 100 USD          => REQUESTED CURRENCY_MISMATCH CREATE_CONFLICT
         C 100; C 200 EUR; S r 300 USD          => REQUESTED AMOUNT_MISMATCH CURRENCY_MISMATCH CREATE_CONFLICT",
    );
}
