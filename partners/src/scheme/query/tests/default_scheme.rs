//! The default scheme: the signed question, and a table of answers.

use payfold_schemas::fact::QueryAnswer;
use payfold_schemas::ipn::Status;
use url::Url;

use super::*;
use crate::mac::MacKey;
use crate::profile::DEFAULT_PROFILE;
use crate::profile::query::QueryField;

static DEFAULT: LazyLock<Arc<Account>> = LazyLock::new(|| of_profile(DEFAULT_PROFILE));

/// acme/M-1 under this profile.
fn of_profile(text: &str) -> Arc<Account> {
    let profile = Profile::parse(&partner(), text).unwrap_or_else(|error| panic!("{error}"));
    let mut entry = AccountEntry::new(partner(), MerchantCode::parse("M-1").unwrap());
    entry.keys = vec![key("ipn", Channel::Ipn, SECRET.as_bytes())];
    let vault = VaultDocument { accounts: vec![entry], ..VaultDocument::default() };
    Arc::clone(&Directory::build(vec![profile], &vault).unwrap().accounts()[0])
}

fn question(provider_ref: Option<&str>) -> PaymentQuery {
    PaymentQuery {
        merchant_code: MerchantCode::parse("M-1").unwrap(),
        order_id: OrderId::parse("ord-1").unwrap(),
        provider_ref: provider_ref.map(|text| ProviderRef::parse(text).unwrap()),
    }
}

fn signed(question: &PaymentQuery, account: &Account) -> Result<Url, CallBuildError> {
    let sent = put(account, question)?;
    Ok(Url::parse(&format!("{}/base{}", sent.base, sent.target)).unwrap())
}

/// The path and parameters of an address, after checking its signature over this text.
fn verified(url: &Url, text: &str) -> String {
    let parameters: Vec<_> = url.query_pairs().into_owned().collect();
    let (name, signature) = parameters.last().unwrap();
    assert_eq!(name, "signature");
    let expected =
        DEFAULT.profile().output().write(&MacKey::new(SECRET.as_bytes()).sign(text.as_bytes()));
    assert_eq!(*signature, expected, "{text}");
    let others = &parameters[..parameters.len() - 1];
    let others: Vec<_> = others.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{} {}", url.path(), others.join(" "))
}

#[test]
fn the_transaction_is_asked_for_where_it_is_known() {
    let url = signed(&question(Some("a/b?c")), &DEFAULT).unwrap();
    assert!(
        verified(&url, "M-1|a/b?c||2026-01-31T10:00:00Z").starts_with("/base/payments/a%2Fb%3Fc ")
    );
    let url = signed(&question(Some("ref-1")), &DEFAULT).unwrap();
    let judged = verified(&url, "M-1|ref-1||2026-01-31T10:00:00Z");
    assert_eq!(judged, "/base/payments/ref-1 merchantCode=M-1 timestamp=2026-01-31T10:00:00Z");
}

#[test]
fn the_order_is_asked_for_while_no_transaction_is_known() {
    for unknown in [None, Some("."), Some("..")] {
        let url = signed(&question(unknown), &DEFAULT).unwrap();
        let judged = verified(&url, "M-1||ord-1|2026-01-31T10:00:00Z");
        let parameters = "merchantCode=M-1 orderId=ord-1 timestamp=2026-01-31T10:00:00Z";
        assert_eq!(judged, format!("/base/payments {parameters}"), "{unknown:?}");
    }
}

#[test]
fn order_and_separator_are_the_profiles_and_a_separator_inside_is_refused() {
    let text =
        crate::profile::DEFAULT_PROFILE.replace("separator = \"|\"", "separator = \"~\"").replace(
            "\"orderId\", \"timestamp\",\n]\n# the meaning",
            "\"timestamp\", \"orderId\",\n]\n# the meaning",
        );
    let account = of_profile(&text);
    assert_eq!(account.profile().query().unwrap().signed_fields[3], QueryField::OrderId);
    let url = signed(&question(None), &account).unwrap();
    verified(&url, "M-1~~2026-01-31T10:00:00Z~ord-1");
    let holding = question(Some("a~b"));
    assert_eq!(signed(&holding, &account), Err(CallBuildError::Separator("{ref}".to_owned())));
}

/// A part of a good answer => its replacement => the judgement.
const ANSWERS: &str = r#"
    -                          => -                           => SUCCESS ref-1 150000 VND
    "SUCCESS"                  => "FAILED"                    => FAILED ref-1 150000 VND
    "SUCCESS"                  => "EXPIRED"                   => EXPIRED ref-1 150000 VND
    "SUCCESS"                  => "REFUNDED"                  => REFUNDED ref-1 150000 VND
    "SUCCESS"                  => "PENDING"                   => pending
    "status":"SUCCESS","providerRef":"ref-1","amount":150000,"currency":"VND" => "status":"PENDING" => pending
    "SUCCESS"                  => "success"                   => status
    "SUCCESS"                  => "PAID"                      => status
    "SUCCESS"                  => null                        => status
    "SUCCESS"                  => 0                           => status
    "status":"SUCCESS",        =>                             => status
    "M-1"                      => "M-2"                       => merchant_code
    "M-1"                      => "m-1"                       => merchant_code
    "merchantCode":"M-1",      =>                             => merchant_code
    "ord-1"                    => "ord-2"                     => order_id
    "ord-1"                    => "ord-1 "                    => order_id
    "ord-1"                    => 1                           => order_id
    "orderId":"ord-1",         =>                             => order_id
    "ref-1"                    => "ref-2"                     => provider_ref
    "ref-1"                    => ""                          => provider_ref
    "ref-1"                    => null                        => provider_ref
    150000                     => 149999                      => SUCCESS ref-1 149999 VND
    150000                     => 9007199254740993            => amount
    150000                     => 900719925474099             => SUCCESS ref-1 900719925474099 VND
    150000                     => 150000.0                    => amount
    150000                     => 1.5e5                       => amount
    150000                     => "150000"                    => amount
    150000                     => -150000                     => amount
    150000                     => 0                           => amount
    150000                     => null                        => amount
    "VND"                      => "EUR"                       => SUCCESS ref-1 150000 EUR
    "VND"                      => "vnd"                       => currency
    "VND"                      => 704                         => currency
    "M-1"                      => "M-1","orderId":"ord-1"     => not_json
    {"merchantCode"            => [{"merchantCode"            => not_json
    "status"                   => "extra":{"a":[1]},"status"  => SUCCESS ref-1 150000 VND
"#;

const GOOD: &str = r#"{"merchantCode":"M-1","orderId":"ord-1","status":"SUCCESS","providerRef":"ref-1","amount":150000,"currency":"VND"}"#;

fn judge_text(body: &[u8], question: &PaymentQuery) -> String {
    match DEFAULT.judge_answer(question, body) {
        Ok(PaymentStatus::Pending) => "pending".to_owned(),
        Ok(PaymentStatus::Unknown) => "unknown".to_owned(),
        Ok(PaymentStatus::Terminal(end)) => {
            format!("{} {} {} {}", end.status, end.provider_ref, end.amount, end.currency)
        }
        Err(rule) => rule.name().to_owned(),
    }
}

#[test]
fn answers_are_judged_by_the_rules_of_the_contract() {
    let mut broken = vec![QueryViolation::Redirect.name().to_owned()];
    for case in ANSWERS.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let [from, to, expected] =
            case.split("=>").map(str::trim).collect::<Vec<_>>().try_into().unwrap();
        let body = if from == "-" { GOOD.to_owned() } else { GOOD.replacen(from, to, 1) };
        assert!(from == "-" || GOOD.contains(from), "{case}");
        assert_eq!(judge_text(body.as_bytes(), &question(Some("ref-1"))), expected, "{case}");
        broken.push(expected.to_owned());
    }
    for rule in QueryViolation::ALL {
        assert!(broken.iter().any(|name| name == rule.name()), "{} is never broken", rule.name());
    }
    for body in [&b""[..], b"null", b"\xff{}", b"<html>", b"{}}"] {
        assert_eq!(judge_text(body, &question(Some("ref-1"))), "not_json", "{body:?}");
    }
}

proptest::proptest! {
    /// With one byte of an echoed value changed, an answer never ends the payment.
    #[test]
    fn an_answer_with_a_changed_echo_ends_no_payment(place in 0..GOOD.len(), byte: u8) {
        let mut body = GOOD.as_bytes().to_vec();
        let echoes = ["M-1", "ord-1", "ref-1"].map(|echo| GOOD.find(echo).unwrap());
        let inside = echoes.iter().any(|at| (*at..*at + 3).contains(&place));
        let changed = body[place] != byte;
        body[place] = byte;
        let judged = DEFAULT.judge_answer(&question(Some("ref-1")), &body);
        proptest::prop_assert!(!(inside && changed) || judged.is_err(), "{:?}", judged);
    }

    #[test]
    fn any_answer_is_judged_without_a_panic(body: Vec<u8>, text in "[{}\\[\\]\":,0-9a-z]{0,80}") {
        for body in [body, text.into_bytes()] {
            proptest::prop_assert!(DEFAULT.judge_answer(&question(None), &body).is_err());
        }
    }
}

#[test]
fn a_question_by_order_may_be_answered_with_a_transaction() {
    assert_eq!(judge_text(GOOD.as_bytes(), &question(None)), "SUCCESS ref-1 150000 VND");
}

#[test]
fn status_codes_are_the_profiles() {
    let text = crate::profile::DEFAULT_PROFILE.replace(
        "PENDING = \"pending\", SUCCESS",
        "open = \"pending\", gone = \"unknown\", 00 = \"SUCCESS\", SUCCESS",
    );
    let account = of_profile(&text);
    let asked = question(Some("ref-1"));
    for (word, expected) in
        [("open", Ok(PaymentStatus::Pending)), ("gone", Ok(PaymentStatus::Unknown))]
    {
        let body = GOOD.replacen("\"SUCCESS\"", &format!("\"{word}\""), 1);
        assert_eq!(account.judge_answer(&asked, body.as_bytes()), expected);
    }
    let body = GOOD.replacen("\"SUCCESS\"", "\"00\"", 1);
    let judged = account.judge_answer(&asked, body.as_bytes()).unwrap();
    assert!(
        matches!(judged, PaymentStatus::Terminal(QueryAnswer { status: Status::Success, .. })),
        "{judged:?}"
    );
}
