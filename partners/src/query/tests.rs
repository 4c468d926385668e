//! The signed question and the table of answers.

use payfold_schemas::ids::PartnerCode;
use payfold_schemas::ipn::Status;

use super::*;

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

fn profile() -> Profile {
    Profile::default_for(&PartnerCode::parse("acme").unwrap())
}

fn question(provider_ref: Option<&str>) -> Question {
    Question {
        merchant_code: MerchantCode::parse("M-1").unwrap(),
        order_id: OrderId::parse("ord-1").unwrap(),
        provider_ref: provider_ref.map(|text| ProviderRef::parse(text).unwrap()),
    }
}

fn signed(question: &Question, profile: &Profile) -> Result<Url, Ambiguous> {
    let url = Url::parse("https://pay.example/base/payments").unwrap();
    let now = Time::parse("2026-01-31T10:00:00.250Z").unwrap();
    question.signed((profile, profile.query().unwrap()), &MacKey::new(SECRET), now, url)
}

/// The parameters and path of an address; the signature checked over this text.
fn verified(url: &Url, text: &str) -> String {
    let parameters: Vec<_> = url.query_pairs().into_owned().collect();
    let (name, signature) = parameters.last().unwrap();
    assert_eq!(name, "signature");
    let expected = profile().output().write(&MacKey::new(SECRET).sign(text.as_bytes()));
    assert_eq!(*signature, expected, "{text}");
    let others = &parameters[..parameters.len() - 1];
    let others: Vec<_> = others.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{} {}", url.path(), others.join(" "))
}

#[test]
fn the_transaction_is_asked_for_where_it_is_known() {
    let url = signed(&question(Some("a/b?c")), &profile()).unwrap();
    assert!(
        verified(&url, "M-1|a/b?c||2026-01-31T10:00:00.250Z")
            .starts_with("/base/payments/a%2Fb%3Fc ")
    );
    let url = signed(&question(Some("ref-1")), &profile()).unwrap();
    let told = verified(&url, "M-1|ref-1||2026-01-31T10:00:00.250Z");
    assert_eq!(told, "/base/payments/ref-1 merchantCode=M-1 timestamp=2026-01-31T10:00:00.250Z");
}

#[test]
fn the_order_is_asked_for_while_no_transaction_is_known() {
    for unknown in [None, Some("."), Some("..")] {
        let url = signed(&question(unknown), &profile()).unwrap();
        let told = verified(&url, "M-1||ord-1|2026-01-31T10:00:00.250Z");
        let parameters = "merchantCode=M-1 orderId=ord-1 timestamp=2026-01-31T10:00:00.250Z";
        assert_eq!(told, format!("/base/payments {parameters}"), "{unknown:?}");
    }
}

#[test]
fn order_and_separator_are_the_profiles_and_a_separator_inside_is_refused() {
    let text =
        crate::profile::DEFAULT_PROFILE.replace("separator = \"|\"", "separator = \"~\"").replace(
            "\"orderId\", \"timestamp\",\n]\n# the partner's",
            "\"timestamp\", \"orderId\",\n]\n# the partner's",
        );
    let profile = Profile::parse(&PartnerCode::parse("acme").unwrap(), &text).unwrap();
    assert_eq!(profile.query().unwrap().signed_fields[3], QueryField::OrderId);
    let url = signed(&question(None), &profile).unwrap();
    verified(&url, "M-1~~2026-01-31T10:00:00.250Z~ord-1");
    let holding = question(Some("a~b"));
    assert_eq!(signed(&holding, &profile), Err(Ambiguous(QueryField::ProviderRef)));
}

/// What stands in a good answer => what is put there => what it is worth.
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

fn worth(body: &[u8], question: &Question) -> String {
    match judge(body, question, profile().query().unwrap()) {
        Ok(Told::Pending) => "pending".to_owned(),
        Ok(Told::Unknown) => "unknown".to_owned(),
        Ok(Told::Ended(end)) => {
            format!("{} {} {} {}", end.status, end.provider_ref, end.amount, end.currency)
        }
        Err(rule) => rule.name().to_owned(),
    }
}

#[test]
fn an_answer_is_worth_what_it_is() {
    let mut broken = vec![WrongAnswer::Redirect.name().to_owned()];
    for case in ANSWERS.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let [from, to, expected] =
            case.split("=>").map(str::trim).collect::<Vec<_>>().try_into().unwrap();
        let body = if from == "-" { GOOD.to_owned() } else { GOOD.replacen(from, to, 1) };
        assert!(from == "-" || GOOD.contains(from), "{case}");
        assert_eq!(worth(body.as_bytes(), &question(Some("ref-1"))), expected, "{case}");
        broken.push(expected.to_owned());
    }
    for rule in WrongAnswer::ALL {
        assert!(broken.iter().any(|name| name == rule.name()), "{} is never broken", rule.name());
    }
    for body in [&b""[..], b"null", b"\xff{}", b"<html>", b"{}}"] {
        assert_eq!(worth(body, &question(Some("ref-1"))), "not_json", "{body:?}");
    }
}

proptest::proptest! {
    /// Whatever comes is judged; an end is told only of the payment that was asked for.
    #[test]
    fn one_byte_of_an_echo_changed_is_never_an_end(place in 0..GOOD.len(), byte: u8) {
        let mut body = GOOD.as_bytes().to_vec();
        let echoes = ["M-1", "ord-1", "ref-1"].map(|echo| GOOD.find(echo).unwrap());
        let inside = echoes.iter().any(|at| (*at..*at + 3).contains(&place));
        let changed = body[place] != byte;
        body[place] = byte;
        let told = judge(&body, &question(Some("ref-1")), profile().query().unwrap());
        proptest::prop_assert!(!(inside && changed) || told.is_err(), "{:?}", told);
    }

    #[test]
    fn nothing_that_comes_is_too_strange_to_judge(body: Vec<u8>, text in "[{}\\[\\]\":,0-9a-z]{0,80}") {
        let rule = profile();
        for body in [body, text.into_bytes()] {
            proptest::prop_assert!(judge(&body, &question(None), rule.query().unwrap()).is_err());
        }
    }
}

#[test]
fn who_asks_for_an_order_learns_its_transaction() {
    assert_eq!(worth(GOOD.as_bytes(), &question(None)), "SUCCESS ref-1 150000 VND");
}

#[test]
fn words_are_the_profiles() {
    let text = crate::profile::DEFAULT_PROFILE.replace(
        "PENDING = \"pending\", SUCCESS",
        "open = \"pending\", gone = \"unknown\", 00 = \"SUCCESS\", SUCCESS",
    );
    let profile = Profile::parse(&PartnerCode::parse("acme").unwrap(), &text).unwrap();
    let asked = question(Some("ref-1"));
    for (word, expected) in [("open", Ok(Told::Pending)), ("gone", Ok(Told::Unknown))] {
        let body = GOOD.replacen("\"SUCCESS\"", &format!("\"{word}\""), 1);
        assert_eq!(judge(body.as_bytes(), &asked, profile.query().unwrap()), expected);
    }
    let body = GOOD.replacen("\"SUCCESS\"", "\"00\"", 1);
    let told = judge(body.as_bytes(), &asked, profile.query().unwrap()).unwrap();
    assert!(matches!(told, Told::Ended(QueryAnswer { status: Status::Success, .. })), "{told:?}");
}
