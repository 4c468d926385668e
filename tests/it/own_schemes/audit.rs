//! Owns the proof that stored notices can be verified years later: those in the default scheme, in
//! custom schemes and in quarantine. A person who can write the log can neither make up a signed
//! notice nor change one.

use payfold_engines::log::Topic;
use payfold_schemas::fact::Fact;
use payfold_schemas::money::Amount;
use payfold_schemas::record::{Parts, Record};
use rusqlite::params;

use super::*;
use crate::retention::records;
use crate::support::macs::sign_anew;
use crate::support::notice::Notice;
use crate::support::system::Done;

const CONTRACT_SECRET: &str = "another published test key, worth no more";
/// The array names no account, so its partner has its own key.
const ITEMS_SECRET: &str = "a third published test key, worth nothing";

/// A stopped system that has taken a notice of each kind: the contract's scheme (one refused for
/// its time), MoMo's on the shared route, one signed in a header, one in the query of a GET, and
/// two in one array.
fn filled() -> Rc<Home> {
    let home = Home::new();
    home.write("momo.toml", &momo_profile());
    home.write("pairs.toml", PAIRS);
    home.write("items.toml", ITEMS);
    let all = [
        ("acme", "default", "ACME"),
        ("momo", "momo.toml", "SHOP"),
        ("razorpay", "razorpay", "RZP"),
        ("pairs", "pairs.toml", "PAIRS"),
        ("items", "items.toml", "ITEMS"),
    ];
    let entry = |(code, profile, _): &(&str, &str, &str)| {
        format!("[partners.{code}]\nprofile = \"{profile}\"\n")
    };
    home.write("payfold.toml", &all.iter().map(entry).collect::<String>());
    for (code, _, merchant) in all {
        let secret = match code {
            "acme" => CONTRACT_SECRET,
            "items" => ITEMS_SECRET,
            _ => SECRET,
        };
        home.add_key(code, secret, &["--merchant", merchant, "--key-id", "first"]);
    }
    let system = home.boot();
    send_all(&system);
    let (home, status) = system.stop();
    assert!(status.success());
    home
}

fn send_all(system: &System) {
    let paid = |order| Notice::paid("ACME", order, order);
    assert_eq!(system.post_ipn(&paid("a-1").signed(CONTRACT_SECRET)).status, 200);
    let stale = system.post_ipn(&paid("a-2").sent(-3_600).signed(CONTRACT_SECRET));
    assert_eq!(stale.code(), "timestamp_out_of_window");
    assert_eq!(ask(system, "POST /api/payment/ipn", &[], &momo(0)).status, 204);
    let at = now_ms() / 1_000;
    let head = format!(r#""event":"payment.captured","account_id":"RZP","created_at":{at}"#);
    let entity = r#"{"id":"pay_1","amount":5000,"currency":"INR","notes":{"order_id":"o-1"}}"#;
    let body = format!(r#"{{{head},"payload":{{"payment":{{"entity":{entity}}}}},"by":"J"#);
    let mut body = body.into_bytes();
    // Signed, not read, and not UTF-8.
    body.extend(b"\xFCrgen\"}");
    let signed = [("X-Razorpay-Signature", &*sha256(&body))];
    assert_eq!(ask(system, "POST /api/payment/ipn/razorpay", &signed, &body).status, 200);
    let at = chrono_like(now_ms());
    let query = format!(
        "amount=150000&created_at={at}&currency=VND&merchant_id=PAIRS&note=a\
         &order_id=o-1&status=paid&transaction_id=t-1"
    );
    let signature = hmac::<Hmac<Sha512>>(&query);
    let get = format!("GET /api/payment/ipn/pairs?signature={signature}&{query}");
    assert_eq!(ask(system, &get, &[], "").status, 200);
    let item = |order: &str| {
        let text = format!("r-{order}:{order}:100:true");
        json!({
            "ref": format!("r-{order}"), "order": order, "amount": 100, "success": "true",
            "sig": notice::hmac::<Hmac<Sha256>>(ITEMS_SECRET, &text),
        })
    };
    let both = json!({"items": [item("a"), item("b")]}).to_string();
    assert_eq!(ask(system, "POST /api/payment/ipn/items", &[], &both).status, 200);
}

fn verify(home: &Home, more: &[&str]) -> Done {
    home.payfold(&[&["log", "verify", "--signatures", "--output", "json"], more].concat())
}

/// What is found, as `result position detail`.
fn found(done: &Done) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let row = |row: &Value| ["result", "position", "detail"].map(|name| text(&row[name])).join(" ");
    done.rows().iter().map(row).collect()
}

/// Puts a record in the place of one; its checksum and its MAC fit.
fn put(home: &Home, (topic, position): (&str, i64), value: &[u8]) {
    let log = rusqlite::Connection::open(home.data().join("log.db")).expect("a log");
    let sql = format!("UPDATE {topic} SET value = ? WHERE position = ?");
    assert_eq!(log.execute(&sql, params![value, position]).expect("ours"), 1);
    drop(log);
    for topic in [Topic::Intake, Topic::Quarantine] {
        sign_anew(home, topic);
    }
}

/// The record with one thing changed, where it has that.
fn forged(value: &[u8], change: impl FnOnce(&mut Record) -> bool) -> Option<Vec<u8>> {
    let mut record = Record::decode(value).expect("it is whole");
    change(&mut record).then(|| record.encode())
}

/// Finds this one record and nothing else, whatever made it fit.
fn is_found(
    home: &Home,
    (topic, position): (&str, i64),
    (whole, forged): (&[u8], &[u8]),
    why: &str,
) {
    put(home, (topic, position), forged);
    let done = verify(home, &[]);
    let lines = found(&done);
    assert_eq!(done.code(), 3, "{topic} {position}: {done:?}");
    assert_eq!(lines.len(), 1, "{topic} {position}: {lines:?}");
    assert!(lines[0].starts_with(&format!("fails {topic} 0-{position} ")), "{lines:?}");
    assert!(lines[0].contains(why), "{why}: {lines:?}");
    put(home, (topic, position), whole);
}

fn raise(record: &mut Record) -> bool {
    let Parts::Fact(fact) = &mut record.parts else { return false };
    let Fact::Ipn(ipn) = &mut fact.fact else { return false };
    ipn.money.amount = Amount::parse("990000").expect("an amount");
    true
}

fn flip_in_body(record: &mut Record) -> bool {
    let at = record.raw.iter().position(|byte| *byte == b'5' || *byte == b'1');
    let Some(at) = at else { return false };
    record.raw[at] ^= 1;
    true
}

fn flip_in_request(record: &mut Record) -> bool {
    let source = match &mut record.parts {
        Parts::Fact(fact) => fact.source.as_mut(),
        Parts::Quarantine(quarantined) => Some(&mut quarantined.source),
        Parts::Switch(_) | Parts::Parked(_) | Parts::ParkingProposed(_) => None,
    };
    let Some(request) = source.map(|source| &mut source.request) else { return false };
    if request.method.is_some() {
        request.target = request.target.replace("amount=150000", "amount=950000");
        return true;
    }
    match request
        .headers
        .iter_mut()
        .find(|(name, _)| name.eq_ignore_ascii_case("x-razorpay-signature"))
    {
        Some((_, signature)) => {
            let other = if signature.starts_with('a') { "b" } else { "a" };
            signature.replace_range(..1, other);
            true
        }
        None => false,
    }
}

#[test]
fn signed_notices_are_verified_and_forged_ones_found() {
    let home = filled();
    let done = verify(&home, &[]);
    assert_eq!(done.code(), 0, "{done:?}");
    assert_eq!(found(&done), [""; 0]);
    assert!(done.stderr.starts_with("7 notices: 7 verified"), "{done:?}");

    // Years later: keys are retired, an account is closed.
    home.payfold(&["account", "set", "razorpay", "RZP", "--disabled"]).ok();
    home.payfold(&["key", "retire", "momo", "first", "--last"]).ok();
    home.payfold(&["key", "add", "acme", "--overlap", "0s", "--key-id", "second"]).ok();
    assert_eq!(verify(&home, &[]).code(), 0);

    let mut changed = [0; 3];
    for topic in ["intake", "quarantine"] {
        for (position, whole) in records(&home, topic) {
            let not_signed = "the recorded key did not sign it";
            if let Some(forged) = forged(&whole, flip_in_body) {
                is_found(&home, (topic, position), (&whole, &forged), not_signed);
                changed[0] += 1;
            }
            if let Some(forged) = forged(&whole, flip_in_request) {
                is_found(&home, (topic, position), (&whole, &forged), not_signed);
                changed[1] += 1;
            }
            if let Some(forged) = forged(&whole, raise) {
                is_found(&home, (topic, position), (&whole, &forged), "is not what was signed");
                changed[2] += 1;
            }
        }
    }
    assert_eq!(changed, [6, 2, 6], "bodies, requests, facts");
    assert_eq!(verify(&home, &[]).code(), 0, "all is as it was");
}

#[test]
fn what_cannot_be_judged_is_reported_with_what_is_missing() {
    let home = filled();
    let before = home.read("momo.toml");
    home.write("momo.toml", &format!("{before}# another\n"));
    let done = verify(&home, &[]);
    assert_eq!(done.code(), 3, "{done:?}");
    let lines = found(&done);
    assert!(lines[0].starts_with("no profile - momo version 1, digest "), "{lines:?}");
    assert!(done.stderr.contains("6 verified") && done.stderr.contains("--profile"), "{done:?}");
    // Known losses can be accepted: by their kind, or by exactly what is missing.
    let missing = lines[0].strip_prefix("no profile - ").expect("it begins so");
    for accepted in ["no-profile", missing] {
        let done = verify(&home, &["--accept-unjudged", accepted]);
        assert_eq!(done.code(), 0, "{accepted}: {done:?}");
        assert!(done.stderr.contains("1 not verifiable (1 of them accepted)"), "{done:?}");
    }
    assert_eq!(verify(&home, &["--accept-unjudged", "no-key"]).code(), 3);
    home.write("momo-old.toml", &before);
    let done = verify(&home, &["--profile", "momo-old.toml"]);
    assert!(done.stderr.starts_with("7 notices: 7 verified"), "{done:?}");

    let elsewhere = [("PAYFOLD_VAULT", "file:elsewhere.age")];
    let add = ["key", "add", "acme", "--merchant", "ACME", "--key-id", "other"];
    home.ends(&add, &elsewhere, Duration::from_secs(20)).ok();
    let verify = ["log", "verify", "--signatures", "--output", "json"];
    let done = home.ends(&verify, &elsewhere, Duration::from_secs(20));
    let lines = found(&done);
    assert_eq!(done.code(), 3, "{done:?}");
    assert!(lines.contains(&"no key - key first of acme/ACME".to_owned()), "{lines:?}");
    assert!(done.stderr.contains(" 0 verified"), "{done:?}");
}
