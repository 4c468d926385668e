//! Texts that we sign: parts that a payer may choose, and fields that are made of texts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;

/// The beginning of `[create]` with `kind = "form_post"`.
const POST_HEAD: &str = r#"
[create]
kind = "form_post"
content = "form"
path = "/checkout"
amount_unit = "major"
expiry = "ttl"
ttl_s = 900
"#;

/// A text that we sign with the secret of notices can't be read as a notice: the description, which
/// a payer may choose, does not decide where a value ends.
#[test]
fn a_description_holds_no_marks_of_the_signed_text() {
    let mut request = request(150_000, "VND");
    request.description = "gift: a&transaction_id=7&status=paid|x".to_owned();
    let momo = sent(shipped("momo"), &request).0;
    assert!(momo.contains("gift: a transaction_id 7 status paid|x"), "{momo}");
    let zalopay = sent(shipped("zalopay"), &request).0;
    assert!(zalopay.contains("%26transaction_id%3D7"), "no description is signed: {zalopay}");
    let pairs = StarterProfile::of("sorted-pairs").unwrap().profile;
    let pairs = pairs.replace("{description|ascii}", "{description}");
    let encoded = sent(&pairs, &request).0;
    assert!(encoded.contains("%26transaction_id%3D7"), "its marks are encoded: {encoded}");
    let (before, list) = pairs.split_once("[[create.pairs]]").unwrap();
    let list = list.replacen("encoding = \"form\"", "encoding = \"none\"", 1);
    let plain = sent(&format!("{before}[[create.pairs]]{list}"), &request).0;
    assert!(plain.contains("a+transaction_id+7+status+paid%7Cx"), "{plain}");
    // Also through a text; its own marks count.
    let (before, list) = pairs.split_once("[create.sign]").unwrap();
    let list = list.replacen("text = \"{p.sent}\"", "text = \"{t.all}\"", 1);
    let text = "[[create.text]]\nname = \"all\"\ntext = \"{order}|{amount}|{description}\"\n";
    let by_text = sent(&format!("{before}{text}[create.sign]{list}"), &request).0;
    assert!(by_text.contains("a+transaction_id+7+status+paid+x"), "{by_text}");
}

/// The marks of a field's template count, and those of the notices' signed text.
#[test]
fn a_description_holds_no_marks_of_fields_and_notices() {
    let mut request = request(150_000, "VND");
    request.description = "gift~id=7#paid".to_owned();
    let momo = shipped("momo");
    assert!(sent(momo, &request).0.contains("gift~id 7#paid"));
    let notice = momo.replacen("&amount={f.amount}", "#amount={f.amount}", 1);
    let by_notice = sent(&notice, &request).0;
    assert!(by_notice.contains("gift~id 7 paid"), "{by_notice}");

    let pairs = StarterProfile::of("sorted-pairs").unwrap().profile;
    let create = r#"
[create.fields]
order = "{order}"
amount = "{amount}"
currency = "{currency}"
info = "about~{description}"
signature = "{sign}"
[create.sign]
algorithm = "hmac-sha256"
text = "{s.order}|{s.amount}|{s.currency}|{s.info}"
output = "hex"
"#;
    let profile = pairs.split("[create]").next().unwrap().to_owned() + POST_HEAD + create;
    let info = |written: &str| {
        let form = sent(&profile.replace("about~{description}", written), &request).0;
        let form = form.rsplit_once('\n').unwrap().1.to_owned();
        let mut pairs = url::form_urlencoded::parse(form.as_bytes());
        pairs.find(|(name, _)| name == "info").unwrap().1.into_owned()
    };
    assert_eq!(info("{description}"), "gift~id 7#paid");
    assert_eq!(info("about~{description}"), "about~gift id 7#paid");
    assert_eq!(info("about~{description|ascii}"), "about~gift id 7 paid");
}

/// A JSON text that is sent in base64, and signed in that form (as LiqPay does, except for SHA-1).
#[test]
fn a_field_is_made_of_a_text() {
    let pairs = StarterProfile::of("sorted-pairs").unwrap().profile;
    let create = r#"
[[create.text]]
name = "json"
text = '{{"order_id":"{order}","amount":{amount},"currency":"{currency}","description":"{description|json}"}}'
[create.fields]
data = "{t.json|base64}"
signature = "{sign}"
[create.sign]
algorithm = "sha256"
text = "{secret}{s.data}{secret}"
output = "base64"
"#;
    let profile = pairs.split("[create]").next().unwrap().to_owned() + POST_HEAD + create;
    let (sent, _) = sent(&profile, &request(150_000, "VND"));
    let form = sent.rsplit_once('\n').unwrap().1;
    let field = |name: &str| {
        let mut pairs = url::form_urlencoded::parse(form.as_bytes());
        pairs.find(|(known, _)| known == name).unwrap().1.into_owned()
    };
    let json = STANDARD.decode(field("data")).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["description"], "Hai vé \"A&B\"");
    assert_eq!((&json["order_id"], &json["amount"]), (&ORDER_ID.into(), &150_000.into()));
    let problem_with = |from: &str, to: &str| {
        let changed = profile.replace(from, to);
        let error = Profile::parse(&partner(), &changed).map(drop).unwrap_err();
        error.to_string()
    };
    let secret = problem_with("\"currency\":\"{currency}\"", "\"currency\":\"{secret}\"");
    assert!(secret.contains("a text must not name the secret"), "{secret}");
    let uncovered = problem_with("{secret}{s.data}{secret}", "{secret}{currency}");
    assert!(uncovered.contains("does not cover {order}"), "{uncovered}");
}
