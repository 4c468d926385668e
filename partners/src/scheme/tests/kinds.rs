//! Schemes like those of real gateways: each notice is accepted as signed, and refused if anything
//! signed is altered.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;

/// Replaces a part of a text, which must be there.
pub(super) fn altered(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from} in {text}");
    text.replacen(from, to, 1)
}

/// All parameters of a prefix, sorted and form-encoded, by GET; answers in JSON.
const SORTED_PAIRS: &str = r#"
version = 1
stage = "draft"
exceptions = ["get_notices", "bad_signature_2xx", "refusal_2xx", "custom_ack", "event_time"]
[limits]
body_bytes = 1024
depth = 2
keys = 64
[notice]
content = "query"
[[pairs]]
name = "signed"
of = "q"
prefix = "vnp_"
except = ["vnp_SecureHash", "vnp_SecureHashType"]
encoding = "form"
empty = "skip"
[[sign]]
algorithm = "hmac-sha512"
text = "{p.signed}"
signature = "{q.vnp_SecureHash}"
output = "hex"
[map]
merchant = "{q.vnp_TmnCode}"
order = "{q.vnp_TxnRef}"
ref = "{q.vnp_TransactionNo}"
amount = "{q.vnp_Amount}"
amount_unit = "hundredths"
currency = "VND"
[[event]]
when = [{ value = "{q.vnp_ResponseCode}", is = "00" }, { value = "{q.vnp_TransactionStatus}", is = "00" }]
outcome = "SUCCESS"
[[event]]
outcome = "FAILED"
[time]
kind = "event"
value = "{q.vnp_PayDate}"
format = "%Y%m%d%H%M%S"
zone = "Asia/Ho_Chi_Minh"
skew_s = 300
max_age_s = 86400
[acks.accepted]
status = 200
content_type = "application/json"
body = '{"RspCode":"00","Message":"Confirm Success"}'
[acks.bad_signature]
status = 200
content_type = "application/json"
body = '{"RspCode":"97","Message":"Invalid Checksum"}'
[acks.not_admissible]
status = 200
template = '{{"RspCode":"99","TxnRef":"{q.vnp_TxnRef|json}"}}'
"#;

#[test]
fn sorted_query_pairs_by_get() {
    let profile = SORTED_PAIRS;
    let directory = directory(profile);
    let signed = "vnp_Amount=1000000&vnp_BankCode=N%2AB&vnp_OrderInfo=a+b*c%7E&\
        vnp_PayDate=20260131170000&vnp_ResponseCode=00&vnp_TmnCode=SHOP&vnp_TransactionNo=14&\
        vnp_TransactionStatus=00&vnp_TxnRef=o-1";
    let signed = signed.replace("N%2AB", "N*B");
    let hash = sha512(&signed).to_uppercase();
    // The sender encodes differently, adds an empty parameter, and sends another order than it
    // signs.
    let sent = altered(&signed, "a+b*c%7E", "a%20b%2ac~");
    let query = format!("vnp_SecureHash={hash}&vnp_BankTranNo=&{sent}&utm=x");
    let get = |query: &str| {
        let request = NoticeRequest { method: "GET", query, ..post("", &[]) };
        verdict(&directory, &request)
    };
    assert_eq!(get(&query), "o-1 SUCCESS 10000 VND 14");
    assert_eq!(get(&altered(&query, "Status=00", "Status=01")), "unauthenticated");
    assert_eq!(get(&altered(&query, "1000000", "1000001")), "unauthenticated");
    assert_eq!(get(&format!("{query}&vnp_Amount=1000000")), "unauthenticated");
    assert_eq!(get(&format!("{query}&vnp_%41mount=1000000")), "unauthenticated");
    assert_eq!(get(&format!("{query}&vnp_Extra=1")), "unauthenticated");
    let other = altered(&signed, "TmnCode=SHOP", "TmnCode=SHIP");
    let for_other = format!("vnp_SecureHash={}&{other}", sha512(&other));
    assert_eq!(get(&for_other), "unauthenticated");
    let acks = directory.scheme("acme").unwrap().acks();
    let plain = acks.plain(crate::scheme::ack::AckKind::BadSignature).unwrap();
    assert!(String::from_utf8(plain.body).unwrap().contains("97"));
    let odd = altered(&signed, "1000000", "1000050");
    let request_query = format!("vnp_SecureHash={}&{odd}", sha512(&odd));
    let request = NoticeRequest { method: "GET", query: &request_query, ..post("", &[]) };
    let notices = directory.verify_scheme("acme", &request, NOW).unwrap().notices;
    let answer = notices[0].answer(crate::scheme::ack::AckKind::NotAdmissible).unwrap();
    assert_eq!(answer.body, br#"{"RspCode":"99","TxnRef":"o-1"}"#);
    assert!(said(&notices[0]).starts_with("fault: amount is no exact number"));
}

/// Time and signatures in one header; each event reads the amount from its own place.
const STRUCTURED_HEADER: &str = r#"
[notice]
content = "json"
[[document]]
name = "sig"
from = "{h.Stripe-Signature}"
content = "parts"
[[sign]]
algorithm = "hmac-sha256"
text = "{sig.t}.{body}"
signature = "{sig.v1}"
output = "hex-lower"
[map]
order = "{f.data.object.metadata.order}"
ref = "{f.data.object.id}"
amount = "{f.data.object.amount}"
currency = "{f.data.object.currency|upper}"
event = "{f.id}"
[[event]]
when = [{ value = "{f.type}", is = "payment_intent.succeeded" }, { value = "{f.data.object.refund}", present = false }]
outcome = "SUCCESS"
[[event]]
when = [{ value = "{f.type}", is = "charge.refunded" }]
outcome = "REFUNDED"
amount = "{f.data.object.amount_refunded}"
ref = "{f.data.object.payment_intent}"
[[event]]
when = [{ value = "{f.type}", present = true }]
outcome = "ignore"
[[event]]
outcome = "refuse"
[limits]
body_bytes = 65536
depth = 12
keys = 150
[time]
kind = "delivery"
value = "{sig.t}"
format = "unix_s"
skew_s = 300
"#;

#[test]
fn a_structured_header_with_several_signatures() {
    let profile = HEAD.to_owned() + STRUCTURED_HEADER;
    let profile =
        altered(&profile, "stage = \"draft\"", "stage = \"draft\"\nexceptions = [\"no_paid_at\"]");
    let profile = altered(&profile, "{f.data.object.currency|upper}", "{f.data.object.currency}");
    let profile = altered(&profile, "[[event]]", "currencies = { usd = \"USD\" }\n[[event]]");
    let directory = directory(&profile);
    let body = r#"{"id":"evt_1","type":"payment_intent.succeeded","data":{"object":{"id":"pi_1","amount":1050,"currency":"usd","metadata":{"order":"o-1"}}}}"#;
    let t = "1769853600";
    let good = sha256(&format!("{t}.{body}"));
    let bad = sha256("something else");
    let try_header = |header: &str, body: &str| {
        verdict(&directory, &post(body, &[("stripe-signature", header)]))
    };
    for header in [
        format!("t={t},v1={good}"),
        format!("t={t},v1={bad},v1={good},v0=xyz"),
        format!("v1={good}, t={t}"),
    ] {
        assert_eq!(try_header(&header, body), "o-1 SUCCESS 1050 USD pi_1", "{header}");
    }
    for header in [
        format!("t={t},v1={bad}"),
        format!("t={t},v0={good}"),
        format!("t={t},t={t},v1={good}"),
        format!("t=1769853601,v1={good}"),
        format!("v1={good}"),
        String::new(),
    ] {
        assert_eq!(try_header(&header, body), "unauthenticated", "{header}");
    }
    let refund = r#"{"id":"evt_2","type":"charge.refunded","data":{"object":{"id":"ch_1","payment_intent":"pi_1","amount":1050,"amount_refunded":50,"currency":"usd","metadata":{"order":"o-1"}}}}"#;
    let header = format!("t={t},v1={}", sha256(&format!("{t}.{refund}")));
    assert_eq!(try_header(&header, refund), "o-1 REFUNDED 50 USD pi_1");
    for (body, expected) in [
        (r#"{"type":"ping"}"#, "ignored"),
        (r#"{"kind":"probe"}"#, "fault: the profile refuses notices of this kind"),
    ] {
        let header = format!("t={t},v1={}", sha256(&format!("{t}.{body}")));
        assert_eq!(try_header(&header, body), expected);
    }
}

/// The secret is in base64 with a prefix; several signatures are in one header, each with a prefix.
#[test]
fn a_prefixed_base64_secret_and_signatures_in_a_list() {
    let profile = HEAD.to_owned()
        + r#"
exceptions = ["no_time", "no_paid_at"]
[notice]
content = "json"
[key]
encoding = "base64"
prefix = "whsec_"
[[sign]]
algorithm = "hmac-sha256"
text = "{h.webhook-id}.{h.webhook-timestamp}.{body}"
signature = "{h.webhook-signature}"
split = " "
prefix = "v1,"
output = "base64"
[map]
order = "{f.o}"
ref = "{f.r}"
amount = "{f.a}"
amount_unit = "major"
currency = "{f.c}"
"# + TAIL;
    let written = format!("whsec_{}", STANDARD.encode(SECRET));
    let keys = vec![key("k", Channel::Ipn, written.as_bytes())];
    let directory = directory_of(&profile, keys);
    let body = r#"{"state":"paid","o":"o-1","r":"r-1","a":"10.10","c":"USD"}"#;
    let signature = STANDARD.encode(hex::decode(sha256(&format!("id.1.{body}"))).unwrap());
    let list = format!("v2,abc v1,AAAA v1,{signature}");
    let headers = [("webhook-id", "id"), ("webhook-timestamp", "1"), ("webhook-signature", &list)];
    assert_eq!(verdict(&directory, &post(body, &headers)), "o-1 SUCCESS 1010 USD r-1");
    let other = altered(body, "10.10", "10.1");
    assert_eq!(verdict(&directory, &post(&other, &headers)), "unauthenticated");
    let bare = [headers[0], headers[1], ("webhook-signature", signature.as_str())];
    assert_eq!(verdict(&directory, &post(body, &bare)), "unauthenticated");
}

#[test]
fn an_array_of_notices_each_signed_by_itself() {
    let profile = |forged: &str| {
        HEAD.to_owned()
            + r#"
exceptions = ["no_time", "no_paid_at"]
[notice]
content = "json"
[items]
at = "f.items"
"# + forged + r#"
[[sign]]
algorithm = "hmac-sha256"
text = "{i.N.ref}:{i.N.order}:{i.N.amount.value}:{i.N.amount.currency}:{i.N.state}"
signature = "{i.N.sig}"
output = "base64"
[map]
order = "{i.N.order}"
ref = "{i.N.ref}"
amount = "{i.N.amount.value}"
currency = "{i.N.amount.currency}"
"# + &TAIL.replace("{f.state}", "{i.N.state}")
    };
    let item = |order: &str, state: &str| {
        let text = format!("r-{order}:{order}:100:VND:{state}");
        let signature = STANDARD.encode(hex::decode(sha256(&text)).unwrap());
        format!(
            r#"{{"N":{{"ref":"r-{order}","order":"{order}","amount":{{"value":100,"currency":"VND"}},"state":"{state}","sig":"{signature}"}}}}"#
        )
    };
    let of = |items: &[String]| format!(r#"{{"live":"true","items":[{}]}}"#, items.join(","));
    let both = of(&[item("a", "paid"), item("b", "ping")]);
    let forged = of(&[item("a", "paid"), altered(&item("b", "paid"), "100", "900")]);
    let all = directory(&profile(""));
    assert_eq!(verdict(&all, &post(&both, &[])), "a SUCCESS 100 VND r-a; ignored");
    assert_eq!(verdict(&all, &post(&forged, &[])), "unauthenticated");
    assert_eq!(verdict(&all, &post(r#"{"items":[]}"#, &[])), "malformed_json");
    assert_eq!(verdict(&all, &post(r#"{"items":{}}"#, &[])), "malformed_json");
    let item_only = directory(&profile("forged = \"refuse_item\"\n"));
    assert_eq!(verdict(&item_only, &post(&forged, &[])), "a SUCCESS 100 VND r-a");
    let none = of(&[altered(&item("b", "paid"), "100", "900")]);
    assert_eq!(verdict(&item_only, &post(&none, &[])), "unauthenticated");
}

#[test]
fn constants_tokens_and_confirmation() {
    let profile = HEAD.to_owned()
        + r#"
confirm = "always"
exceptions = ["no_time", "no_paid_at", "needs_confirmation"]
[notice]
content = "json"
[constants]
app = ""
[[sign]]
algorithm = "token"
signature = "{h.x-callback-token}"
[[require]]
value = "{f.app}"
equals = "{c.app}"
[map]
order = "{f.o}"
ref = "{f.r}"
amount = "{f.a}"
currency = "VND"
"# + TAIL;
    let directory = directory(&profile);
    let body = r#"{"state":"paid","app":"A-7","o":"o-1","r":"r-1","a":100}"#;
    let token =
        |token: &str, body: &str| verdict(&directory, &post(body, &[("X-Callback-Token", token)]));
    assert_eq!(token(SECRET, body), "o-1 SUCCESS 100 VND r-1 unconfirmed");
    assert_eq!(token(&SECRET[1..], body), "unauthenticated");
    assert_eq!(token("", body), "unauthenticated");
    assert_eq!(token(SECRET, &altered(body, "A-7", "A-8")), "unauthenticated");
}

#[test]
fn one_byte_changed_anywhere_signed_is_refused() {
    for (name, secret) in [("razorpay", SECRET), ("zalopay", SECRET)] {
        let text = crate::profile::shipped::ShippedProfile::of(name).unwrap().profile;
        let text: String = text
            .lines()
            .filter(|line| !line.starts_with("merchant ="))
            .map(|l| format!("{l}\n"))
            .collect();
        let directory = directory(&text);
        assert_eq!(secret, SECRET);
        let body = match name {
            "razorpay" => r#"{"event":"payment.captured","created_at":1769853600,"payload":{"payment":{"entity":{"id":"pay_1","amount":100,"currency":"INR","notes":{"order_id":"o-1"}}}}}"#.to_owned(),
            _ => {
                let data = r#"{"app_id":1,"app_trans_id":"260131_1","amount":1000,"zp_trans_id":2,"server_time":1769853600000}"#;
                let (mac, data) = (sha256(data), serde_json::Value::from(data));
                format!("{{\"data\":{data},\"mac\":\"{mac}\",\"type\":1}}")
            }
        };
        let signature = sha256(&body);
        let headers = [("X-Razorpay-Signature", signature.as_str())];
        let headers: &[_] = if name == "razorpay" { &headers } else { &[] };
        let good = verdict(&directory, &post(&body, headers));
        assert!(good.contains("SUCCESS"), "{good}");
        let signed =
            if name == "razorpay" { 0..body.len() } else { 8..body.find("\",\"mac").unwrap() };
        for at in signed {
            let mut bytes = body.clone().into_bytes();
            bytes[at] ^= 1;
            let Ok(other) = String::from_utf8(bytes) else { continue };
            let verdict = verdict(&directory, &post(&other, headers));
            let is_refused = !verdict.contains("SUCCESS") && !verdict.contains("fault");
            assert!(is_refused, "{name} byte {at}: {verdict}");
        }
    }
}
