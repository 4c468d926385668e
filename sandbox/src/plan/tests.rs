//! The plan of every keyword as a table, and the dependence of plans on the seed.

use super::*;
use crate::planning::{plan, plan_payer_defects};
use crate::trouble::Trouble;
use crate::troubles::Troubles;

/// Keywords => create response; session; time of the payer's action | events | notices. A notice is
/// the first letter of its status. `2`: the second transaction. `a`: another amount, `c`: another
/// currency, `h` and `o`: the halves. `s`: paid in the session, `t`: at another time. `!old`,
/// `!key`, `!nopaid`, `!text` and `!merchant`: the defects of the first attempts. `?`: sent once.
/// `/refused` and `/silent`: retried until a refusal or a missing answer. `=`: retried with the
/// same bytes. `*3`: the number of repeats.
const PLANS: &str = "
    pay                           => Session Full soon | S | S
    fail                          => Session Full soon | F | F
    cancel                        => Session Full soon | F | F
    expire                        => Session Full soon | E | E
    late                          => Session Short AfterDeadline | Ss | Ss
    paid-late                     => Session Short AfterDeadline | S | S
    never                         => Session Short soon | Ss |
    wrong-amount                  => Session Full soon | Sa | Sa
    wrong-currency                => Session Full soon | Sc | Sc
    content-variant               => Session Full soon | S | S St
    content-variant-amount        => Session Full soon | S | S Sa
    second-ref                    => Session Full soon | S S2 | S S2
    reused-ref                    => Session Full soon | S | S
    refund-first                  => Session Full soon | S R | R S
    refund-only                   => Session Full soon | S R | R
    refund-twice                  => Session Full soon | S R Rt | S R Rt
    refund-part                   => Session Full soon | S Rh | S Rh
    refund-parts                  => Session Full soon | S Rh Rot | S Rh Rot
    refund-after-fail             => Session Full soon | F R | F R
    fail-after-success            => Session Full soon | S | S F
    expire-after-success          => Session Full soon | S | S E
    duplicates                    => Session Full soon | S | S*3
    disorder                      => Session Full soon | S R | R R S
    stale                         => Session Full soon | S | S!old
    wrong-key                     => Session Full soon | S | F!key? S!key
    before-create                 => Session Full BeforeAnswer | S | S
    create-delayed                => Delayed Full soon | S | S
    create-500                    => ServerError Full soon | S | S
    create-slow                   => Slow Full AfterTimeout | S | S
    create-cut                    => Cut Full soon | S | S
    create-huge                   => Huge Full soon | S | S
    create-refused                => Refused Full soon | |
    create-redirect               => Redirect Full soon | |
    create-not-json               => Html Full soon | |
    create-no-ref                 => NoRef Full soon | |
    create-both                   => Both Full soon | |
    create-neither                => Neither Full soon | |
    create-bad-url                => BadUrl Full soon | |
    create-http-url               => HttpUrl Full soon | |
    create-userinfo               => Userinfo Full soon | |
    create-bad-qr                 => BadQr Full soon | |
    create-no-expiry              => NoExpiry Full soon | |
    create-past-expiry            => PastExpiry Full soon | |
    no-paid-at                    => Session Full soon | S | S!nopaid?
    amount-text                   => Session Full soon | S | S!text?
    other-merchant                => Session Full soon | S | S!merchant?
    same-bytes                    => Session Full soon | S | S=
    give-up-refused               => Session Full soon | S | S/refused
    give-up-silent                => Session Full soon | S | S/silent
    frame-denied                  => Session Full soon | S | S
    frame-ancestors               => Session Full soon | S | S
    cookie-wall                   => Session Full soon | S | S
    page-http                     => Session Full soon | S | S
    page-error                    => Session Full soon | S | S
    no-return                     => Session Full soon | S | S
    no-return-cancel              => Session Full soon | S | S
    return-unsigned               => Session Full soon | S | S
    return-amount                 => Session Full soon | S | S
    duplicates+disorder           => Session Full soon | S R | R*3 R*3 S*3
    fail-after-success+disorder   => Session Full soon | S | F F S
    refund-twice+disorder         => Session Full soon | S R Rt | Rt Rt R R S
    fail+wrong-key                => Session Full soon | F | S!key? F!key
    stale+wrong-key+duplicates    => Session Full soon | S | F!key? S!old!key*3
    never+create-500              => ServerError Short soon | Ss |
    wrong-amount+create-cut       => Cut Full soon | Sa | Sa
    before-create+create-slow     => Slow Full BeforeAnswer | S | S
";

fn format_event(event: &PlannedEvent) -> String {
    let mut text = event.status.as_str()[..1].to_owned();
    text.push_str(match event.transaction {
        TransactionSlot::First => "",
        TransactionSlot::Second => "2",
    });
    text.push_str(match event.amount {
        EventAmount::Requested => "",
        EventAmount::Off(by) => {
            assert_ne!(by, 0);
            "a"
        }
        EventAmount::Half => "h",
        EventAmount::OtherHalf => "o",
    });
    text.push_str(match event.currency {
        EventCurrency::Requested => "",
        EventCurrency::Other => "c",
    });
    text.push_str(match event.paid_at {
        EventPaidAt::Absent | EventPaidAt::ActionTime => "",
        EventPaidAt::InSession => "s",
        EventPaidAt::OneSecondBefore => "t",
    });
    let needs_paid_at = matches!(event.status, Status::Success | Status::Refunded);
    assert_eq!(event.paid_at != EventPaidAt::Absent, needs_paid_at, "{event:?}");
    text
}

fn format_notice(delivery: &PlannedNotice) -> String {
    let mut text = format_event(&delivery.event);
    for defect in &delivery.defects {
        text.push_str(match defect {
            NoticeDefect::OldTimestamp => "!old",
            NoticeDefect::WrongKey => "!key",
            NoticeDefect::NoPaidAt => "!nopaid",
            NoticeDefect::AmountText => "!text",
            NoticeDefect::OtherMerchant => "!merchant",
        });
    }
    text.push_str(match delivery.retry_policy {
        RetryPolicy::Schedule => "",
        RetryPolicy::Once => "?",
        RetryPolicy::UntilRefused => "/refused",
        RetryPolicy::UntilSilent => "/silent",
    });
    if delivery.retries == RepeatFormat::SameBytes {
        text.push('=');
    }
    if !delivery.repeats.is_empty() {
        text.push_str(&format!("*{}", delivery.repeats.len()));
    }
    text
}

fn format_plan(plan: &Plan) -> String {
    let answer = match plan.answer {
        PlannedAnswer::Refused(status) => {
            assert!((400..500).contains(&status) && status != 408, "{status}");
            "Refused".to_owned()
        }
        PlannedAnswer::ServerError(status) => {
            assert!((500..600).contains(&status));
            "ServerError".to_owned()
        }
        PlannedAnswer::Broken(
            ContractBreach::Html | ContractBreach::Array | ContractBreach::TwiceKeyed,
        ) => "Html".to_owned(),
        PlannedAnswer::Broken(breach) => format!("{breach:?}"),
        other => format!("{other:?}"),
    };
    let begin = match plan.begin {
        ActionTime::AfterMs(_) => "soon".to_owned(),
        other => format!("{other:?}"),
    };
    let history: Vec<_> = plan.history.iter().map(format_event).collect();
    let notices: Vec<_> = plan.deliveries.iter().map(format_notice).collect();
    let text = format!(
        "{answer} {:?} {begin} | {} | {}",
        plan.session,
        history.join(" "),
        notices.join(" ")
    );
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_keyword_has_its_plan() {
    let mut seen = Vec::new();
    for case in PLANS.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (troubles, expected) = case.split_once("=>").unwrap();
        let troubles = Troubles::parse(troubles.trim()).unwrap();
        for seed in 0..50 {
            assert_eq!(
                format_plan(&plan(&troubles, seed)),
                expected.trim(),
                "{troubles} seed {seed}"
            );
        }
        seen.push(troubles.to_string());
    }
    for trouble in Trouble::ALL {
        assert!(seen.contains(&trouble.name().to_owned()), "{trouble} has no row");
    }
}

/// Keywords => the defect of the page and the defect of the return.
const PAYER_DEFECTS: &str = "
    frame-denied             => FrameDenied None
    frame-ancestors          => FrameAncestors None
    cookie-wall              => CookieWall None
    page-http                => Http None
    page-error               => Error None
    no-return                => None Missing(Success)
    no-return-cancel         => None Missing(Failed)
    return-unsigned          => None Unsigned
    return-amount            => None OtherAmount
    cookie-wall+no-return    => CookieWall Missing(Success)
    pay+stale                => None None
";

#[test]
fn pages_and_returns_have_the_requested_defects() {
    for case in PAYER_DEFECTS.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (troubles, expected) = case.split_once("=>").unwrap();
        let defects = plan_payer_defects(&Troubles::parse(troubles.trim()).unwrap());
        assert_eq!(format!("{:?} {:?}", defects.page, defects.return_defect), expected.trim());
    }
}

#[test]
fn the_plan_depends_on_the_seed() {
    for trouble in Trouble::ALL {
        let troubles = Troubles::new([trouble]).unwrap();
        for seed in 0..20 {
            assert_eq!(plan(&troubles, seed), plan(&troubles, seed), "{trouble}");
        }
        assert_ne!(plan(&troubles, 1).seed, plan(&troubles, 2).seed, "{trouble}");
    }
    let troubles = Troubles::parse("duplicates").unwrap();
    let plans: Vec<_> = (0..20).map(|seed| plan(&troubles, seed).deliveries).collect();
    assert!(plans.iter().any(|plan| *plan != plans[0]), "the seed decides something");
    let repeats = plans.iter().flatten().flat_map(|delivery| &delivery.repeats);
    let same = repeats.clone().filter(|repeat| repeat.format == RepeatFormat::SameBytes).count();
    assert!(same > 0 && same < repeats.count(), "both formats of duplicates occur");
}

#[test]
fn a_repeat_never_has_the_bytes_of_a_defective_attempt() {
    let troubles = Troubles::parse("duplicates+stale+wrong-key").unwrap();
    for seed in 0..50 {
        for delivery in plan(&troubles, seed).deliveries {
            let signed_again =
                delivery.repeats.iter().all(|repeat| repeat.format == RepeatFormat::SignedAgain);
            assert!(delivery.defects.is_empty() || signed_again, "seed {seed}");
        }
    }
}
