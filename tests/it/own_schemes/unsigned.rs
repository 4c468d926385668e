//! Notices that nothing signs, beside signed ones of the same account: they take no rate and no
//! room of quarantine from these, and they are no evidence about this host's clock.

use payfold_engines::log::Topic;
use payfold_schemas::record::Record;

use super::*;
use crate::support::pair::Inside;

/// A partner that signs its notices or not; a query confirms what is not signed.
const PROFILE: &str = r#"
version = 1
stage = "draft"
confirm = "when_unsigned"
exceptions = ["needs_confirmation", "no_paid_at"]
[limits]
body_bytes = 16384
depth = 4
keys = 32
[notice]
content = "json"
[[sign]]
name = "signed"
algorithm = "hmac-sha256"
text = "{h.X-Shop}\n{body}"
signature = "{h.X-Sig}"
output = "hex-lower"
[[sign]]
name = "open"
algorithm = "none"
[map]
order = "{f.order}"
ref = "{f.ref}"
amount = "{f.amount}"
currency = "EUR"
[[event]]
when = [{ value = "{f.state}", is = "paid" }]
outcome = "SUCCESS"
[[event]]
outcome = "refuse"
[time]
kind = "delivery"
value = "{f.time}"
format = "unix_ms"
skew_s = 300
[query]
method = "GET"
path = "/payments?order={order}"
[query.map]
ref = "{a.ref}"
amount = "{a.amount}"
currency = "EUR"
[[query.event]]
when = [{ value = "{a.state}", is = "paid" }]
outcome = "SUCCESS"
"#;

/// UTF-8 in a header that is signed.
const SHOP_HEADER: &str = "Ngữ";

/// The key of a partner's account.
fn secret(partner: &str) -> String {
    format!("{SECRET}, of {partner}")
}

/// A system with these partners, and more settings.
fn boot_open(home: &Rc<Home>, partners: &[&str], more: &str) -> System {
    home.write("open.toml", PROFILE);
    let partners: Vec<_> = partners.iter().map(|code| (*code, "open.toml")).collect();
    boot_with_secrets(home, &partners, more, secret)
}

/// A notice in this state, sent so many ms from now.
fn notice_in(state: &str, order: &str, from_now_ms: i64) -> String {
    let time = now_ms() + from_now_ms;
    json!({ "order": order, "ref": "r-1", "amount": 100, "state": state, "time": time }).to_string()
}

fn post_open(system: &System, partner: &str, body: &str) -> u16 {
    ask(system, &format!("POST /api/payment/ipn/{partner}"), &[], body).status
}

fn post_signed(system: &System, partner: &str, body: &str) -> u16 {
    let text = format!("{SHOP_HEADER}\n{body}");
    let signature = notice::hmac::<Hmac<Sha256>>(&secret(partner), &text);
    let headers = [("x-shop", SHOP_HEADER), ("x-sig", signature.as_str())];
    ask(system, &format!("POST /api/payment/ipn/{partner}"), &headers, body).status
}

#[test]
fn unsigned_notices_take_nothing_from_signed_ones() {
    early_in_hour(Duration::from_secs(60));
    let home = Home::new();
    let budget = 8_000;
    let settings = format!("[ingest]\nquarantine_bytes_per_hour = {budget}\n");
    let system = boot_open(&home, &["open"], &settings);
    // What the profile refuses is kept, signed or not.
    let refused = |number: usize| notice_in("odd", &format!("o-{number:03}"), 0);
    let is_full = |number: &usize| post_open(&system, "open", &refused(*number)) == 503;
    let taken = (0..budget).find(is_full).expect("its half of the hour is full");
    assert!(taken > 10, "{taken}");
    assert_eq!(post_signed(&system, "open", &refused(taken + 1)), 400);

    let set = ["account", "set", "open", "SHOP", "--rate-per-s", "5"];
    home.payfold(&set).ok();
    let open = |number: usize| notice_in("paid", &format!("p-{number}"), 0);
    // The rate counts once the vault is read again.
    let seconds = Duration::from_secs(20);
    let mut number = 0;
    until("unsigned notices are limited", seconds, || {
        let answers: Vec<_> =
            (0..20).map(|n| post_open(&system, "open", &open(number + n))).collect();
        number += 20;
        answers.contains(&429).then_some(())
    });
    let signed = notice_in("paid", "s-1", 0);
    assert_eq!(post_signed(&system, "open", &signed), 200, "its rate is its own");
    system.stop();
    let stored = Inside::of(&home).messages(Topic::Intake);
    let stored = stored.iter().map(|message| Record::decode(&message.value).expect("a record"));
    assert!(stored.into_iter().any(|record| record.raw == signed.as_bytes()));
}

#[test]
fn unsigned_times_are_no_evidence_about_our_clock() {
    let home = Home::new();
    let system = boot_open(&home, &["open", "other"], "");
    let hour_ms = 3_600_000;
    for number in 0..30 {
        for partner in ["open", "other"] {
            let body = notice_in("paid", &format!("o-{number}"), -hour_ms);
            assert_eq!(post_open(&system, partner, &body), 403);
        }
    }
    assert_eq!(system.get("/readyz").status, 200, "{}", system.get("/readyz").text());
    let mut late = (0..30).flat_map(|number| [("open", number), ("other", number)]);
    let is_off = |(partner, number): (&str, usize)| {
        let body = notice_in("paid", &format!("s-{number}"), -hour_ms);
        post_signed(&system, partner, &body) == 503
    };
    assert!(late.any(is_off), "signed times are");
    assert_eq!(system.get("/readyz").status, 503);
    // Nor do they show that the clocks agree again.
    assert_eq!(post_open(&system, "open", &notice_in("paid", "p-1", 0)), 200);
    assert_eq!(system.get("/readyz").status, 503);
    assert_eq!(post_signed(&system, "open", &notice_in("paid", "s-0", 0)), 200);
    assert_eq!(system.get("/readyz").status, 200);
}
