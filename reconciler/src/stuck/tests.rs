//! Which orders are asked about, what is asked for, and which answers are news: tables of rows. A
//! row is its state and its facts in short: `C` a create request, `Oref` a session, `Sref` a notice
//! of SUCCESS, `Uref` an unconfirmed one, `0ref` one with a placeholder, `Eref` a notice of
//! EXPIRED, `Pref` an answer of SUCCESS, `Xref` an answer of EXPIRED, `+` refunds that are a lower
//! bound, `!FLAG` an open flag, `-FLAG` a decided one; `/i` makes a flag one of severity info.

use payfold_schemas::digest::Digest;
use payfold_schemas::ipn::IpnPolicy;

use super::*;
use crate::run::testkit::{answer, create, ipn, known, known_ipn, order, placeholder, session};

fn row_of(text: &str) -> Order {
    let mut columns = text.split_whitespace();
    let state = OrderState::parse(columns.next().unwrap()).unwrap();
    let mut row = order("a", state, None);
    let facts = &mut row.facts;
    for column in columns {
        let (kind, text) = column.split_at(1);
        match kind {
            "C" => facts.creates.push(known(create("10:30"))),
            "O" => facts.sessions.push(known(session(text, "10:17"))),
            "S" => facts.ipns.push(known(known_ipn(&ipn(text)))),
            "U" => {
                let policy = IpnPolicy { unconfirmed: true, ..IpnPolicy::default() };
                facts.ipns.push(known(KnownIpn { policy, ..known_ipn(&ipn(text)) }));
            }
            "E" => {
                let status = Status::Expired;
                facts.ipns.push(known(KnownIpn { status, ..known_ipn(&ipn(text)) }));
            }
            "0" => facts.ipns.push(known(known_ipn(&placeholder(text)))),
            "P" => facts.query_answers.push(known(answer(text))),
            "X" => {
                let status = Status::Expired;
                facts.query_answers.push(known(QueryAnswer { status, ..answer(text) }));
            }
            "+" => row.summary.refunded_at_least = true,
            "!" | "-" => {
                let (name, info) = text.split_once('/').map_or((text, false), |(n, _)| (n, true));
                row.summary.flags.push(RaisedFlag {
                    flag: Flag::parse(name).unwrap(),
                    severity: if info { Severity::Info } else { Severity::Critical },
                    evidence: Digest::of_bytes(b"e"),
                    decided_by: (kind == "-").then(|| "d1".to_owned()),
                });
            }
            other => panic!("{other}"),
        }
    }
    row
}

fn names<'t>(targets: impl IntoIterator<Item = &'t QueryTarget>) -> String {
    let name = |target: &QueryTarget| target.as_ref().map_or("order".into(), ToString::to_string);
    let names: Vec<String> = targets.into_iter().map(name).collect();
    if names.is_empty() { "-".to_owned() } else { names.join(" ") }
}

/// The row => the reasons to ask about it => what to ask for => what to ask for to confirm its
/// notices.
const ROWS: &str = "
    REQUESTED C                                 => REQUESTED => order => -
    PENDING C Or1                               => PENDING => r1 => -
    PENDING C Or1 Or2                           => PENDING => r1 r2 => -
    PENDING C Oa                                => PENDING => order => -
    PENDING C Oa Sr2 !AMOUNT_MISMATCH           => PENDING AMOUNT_MISMATCH => r2 => -
    EXPIRED C Or1                               => EXPIRED => r1 => -
    EXPIRED C                                   => EXPIRED => order => -
    EXPIRED C Or1 Er1                           => - => - => -
    EXPIRED C Or1 Xr1                           => - => - => -
    PAID C Or1 Sr1                              => - => - => -
    PAID C Or1 Pr1                              => - => - => -
    PAID C Or1 Pr1 !SETTLED_BY_QUERY/i          => - => - => -
    FAILED C                                    => - => - => -
    REFUNDED C Or1 Sr1                          => - => - => -
    UNMATCHED Sr1 !UNKNOWN_ORDER                => - => - => -
    UNMATCHED Ur1 !UNKNOWN_ORDER !UNCONFIRMED   => - => - => r1
    UNCONFIRMED C Or1 Ur1 !UNCONFIRMED          => UNCONFIRMED => r1 => r1
    UNCONFIRMED C Or1 Ur1 Ur2                   => UNCONFIRMED => r1 r2 => r1 r2
    UNCONFIRMED C Or2 Ur1                       => UNCONFIRMED => r2 r1 => r1
    UNCONFIRMED C Oa Ur1                        => UNCONFIRMED => r1 => r1
    EXPIRED C Or1 Ur1                           => EXPIRED => r1 => r1
    EXPIRED C Or1 Ur2                           => EXPIRED => r1 r2 => r2
    PAID C Or1 Sr1 Sr2 Ur0 !DOUBLE_PAYMENT      => DOUBLE_PAYMENT => r1 r2 => r0
    PAID C Or1 Ur1 Pr1                          => - => - => -
    PENDING C Or1 Sr2 !AMOUNT_MISMATCH          => PENDING AMOUNT_MISMATCH => r1 r2 => -
    PENDING C Or1 Sr1 !CURRENCY_MISMATCH        => PENDING CURRENCY_MISMATCH => r1 => -
    PAID C Or1 Sr1 -AMOUNT_MISMATCH             => - => - => -
    PAID C Or1 Sr1 !CONTENT_VARIANT             => CONTENT_VARIANT => r1 => -
    PAID C Or1 Sr1 !CONTENT_VARIANT/i           => - => - => -
    PAID C Or1 Sr1 Sr2 !DOUBLE_PAYMENT          => DOUBLE_PAYMENT => r1 r2 => -
    PAID C Or1 Sr1 !PARTIAL_REFUND              => - => - => -
    PAID C Or1 Sr1 !PARTIAL_REFUND +            => PARTIAL_REFUND => r1 => -
    PAID C Or1 Sr1 !SUCCESS_AND_FAILED          => - => - => -
    PAID C Or1 Sr1 !QUERY_DISAGREES             => - => - => -
    PAID C Or1 Sr1 !PROVIDER_REF_REUSED         => - => - => -
    PENDING C Or1 00 !AMOUNT_MISMATCH           => PENDING AMOUNT_MISMATCH => order r1 => -
    UNMATCHED Sr1 !AMOUNT_MISMATCH              => - => - => -
";

#[test]
fn orders_are_queried_as_in_the_table() {
    for case in ROWS.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let [row, why, asked, confirmed] =
            case.split("=>").map(str::trim).collect::<Vec<_>>().try_into().unwrap();
        let row = row_of(row);
        let reasons = query_reasons(&row);
        let texts: Vec<_> = reasons.iter().map(ToString::to_string).collect();
        let text = if texts.is_empty() { "-".to_owned() } else { texts.join(" ") };
        let targets = targets_for(&row, &reasons);
        let confirming = confirmation_targets(&row);
        assert_eq!((text.as_str(), names(&targets).as_str()), (why, asked), "{case}");
        assert_eq!(names(&confirming), confirmed, "{case}");
        for target in [None, Some("r1"), Some("r2"), Some("r3")] {
            let target = target.map(|text| ProviderRef::parse(text).unwrap());
            let either = targets.contains(&target) || confirming.contains(&target);
            assert_eq!(is_wanted(&row, &target), either, "{case}: {target:?}");
        }
    }
}

#[test]
fn a_query_asks_for_at_most_eight_transactions() {
    let refs: Vec<_> = (10..40).map(|n| format!("Sr{n}")).collect();
    let row = row_of(&format!("PAID C {} !DOUBLE_PAYMENT", refs.join(" ")));
    assert_eq!(targets_for(&row, &query_reasons(&row)).len(), TARGETS_MAX);
    let refs: Vec<_> = (10..40).map(|n| format!("Ur{n}")).collect();
    let row = row_of(&format!("UNCONFIRMED C Or9 {}", refs.join(" ")));
    let targets = targets_for(&row, &query_reasons(&row));
    assert_eq!(names(&targets), "r9 r10 r11 r12 r13 r14 r15 r16", "the session's comes first");
}

/// Anybody can send a notice that waits, so however many there are, each is asked about.
#[test]
fn a_flood_of_notices_takes_no_query_from_another() {
    let others: Vec<_> = (10..40).map(|n| format!("Ur{n}")).collect();
    let named = |text: &str| Some(ProviderRef::parse(text).unwrap());
    let mut row = row_of(&format!("UNCONFIRMED C {} Us9", others.join(" ")));
    assert!(is_wanted(&row, &named("s9")) && !is_wanted(&row, &named("s8")));
    // Of those that found no place in the row, each names what was left out.
    row.facts.unconfirmed_left_out = true;
    assert!(is_wanted(&row, &named("s8")));
    row.facts.query_answers.push(known(answer("s8")));
    assert!(!is_wanted(&row, &named("s8")));
}

/// The row => whether an answer of SUCCESS for r1 is news.
const NEWS: &str = "
    PENDING C Or1                      => yes
    PENDING C Or1 Pr1                  => no
    PENDING C Or1 Xr1                  => yes
    PENDING C Or1 Sr1                  => yes
    PAID C Or1 Sr1                     => no
    PAID C Or1 Ur1                     => yes
    UNCONFIRMED C Or1 Ur1              => yes
    UNCONFIRMED C Or1 Ur1 Pr1          => no
    PAID C Or1 Sr2                     => yes
    PAID C Or1 Sr1 !CONTENT_VARIANT    => yes
    PAID C Or1 Sr1 Pr1 !CONTENT_VARIANT => no
";

#[test]
fn an_answer_that_adds_nothing_is_no_news() {
    for case in NEWS.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (row, expected) = case.split_once("=>").unwrap();
        let news = if is_news(&row_of(row), &answer("r1")) { "yes" } else { "no" };
        assert_eq!(news, expected.trim(), "{case}");
    }
}

#[test]
fn money_that_no_create_request_asks_for_is_unexpected() {
    use payfold_schemas::money::{Amount, Currency};
    let row = row_of("PENDING C Or1");
    let end = |status, amount, code: &str| QueryAnswer {
        status,
        amount: Amount::from_minor(amount).unwrap(),
        currency: Currency::parse(code).unwrap(),
        ..answer("r1")
    };
    for (status, amount, code, other) in [
        (Status::Success, 100, "VND", false),
        (Status::Success, 99, "VND", true),
        (Status::Success, 100, "EUR", true),
        (Status::Failed, 101, "VND", true),
        (Status::Refunded, 40, "VND", false),
        (Status::Refunded, 100, "VND", false),
        (Status::Refunded, 101, "VND", true),
        (Status::Refunded, 40, "EUR", true),
    ] {
        assert_eq!(
            has_unexpected_money(&row, &end(status, amount, code)),
            other,
            "{status} {amount} {code}"
        );
        assert!(!has_unexpected_money(&row_of("UNMATCHED"), &end(status, amount, code)));
    }
}
