//! Who is asked about, what is asked, and which answers are news: tables of rows in short words.

use payfold_schemas::digest::Digest;
use payfold_schemas::ipn::IpnPolicy;

use super::*;
use crate::run::testkit::{answer, create, ipn, known, known_ipn, order, placeholder, session};

fn with(words: &str) -> Order {
    let mut words = words.split_whitespace();
    let state = OrderState::parse(words.next().unwrap()).unwrap();
    let mut row = order("a", state, None);
    let facts = &mut row.facts;
    for word in words {
        let (kind, text) = word.split_at(1);
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
            // A flag, open, or decided with a - before it; loud unless it says i.
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

fn said<'t>(targets: impl IntoIterator<Item = &'t Target>) -> String {
    let name = |target: &Target| target.as_ref().map_or("order".into(), ToString::to_string);
    let names: Vec<String> = targets.into_iter().map(name).collect();
    if names.is_empty() { "-".to_owned() } else { names.join(" ") }
}

/// The row => why it is asked about from its creation on; what then; what is asked to confirm its notices.
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
    UNCONFIRMED C Or1 Ur1 !UNCONFIRMED          => - => - => r1
    UNCONFIRMED C Or1 Ur1 Ur2                   => - => - => r1 r2
    EXPIRED C Or1 Ur1                           => - => - => r1
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
fn the_table_of_who_is_asked_about() {
    for case in ROWS.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let [row, why, asked, confirmed] =
            case.split("=>").map(str::trim).collect::<Vec<_>>().try_into().unwrap();
        let row = with(row);
        let reasons = reasons(&row);
        let told: Vec<_> = reasons.iter().map(ToString::to_string).collect();
        let told = if told.is_empty() { "-".to_owned() } else { told.join(" ") };
        let targets = targets(&row, &reasons);
        let confirming = confirming(&row);
        assert_eq!((told.as_str(), said(&targets).as_str()), (why, asked), "{case}");
        assert_eq!(said(&confirming), confirmed, "{case}");
        let both: BTreeSet<_> = targets.into_iter().chain(confirming).collect();
        assert_eq!(wanted(&row), both, "{case}");
    }
}

#[test]
fn an_order_of_many_transactions_is_asked_for_a_few() {
    let refs: Vec<_> = (10..40).map(|n| format!("Sr{n}")).collect();
    let row = with(&format!("PAID C {} !DOUBLE_PAYMENT", refs.join(" ")));
    assert_eq!(wanted(&row).len(), TARGETS_MAX);
}

/// The row => an answer of SUCCESS for r1 is news.
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
fn what_the_order_knows_is_no_news() {
    for case in NEWS.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (row, expected) = case.split_once("=>").unwrap();
        let news = if is_news(&with(row), &answer("r1")) { "yes" } else { "no" };
        assert_eq!(news, expected.trim(), "{case}");
    }
}

#[test]
fn other_money_is_what_no_create_request_asks_for() {
    use payfold_schemas::money::{Amount, Currency};
    let row = with("PENDING C Or1");
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
            is_other_money(&row, &end(status, amount, code)),
            other,
            "{status} {amount} {code}"
        );
        assert!(!is_other_money(&with("UNMATCHED"), &end(status, amount, code)));
    }
}
