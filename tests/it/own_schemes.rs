//! Partners with a custom scheme on the real binary: shipped profiles with fresh notices, a GET, an
//! array, and the commands of an engineer who adds a partner.

mod arrays;
mod audit;
mod finding;
mod repeated;
mod unsigned;

use std::rc::Rc;
use std::time::Duration;

use hmac::{Hmac, Mac};
use payfold_engines::clock::{Clock, SystemClock};
use serde_json::{Value, json};
use sha2::{Sha256, Sha512};

use crate::own_creates::shipped;
use crate::support::notice;
use crate::support::system::{Home, System};
use crate::support::waits::{early_in_hour, until};
use crate::support::wire::{Answer, request};

const SECRET: &str = "a published test key, worth nothing at all";

/// A list of pairs by GET, and an array, as gateways have them.
const PAIRS: &str = include_str!("../../partners/profiles/templates/sorted-pairs.toml");

pub const ITEMS: &str = r#"
version = 1
stage = "draft"
exceptions = ["no_time", "no_paid_at", "custom_ack"]
[limits]
body_bytes = 65536
depth = 8
keys = 200
[notice]
content = "json"
[items]
at = "f.items"
[[sign]]
algorithm = "hmac-sha256"
text = "{i.ref}:{i.order}:{i.amount}:{i.success}"
signature = "{i.sig}"
output = "hex-lower"
[map]
order = "{i.order}"
ref = "{i.ref}"
amount = "{i.amount}"
currency = "EUR"
[[event]]
when = [{ value = "{i.success}", is = "true" }]
outcome = "SUCCESS"
[[event]]
outcome = "FAILED"
[time]
kind = "none"
[acks.accepted]
status = 200
content_type = "text/plain"
body = "[accepted]"
"#;

fn hmac<M: Mac + hmac::digest::KeyInit>(text: &(impl AsRef<[u8]> + ?Sized)) -> String {
    notice::hmac::<M>(SECRET, text)
}

fn sha256(text: &(impl AsRef<[u8]> + ?Sized)) -> String {
    hmac::<Hmac<Sha256>>(text)
}

fn now_ms() -> i64 {
    SystemClock.now().unix_ms()
}

/// A system with these partners (code and profile), each with one account SHOP and the key of these
/// tests.
fn boot(home: &Rc<Home>, partners: &[(&str, &str)]) -> System {
    boot_with(home, partners, "")
}

/// The same with more settings.
fn boot_with(home: &Rc<Home>, partners: &[(&str, &str)], more: &str) -> System {
    boot_with_secrets(home, partners, more, |_| SECRET.to_owned())
}

/// The same with a key of each partner's own.
fn boot_with_secrets(
    home: &Rc<Home>,
    partners: &[(&str, &str)],
    more: &str,
    secret: impl Fn(&str) -> String,
) -> System {
    let entry =
        |(code, profile): &(&str, &str)| format!("[partners.{code}]\nprofile = \"{profile}\"\n");
    let entries: String = partners.iter().map(entry).collect();
    home.write("payfold.toml", &format!("{entries}{more}"));
    for (code, _) in partners {
        home.add_key(code, &secret(code), &["--merchant", "SHOP"]);
    }
    home.boot()
}

/// A request as it stands, with what the wire needs.
fn ask(
    system: &System,
    first: &str,
    headers: &[(&str, &str)],
    body: &(impl AsRef<[u8]> + ?Sized),
) -> Answer {
    let header = |(name, value): &(&str, &str)| format!("{name}: {value}\r\n");
    let headers: String = headers.iter().map(header).collect();
    let body = Some(body.as_ref()).filter(|body| !body.is_empty());
    system.ask(&request(first, &headers, body))
}

/// The facts of an order, once it has so many: status, amount and ref of each.
fn facts(system: &System, [partner, order]: [&str; 2], count: usize) -> Vec<String> {
    let show = ["order", "show", partner, "SHOP", order, "--facts", "--output", "json"];
    let all = until("the facts are folded", Duration::from_secs(20), || {
        let shown = system.payfold(&show);
        let facts = shown.status.success().then(|| shown.json())?;
        Some(facts).filter(|facts| facts.as_array().is_some_and(|facts| facts.len() == count))
    });
    let text = |fact: &Value| {
        let ipn = &fact["fact"];
        format!("{} {} {}", ipn["status"], ipn["money"]["amount"], ipn["providerRef"])
            .replace('"', "")
    };
    all.as_array().expect("a list").iter().map(text).collect()
}

/// MoMo's profile with our access key.
fn momo_profile() -> String {
    shipped("momo").replace("accessKey = \"\"", "accessKey = \"F8BBA842ECF85\"")
}

/// A MoMo notice as their server writes it.
fn momo(result: u32) -> String {
    let (time, amount) = (now_ms(), 150_000);
    let text = format!(
        "accessKey=F8BBA842ECF85&amount={amount}&extraData=&message=ok=1&orderId=o-1\
         &orderInfo=a b&orderType=momo_wallet\
         &partnerCode=SHOP&payType=qr&requestId=q-1&responseTime={time}&resultCode={result}\
             &transId=4014083433"
    );
    json!({
        "partnerCode": "SHOP", "orderId": "o-1", "requestId": "q-1", "amount": amount,
        "orderInfo": "a b", "orderType": "momo_wallet", "transId": 4_014_083_433_u64,
        "resultCode": result, "message": "ok=1", "payType": "qr", "responseTime": time,
        "extraData": "", "signature": sha256(&text),
    })
    .to_string()
}

#[test]
fn momo_is_taken_answered_and_folded() {
    let home = Home::new();
    home.write("momo.toml", &momo_profile());
    let system = boot(&home, &[("momo", "momo.toml")]);
    let path = "POST /api/payment/ipn/momo";
    let paid = momo(0);
    for _ in 0..2 {
        let answer = ask(&system, path, &[], &paid);
        assert_eq!((answer.status, answer.body.len()), (204, 0), "{}", answer.text());
    }
    let paid_facts = facts(&system, ["momo", "o-1"], 1);
    assert_eq!(paid_facts, ["SUCCESS 150000 4014083433"]);
    for (from, to) in [("150000", "150001"), ("ok=1", "ok=2"), ("o-1", "o-2"), ("SHOP", "SHIP")] {
        let answer = ask(&system, path, &[], &paid.replacen(from, to, 1));
        assert_eq!((answer.status, answer.code().as_str()), (401, "unauthenticated"), "{from}");
    }
    assert_eq!(ask(&system, path, &[], &momo(9_000)).status, 204);
    let metrics = system.get("/metrics").text();
    assert!(metrics.contains("payfold_ingest_requests_total{code=\"ignored\",partner=\"momo\"} 1"));
    // The path of another partner answers 401, and GET on this path 405.
    assert_eq!(ask(&system, "POST /api/payment/ipn/bolt", &[], &paid).status, 401);
    assert_eq!(ask(&system, "GET /api/payment/ipn/momo", &[], "").status, 405);

    system.home().write("request.json", &paid.replacen("150000", "150001", 1));
    let explain = ["partner", "explain", "momo", "--request", "request.json", "--output", "json"];
    let explained = system.payfold(&explain).json();
    assert!(
        explained["verdict"].as_str().expect("text").starts_with("unauthenticated"),
        "{explained}"
    );
    assert!(
        explained["attempts"][0]["signingText"].as_str().expect("text").contains("&amount=150001&")
    );
    assert!(!explained.to_string().contains(SECRET));
}

#[test]
fn razorpay_is_taken_by_its_header() {
    let home = Home::new();
    home.write("razorpay.toml", shipped("razorpay"));
    let system = boot(&home, &[("razorpay", "razorpay.toml")]);
    let body = |event: &str, more: &str| {
        let at = now_ms() / 1_000;
        let head = format!(r#""event":"{event}","account_id":"SHOP","created_at":{at}"#);
        let entity = r#"{"id":"pay_1","amount":5000,"currency":"INR","notes":{"order_id":"o-1"}}"#;
        format!(r#"{{{head},"payload":{{"payment":{{"entity":{entity}}}{more}}}}}"#)
    };
    let post = |body: &str, signature: &str| {
        ask(&system, "POST /api/payment/ipn/razorpay", &[("X-Razorpay-Signature", signature)], body)
    };
    let paid = body("payment.captured", "");
    assert_eq!(post(&paid, &sha256(&paid)).status, 200);
    let refund = body(
        "refund.processed",
        r#","refund":{"entity":{"id":"rfnd_1","amount":2000,"currency":"INR"}}"#,
    );
    assert_eq!(post(&refund, &sha256(&refund)).status, 200);
    let both = facts(&system, ["razorpay", "o-1"], 2);
    assert_eq!(both, ["SUCCESS 5000 pay_1", "REFUNDED 2000 pay_1"]);
    assert_eq!(post(&paid.replace("5000", "5001"), &sha256(&paid)).status, 401);
    assert_eq!(post(&paid, "").status, 401);
    let unknown = format!(r#"{{"account_id":"SHOP","created_at":{}}}"#, now_ms() / 1_000);
    let refused = post(&unknown, &sha256(&unknown));
    assert_eq!((refused.status, refused.code().as_str()), (400, "unknown_status"));
    let kept = system.payfold(&["quarantine", "list", "--output", "json"]).json();
    assert_eq!(kept.as_array().expect("a list").len(), 1, "{kept}");
}

#[test]
fn a_query_by_get_is_taken() {
    let home = Home::new();
    home.write("pairs.toml", PAIRS);
    let system = boot(&home, &[("pairs", "pairs.toml")]);
    let at = chrono_like(now_ms());
    let signed = format!(
        "amount=150000&created_at={at}&currency=VND&merchant_id=SHOP&note=a+b\
         &order_id=o-1&status=paid&transaction_id=t-1"
    );
    let signature = hmac::<Hmac<Sha512>>(&signed);
    let get = |query: &str| ask(&system, &format!("GET /api/payment/ipn/pairs?{query}"), &[], "");
    // Encoded in another way, and in another order.
    let sent = format!("signature={signature}&{}", signed.replace("a+b", "%61%20b"));
    assert_eq!(get(&sent).status, 200, "{sent}");
    assert_eq!(facts(&system, ["pairs", "o-1"], 1), ["SUCCESS 150000 t-1"]);
    assert_eq!(get(&sent.replace("150000", "150001")).status, 401);
    assert_eq!(get(&format!("{sent}&%61mount=150000")).code(), "unauthenticated");
    // A payer's name in windows-1252 is not UTF-8, and is signed as it is.
    let other = signed.replace("a+b", "J%FCrgen").replace("o-1", "o-2").replace("t-1", "t-2");
    let signature = hmac::<Hmac<Sha512>>(&other);
    assert_eq!(get(&format!("{other}&signature={signature}")).status, 200);
    assert_eq!(facts(&system, ["pairs", "o-2"], 1), ["SUCCESS 150000 t-2"]);
    // For a notice that is all in its address, quarantine lists the size of the query.
    let odd = signed.replace("status=paid", "status=odd");
    let odd = format!("{odd}&signature={}", hmac::<Hmac<Sha512>>(&odd));
    assert_eq!(get(&odd).code(), "unknown_status");
    let kept = system.payfold(&["quarantine", "list", "--output", "csv"]).ok();
    let row = kept.lines().nth(1).expect("a row").split(',').map(str::to_owned).collect::<Vec<_>>();
    assert!(row.contains(&odd.len().to_string()), "{} in {kept}", odd.len());
    assert_eq!(ask(&system, "POST /api/payment/ipn/pairs", &[], "{}").status, 405);
}

/// Nothing else is in the files of an account than what its profile asks for.
#[test]
fn an_unknown_constant_is_refused_and_the_error_lists_the_known_ones() {
    let home = Home::configured(
        "[partners.momo]\nprofile = \"momo\"\n[partners.acme]\nprofile = \"default\"\n",
    );
    home.write("secret.txt", &format!("text:{SECRET}\n"));
    let add =
        ["key", "add", "momo", "--merchant", "SHOP", "--secret-file", "secret.txt", "--constant"];
    let said = "partner momo has no constant access_key\n  fix: its profile has: accessKey";
    home.payfold(&[add.as_slice(), &["access_key=A"]].concat()).fails(&[said]);
    home.payfold(&[add.as_slice(), &["accessKey=A"]].concat()).ok();
    let set =
        |constant: &str| home.payfold(&["account", "set", "momo", "SHOP", "--constant", constant]);
    assert!(set("access_key=A").stderr.contains(said));
    assert!(set("accessKey=B=1").ok().contains("accessKey = B=1"));
    let listed = home.payfold(&["account", "list", "--output", "json"]).json();
    assert_eq!(listed[0]["constants"], json!({"accessKey": "B=1"}));
    let add = ["key", "add", "acme", "--merchant", "SHOP", "--constant", "app=A"];
    let none = home.payfold(&add);
    assert!(none.stderr.contains("its profile has no [constants]"), "{}", none.stderr);
}

#[test]
fn an_array_is_taken_item_by_item_or_not_at_all() {
    let home = Home::new();
    home.write("items.toml", ITEMS);
    let system = boot(&home, &[("items", "items.toml")]);
    let item = |order: &str, success: &str| {
        let text = format!("r-{order}:{order}:100:{success}");
        json!({
            "ref": format!("r-{order}"), "order": order, "amount": 100, "success": success,
            "sig": sha256(&text),
        })
    };
    let both = json!({"items": [item("a", "true"), item("b", "true")]}).to_string();
    let answer = ask(&system, "POST /api/payment/ipn/items", &[], &both);
    assert_eq!((answer.status, answer.text().as_str()), (200, "[accepted]"));
    for name in ["a", "b"] {
        assert_eq!(facts(&system, ["items", name], 1), [format!("SUCCESS 100 r-{name}")]);
    }
    let mut forged = json!({"items": [item("c", "true"), item("d", "true")]});
    forged["items"][1]["amount"] = 900.into();
    assert_eq!(ask(&system, "POST /api/payment/ipn/items", &[], &forged.to_string()).status, 401);
    let missing = system.payfold(&["order", "show", "items", "SHOP", "c"]);
    assert_ne!(missing.code(), 0, "a forged second item takes nothing along");
}

/// `20260131170000` in Vietnam.
fn chrono_like(ms: i64) -> String {
    let there = payfold_schemas::time::Time::from_unix_ms(ms).plus_ms(7 * 3_600_000).to_rfc3339();
    there.chars().filter(char::is_ascii_digit).take(14).collect()
}

#[test]
fn a_partner_is_written_checked_frozen_and_held_to_it() {
    let home = Home::new();
    let made = home.payfold(&["partner", "new", "acme", "--from", "hmac-body"]).ok();
    assert!(made.contains("acme.toml") && made.contains("acme.vectors.json"), "{made}");
    home.payfold(&["partner", "new", "acme"]).fails(&["acme.toml exists already"]);
    let unknown = home.payfold(&["partner", "new", "bolt", "--from", "magic"]);
    assert!(unknown.stderr.contains("use one of contract, hmac-body"), "{}", unknown.stderr);
    home.write("payfold.toml", "[partners.acme]\nprofile = \"acme.toml\"\n");
    home.payfold(&["partner", "vectors", "acme"]).ok();
    let listed = home.payfold(&["partner", "list", "--output", "json"]).json();
    assert_eq!((&listed[0]["partner"], &listed[0]["stage"]), (&"acme".into(), &"draft".into()));
    assert!(home.payfold(&["partner", "show", "acme"]).ok().contains("event_time"));
    for name in ["momo", "zalopay", "midtrans", "square", "razorpay"] {
        home.payfold(&["partner", "vectors", name]).ok();
    }

    home.payfold(&["partner", "freeze", "acme"]).ok();
    home.payfold(&["partner", "diff", "acme"]).ok();
    let promote = ["partner", "promote", "acme", "--to", "live"];
    home.payfold(&promote).fails(&["needs the report of its certification"]);
    home.payfold(&[&promote[..], &["--uncertified", "they have no sandbox"]].concat()).ok();
    home.payfold(&["partner", "list"]).ok();
    let text = home.read("acme.toml");
    assert!(text.contains("stage = \"live\""));
    home.write("acme.toml", &text.replace("{f.amount}", "{f.amount_due}"));
    let refused = home.payfold(&["check"]);
    assert_ne!(refused.code(), 0);
    let said = format!("{}{}", refused.stdout, refused.stderr);
    assert!(said.contains("was changed after version 1 was frozen"), "{said}");
    assert!(said.contains("-amount = \"{f.amount}\""), "{said}");
    assert_eq!(home.payfold(&["partner", "diff", "acme"]).code(), 3);
    let refused = home.ends(&["run"], &[], Duration::from_secs(20));
    assert!(
        refused.stderr.contains("was changed after version 1 was frozen"),
        "{}",
        refused.stderr
    );

    // An altered vector is reported with its place.
    let vectors = home.read("acme.vectors.json").replacen("150000", "150001", 1);
    home.write("acme.vectors.json", &vectors);
    home.write("acme.toml", &text);
    let differs = home.payfold(&["partner", "vectors", "acme", "--output", "json"]);
    assert_eq!(differs.code(), 3);
    assert!(differs.stdout.contains("the signing text differs from byte"), "{}", differs.stdout);
}
