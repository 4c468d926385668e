//! What a simulated partner writes is read as it was meant, and it reads what is sent to it.

use std::sync::Arc;

use payfold_schemas::fact::Presentation;
use payfold_schemas::ids::{KeyId, MerchantCode, OrderId, PartnerCode, ProviderRef};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;

use super::*;
use crate::create::CreateRequest;
use crate::directory::Directory;
use crate::directory::account::Account;
use crate::document::{AccountEntry, KeyEntry, VaultDocument};
use crate::keys::Channel;
use crate::notice_content::NoticeContent;
use crate::profile::shipped::ShippedProfile;
use crate::profile::{Profile, SANDBOX_PROFILE};
use crate::query::{PaymentQuery, PaymentStatus};
use crate::rejection::RejectCode;
use crate::scheme::call::rule::CallRule;
use crate::scheme::call::{CallRequest, RequestBuilder};
use crate::scheme::request::NoticeRequest;
use crate::secret::Secret;

mod refusals;

const NOW: Time = Time::from_unix_ms(1_769_853_600_000);
const ORDER: &str = "ord-019c137e-c100-7abc-8000-00000000000f";
const NOTIFIED: &str = "http://127.0.0.1:8080/api/payment/ipn/acme";
const SANDBOX: &str = "http://127.0.0.1:8082";
/// Partner, amount in minor units, currency.
const PARTNERS: [(&str, i64, &str); 6] = [
    ("razorpay", 5_000, "INR"),
    ("zalopay", 150_000, "VND"),
    ("momo", 150_000, "VND"),
    ("midtrans", 15_000_000, "IDR"),
    ("square", 1_050, "USD"),
    ("sandbox", 1_050, "USD"),
];

fn directory(profile: &str, keys: [&str; 2]) -> Directory {
    let partner = PartnerCode::parse("acme").unwrap();
    let profile = Profile::parse(&partner, profile).unwrap_or_else(|error| panic!("{error}"));
    let mut entry = AccountEntry::new(partner, MerchantCode::parse("SHOP").unwrap());
    entry.keys = [Channel::Ipn, Channel::Create]
        .into_iter()
        .zip(keys)
        .map(|(channel, secret)| KeyEntry {
            id: KeyId::parse(&format!("{channel:?}").to_lowercase()).unwrap(),
            channel,
            secret: Secret::from_bytes(secret.into()),
            valid_from: NOW.plus_ms(-1),
            valid_until: None,
            serial: None,
            created_at: NOW,
        })
        .collect();
    let constants = [
        ("accessKey", "A-7"),
        ("notification_url", NOTIFIED),
        ("location_id", "L1"),
        ("snap_url", SANDBOX),
    ];
    entry.constants = constants.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let vault = VaultDocument { accounts: vec![entry], ..VaultDocument::default() };
    Directory::build(vec![profile], &vault).unwrap_or_else(|problems| panic!("{problems:?}"))
}

const KEYS: [&str; 2] =
    ["a test key of notices, worth nothing", "another test key, of calls, worth nothing"];

fn shipped(name: &str) -> Directory {
    directory(ShippedProfile::of(name).map_or(SANDBOX_PROFILE, |one| one.profile), KEYS)
}

fn account(directory: &Directory) -> &Arc<Account> {
    &directory.accounts()[0]
}

fn reference(account: &Account) -> &'static str {
    let text = "sbx-019c137e-c100-7abc-8000-0000000000aa";
    if account.takes_ref(text) { text } else { "4088878653" }
}

fn payment<'a>(account: &Account, (minor, currency): (i64, &str)) -> PaymentValues<'a> {
    PaymentValues {
        merchant_code: "SHOP",
        order_id: ORDER,
        provider_ref: reference(account),
        amount: Amount::from_minor(minor).unwrap(),
        currency: Currency::parse(currency).unwrap(),
        paid_at: Some(NOW.plus_ms(-1_000)),
    }
}

fn arrived<'r>(notice: &'r SimulatedNotice) -> NoticeRequest<'r> {
    NoticeRequest {
        method: notice.method,
        query: &notice.query,
        headers: notice.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect(),
        body: &notice.body,
        ..NoticeRequest::of_url(NOTIFIED)
    }
}

#[test]
fn a_written_notice_is_read_as_it_was_meant() {
    let mut written = Vec::new();
    for (name, minor, currency) in PARTNERS {
        let directory = shipped(name);
        let account = account(&directory);
        account.check_simulation(SANDBOX, NOW).unwrap_or_else(|why| panic!("{name}: {why}"));
        let payment = payment(account, (minor, currency));
        for status in Status::ALL {
            let values = NoticeValues { payment, status, at: NOW, nonce: None };
            let notice = match account.write_notice(NOTIFIED, &values, None, NOW) {
                Ok(notice) => notice,
                Err(error) => {
                    assert_eq!(error, SimulationError::NoEvent(status.as_str().into()), "{name}");
                    continue;
                }
            };
            written.push(format!("{name} {}", status.as_str()));
            let verified = directory.verify_scheme("acme", &arrived(&notice), NOW);
            let verified = verified.unwrap_or_else(|error| panic!("{name}: {error}"));
            let NoticeContent::Event(event) = verified.notices[0].content().unwrap() else {
                panic!("{name} {status:?}")
            };
            assert_eq!(event.order_id.as_str(), ORDER, "{name}");
            assert_eq!(event.provider_ref.as_str(), payment.provider_ref, "{name}");
            assert_eq!((event.status, event.money.amount), (status, payment.amount), "{name}");
            assert_eq!(event.money.currency, payment.currency, "{name}");
            let forged = account.write_notice(NOTIFIED, &values, Some(NoticeFlaw::WrongKey), NOW);
            let refused = directory.verify_scheme("acme", &arrived(&forged.unwrap()), NOW);
            assert_eq!(refused.unwrap_err().code(), RejectCode::Unauthenticated, "{name}");
        }
    }
    let expected = "razorpay SUCCESS, razorpay FAILED, razorpay EXPIRED, razorpay REFUNDED, \
        zalopay SUCCESS, momo SUCCESS, momo FAILED, midtrans SUCCESS, midtrans FAILED, \
        midtrans EXPIRED, midtrans REFUNDED, square SUCCESS, square FAILED, sandbox SUCCESS, \
        sandbox FAILED, sandbox EXPIRED, sandbox REFUNDED";
    let mut expected: Vec<_> = expected.split(", ").map(|one| one.trim().to_owned()).collect();
    expected.sort();
    written.sort();
    assert_eq!(written, expected);
}

fn build(account: &Account, rule: &CallRule, values: Vec<String>) -> CallRequest {
    let builder = RequestBuilder::of(
        account,
        (rule, Some("application/json")),
        account.scheme_keys().call_keys(rule, NOW),
        SANDBOX,
    );
    builder.build(values).unwrap_or_else(|why| panic!("{why}"))
}

fn sent(call: &CallRequest) -> NoticeRequest<'_> {
    NoticeRequest {
        method: call.method.name(),
        headers: call.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect(),
        body: &call.body,
        ..NoticeRequest::of_url(&call.target)
    }
}

#[test]
fn a_create_call_is_read_and_its_answer_is_an_offer() {
    for (name, minor, currency) in &PARTNERS[..5] {
        let directory = shipped(name);
        let account = account(&directory);
        let scheme = account.profile().scheme();
        let create = scheme.create.as_ref().unwrap();
        let request = CreateRequest {
            merchant_code: MerchantCode::parse("SHOP").unwrap(),
            order_id: OrderId::parse(ORDER).unwrap(),
            amount: Amount::from_minor(*minor).unwrap(),
            currency: Currency::parse(currency).unwrap(),
            description: "Hai vé \"A\",\"B\" #duplicates".to_owned(),
            return_url: "https://pay.example/api/payment/result".to_owned(),
            ipn_url: NOTIFIED.to_owned(),
            expires_at: Some(NOW.plus_ms(600_000)),
            presentation: None,
            reference: None,
            payer_ip: None,
        };
        let (values, asked) = create.values(scheme, &request, NOW).unwrap();
        let call = build(account, &create.rule, values);
        let read = account.read_create(&sent(&call), NOW);
        let read = read.unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!(read.order_id, request.order_id, "{name}");
        assert_eq!((read.amount, read.currency), (request.amount, request.currency), "{name}");
        assert_eq!(read.description, request.description, "{name}");
        assert_eq!(read.return_url.as_deref(), Some(&*request.return_url), "{name}");
        let names_url = matches!(*name, "zalopay" | "momo" | "midtrans");
        assert_eq!(read.ipn_url.is_some(), names_url, "{name}");
        assert!(read.expires_at.is_none_or(|at| at == asked.expires_at), "{name}");

        let page = "https://pay.example/pay/sbx-1";
        let offer = SimulatedOffer {
            provider_ref: Some("sbx-1"),
            redirect_url: Some(page),
            qr_payload: Some("qr:1"),
            expires_at: Some(asked.expires_at),
        };
        let body = account.write_offer(&offer, NOW).unwrap();
        let judged = account.judge_offer(&asked, &body, NOW).unwrap();
        assert_eq!(judged.presentation, Presentation::RedirectUrl(page.to_owned()), "{name}");

        // Another key, another amount.
        let stranger = self::directory(
            ShippedProfile::of(name).unwrap().profile,
            ["yet another test key, worth nothing", "and the last test key, worth nothing"],
        );
        let refused = self::account(&stranger).read_create(&sent(&call), NOW).unwrap_err();
        assert!(matches!(refused, CallReadError::Unauthenticated(_)), "{name}: {refused}");
        let elsewhere = NoticeRequest { path: "/v9/other", ..sent(&call) };
        assert_eq!(account.read_create(&elsewhere, NOW), Err(CallReadError::Address), "{name}");
        if *name == "zalopay" {
            let body = [call.body.as_slice(), b"&x=1"].concat();
            let refused = account.read_create(&NoticeRequest { body: &body, ..sent(&call) }, NOW);
            assert_eq!(refused, Err(CallReadError::Part("the body".to_owned())));
        }
        if create.rule.sign.is_some() {
            let body = String::from_utf8(call.body.clone()).unwrap();
            let other = body.replacen(&minor.to_string(), &(minor + 1).to_string(), 1);
            assert_ne!(other, body);
            let refused =
                account.read_create(&NoticeRequest { body: other.as_bytes(), ..sent(&call) }, NOW);
            assert_eq!(refused, Err(CallReadError::Unauthenticated("the signature")), "{name}");
        }
    }
}

#[test]
fn a_query_is_read_and_its_answer_is_the_status() {
    for (name, minor, currency) in &PARTNERS[..5] {
        let directory = shipped(name);
        let account = account(&directory);
        let query = account.profile().scheme().query.as_ref().unwrap();
        let payment = payment(account, (*minor, currency));
        let question = PaymentQuery {
            merchant_code: MerchantCode::parse("SHOP").unwrap(),
            order_id: OrderId::parse(ORDER).unwrap(),
            provider_ref: Some(ProviderRef::parse(payment.provider_ref).unwrap()),
        };
        let call = build(account, &query.question, query.values(&question, NOW).unwrap());
        let read = account.read_query(&sent(&call), NOW);
        let read = read.unwrap_or_else(|why| panic!("{name}: {why}"));
        let named = [read.order_id.as_str(), read.provider_ref.as_str()];
        let by_ref = matches!(*name, "razorpay" | "square");
        let expected = if by_ref { ["", payment.provider_ref] } else { [ORDER, ""] };
        assert_eq!(named, expected, "{name}");

        let mut answered = 0;
        for status in Status::ALL.map(Some).into_iter().chain([None]) {
            let Ok(body) = account.write_status(&SimulatedStatus { payment, status }) else {
                continue;
            };
            let judged = account.judge_answer(&question, &body).unwrap();
            match (judged, status) {
                // A partner that does not say how a payment ended says that it has not.
                (PaymentStatus::Pending, Some(_)) => {}
                (PaymentStatus::Pending, None) => answered += 1,
                (PaymentStatus::Terminal(answer), Some(status)) => {
                    answered += 1;
                    assert_eq!((answer.status, answer.amount), (status, payment.amount), "{name}");
                    assert_eq!(answer.provider_ref.as_str(), payment.provider_ref, "{name}");
                }
                other => panic!("{name}: {other:?}"),
            }
        }
        let known = [("razorpay", 4), ("zalopay", 2), ("momo", 4), ("midtrans", 5), ("square", 3)];
        assert_eq!((*name, answered), *known.iter().find(|(n, _)| n == name).unwrap());
        let (status, body) = account.write_unknown().unwrap_or((404, Vec::new()));
        if status == 200 {
            assert_eq!(
                account.judge_answer(&question, &body),
                Ok(PaymentStatus::Unknown),
                "{name}"
            );
        } else {
            assert!(query.answer.not_found.contains(&status), "{name}");
        }
    }
}

/// Profile, and why none of its notices can be written.
const OTHER_PROFILES: [(&str, &str, &str); 11] = [
    ("items", include_str!("../../../tests/fuzzed/profiles/items.toml"), ""),
    ("headers", include_str!("../../../tests/fuzzed/profiles/headers.toml"), ""),
    ("url-encoded", include_str!("../../../tests/fuzzed/profiles/url-encoded.toml"), ""),
    ("list", include_str!("../../../tests/fuzzed/profiles/list.toml"), ""),
    ("digest", include_str!("../../../tests/fuzzed/profiles/digest.toml"), ""),
    (
        "sealed",
        include_str!("../../../tests/fuzzed/profiles/sealed.toml"),
        "inner can't be written: a simulated partner encrypts nothing",
    ),
    ("hmac-body", include_str!("../../../profiles/templates/hmac-body.toml"), ""),
    ("hmac-fields", include_str!("../../../profiles/templates/hmac-fields.toml"), ""),
    ("sorted-pairs", include_str!("../../../profiles/templates/sorted-pairs.toml"), ""),
    ("structured-header", include_str!("../../../profiles/templates/structured-header.toml"), ""),
    (
        "rsa",
        include_str!("../../../profiles/templates/rsa.toml"),
        "notices can't be signed: the profile takes a key that only the partner has",
    ),
];

#[test]
fn notices_are_written_with_every_part_of_the_language() {
    for (name, profile, problem) in OTHER_PROFILES {
        let directory = match name {
            "rsa" => directory(profile, [&public_key(), KEYS[1]]),
            _ => directory(profile, KEYS),
        };
        let account = account(&directory);
        let values = NoticeValues {
            payment: payment(account, (150_000, "VND")),
            status: Status::Success,
            at: NOW,
            nonce: None,
        };
        let notice = match account.write_notice(NOTIFIED, &values, None, NOW) {
            Ok(notice) => notice,
            Err(error) => {
                assert_eq!(error.to_string(), problem, "{name}");
                continue;
            }
        };
        assert_eq!(problem, "", "{name}");
        let verified = directory.verify_scheme("acme", &arrived(&notice), NOW);
        let verified = verified.unwrap_or_else(|error| panic!("{name}: {error}"));
        let NoticeContent::Event(event) = verified.notices[0].content().unwrap() else {
            panic!("{name}")
        };
        let read = (event.status, event.money.amount, event.order_id.as_str());
        assert_eq!(read, (Status::Success, values.payment.amount, ORDER), "{name}");
    }
}

/// The test key of the vectors of the starter `rsa`.
fn public_key() -> String {
    let vectors = include_str!("../../../profiles/templates/rsa.vectors.json");
    let vectors: serde_json::Value = serde_json::from_str(vectors).unwrap();
    vectors["vectors"][0]["secret"].as_str().unwrap().to_owned()
}
