//! Forged notices made of signed ones: text moved from a value the payer chooses into one that
//! decides, a corrected digest, a value left out, an old notice with a new time.

use super::kinds::altered;
use super::*;

fn momo() -> Directory {
    let shipped = crate::profile::shipped::ShippedProfile::of("momo").unwrap().profile;
    directory(&altered(shipped, "accessKey = \"\"", "accessKey = \"K\""))
}

/// A MoMo notice with these free texts, and the text they sign.
fn momo_notice(order: &str, extra: &str, info: &str, message: &str) -> (String, String) {
    let text = format!(
        "accessKey=K&amount=100&extraData={extra}&message={message}&orderId={order}&\
         orderInfo={info}&orderType=w&partnerCode=SHOP&payType=qr&requestId=q&\
         responseTime=1769853600000&resultCode=0&transId=1"
    );
    let body = serde_json::json!({
        "amount": 100, "extraData": extra, "message": message, "orderId": order,
        "orderInfo": info, "orderType": "w", "partnerCode": "SHOP", "payType": "qr",
        "requestId": "q", "responseTime": 1_769_853_600_000_i64, "resultCode": 0, "transId": 1,
        "signature": sha256(&text),
    });
    (body.to_string(), text)
}

#[test]
fn text_does_not_slide_between_the_fields_of_a_template() {
    let directory = momo();
    let (plain, _) = momo_notice("A-1", "a=b&c", "real & good", "Ok");
    assert_eq!(verdict(&directory, &post(&plain, &[])), "A-1 SUCCESS 100 VND 1");
    let signed_notice = momo_notice("A-1", "x&message=Ok&orderId=B-2&orderInfo=y", "real", "Ok");
    let forged = momo_notice("B-2", "x", "y&message=Ok&orderId=A-1&orderInfo=real", "Ok");
    assert_eq!(signed_notice.1, forged.1, "one text, so one signature");
    for (body, _) in [signed_notice, forged] {
        let said = verdict(&directory, &post(&body, &[]));
        assert!(said.starts_with("fault: the end of {f.extraData} in the signed text"), "{said}");
    }
}

#[test]
fn text_does_not_slide_where_every_value_decides() {
    let all = TEXT.replace("TEXT", "{f.r}:{f.o}:{f.a}:{f.state}");
    let directory = directory(&(HEAD.to_owned() + &all + TAIL));
    let said = |order: &str, reference: &str, text: &str| {
        let body = serde_json::json!({ "o": order, "r": reference, "a": 5, "state": "paid" });
        let signature = sha256(text);
        verdict(&directory, &post(&body.to_string(), &[("X-Sig", signature.as_str())]))
    };
    assert_eq!(said("o1", "R", "R:o1:5:paid"), "o1 SUCCESS 5 VND R");
    let slid = |order, reference| said(order, reference, "R:A:o1:5:paid");
    assert!(
        slid("A:o1", "R").starts_with("fault: the end of {f.o} in"),
        "the text was signed with these values"
    );
    assert!(
        slid("o1", "R:A").starts_with("fault: the end of {f.r} in"),
        "and it fits these values, too"
    );
}

#[test]
fn an_optional_piece_may_be_left_out() {
    let all = TEXT.replace("TEXT", "{f.r}|{f.o}|{f.a}|{f.state}[|{f.x}+{f.y}]");
    let directory = directory(&(HEAD.to_owned() + &all + TAIL));
    let said = |more: serde_json::Value, text: &str| {
        let mut body = serde_json::json!({ "o": "o1", "r": "R", "a": 5, "state": "paid" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let signature = sha256(text);
        verdict(&directory, &post(&body.to_string(), &[("X-Sig", signature.as_str())]))
    };
    let good = "o1 SUCCESS 5 VND R";
    assert_eq!(said(serde_json::json!({ "x": "1", "y": "2" }), "R|o1|5|paid|1+2"), good);
    assert_eq!(
        said(serde_json::json!({ "x": "1" }), "R|o1|5|paid"),
        good,
        "y is left out, so is x"
    );
}

const LIST: &str = r#"exceptions = ["no_time", "no_paid_at"]
[notice]
content = "json"
[[pairs]]
name = "all"
of = "f.data"
[[sign]]
algorithm = "hmac-sha256"
text = "{p.all}"
signature = "{f.signature}"
output = "hex-lower"
[map]
order = "{f.data.orderCode}"
ref = "{f.data.ref}"
amount = "{f.data.amount}"
currency = "VND"
"#;

#[test]
fn text_does_not_slide_between_the_members_of_a_list() {
    let profile = HEAD.to_owned() + LIST + &TAIL.replace("{f.state}", "{f.data.state}");
    let directory = directory(&profile);
    let signed =
        |data: &str, text: &str| format!(r#"{{"data":{data},"signature":"{}"}}"#, sha256(text));
    let text = "amount=1&description=foo&orderCode=2&orderCode=1&ref=r&state=paid";
    for data in [
        r#"{"amount":1,"description":"foo&orderCode=2","orderCode":1,"ref":"r","state":"paid"}"#,
        r#"{"amount":1,"description":"foo","orderCode":2,"orderCode=1&ref":"r","state":"paid"}"#,
        r#"{"amount":1,"description":"foo","orderCode":2,"orderCode=1&ref=r&state":"paid","ref":"r"}"#,
    ] {
        let said = verdict(&directory, &post(&signed(data, text), &[]));
        assert!(
            said.starts_with("fault: the member") || said == "unauthenticated",
            "{data}: {said}"
        );
    }
    let harmless = r#"{"amount":1,"description":"a=1&b=2","orderCode":1,"ref":"r","state":"paid"}"#;
    let text = "amount=1&description=a=1&b=2&orderCode=1&ref=r&state=paid";
    assert_eq!(verdict(&directory, &post(&signed(harmless, text), &[])), "1 SUCCESS 1 VND r");
}

/// A profile of JSON that signs TEXT.
pub(crate) const TEXT: &str = r#"exceptions = ["no_time", "no_paid_at"]
[notice]
content = "json"
[[sign]]
algorithm = "hmac-sha256"
text = "TEXT"
signature = "{h.X-Sig}"
output = "hex-lower"
[map]
order = "{f.o}"
ref = "{f.r}"
amount = "{f.a}"
currency = "VND"
"#;

/// The errors of a profile with this signed text, or `taken`.
fn read_profile(text: &str, time: &str) -> String {
    let profile =
        HEAD.to_owned() + &TEXT.replace("TEXT", text) + &TAIL.replace("kind = \"none\"", time);
    match Profile::parse(&partner(), &profile) {
        Ok(_) => "taken".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_text_that_protects_no_value_is_refused() {
    let none = "kind = \"none\"";
    assert_eq!(read_profile("{body}", none), "taken");
    assert!(
        read_profile("{body|crc32}", none)
            .contains("does not cover {f.o}, which decides the order")
    );
    assert!(read_profile("{h.id}|{body|md5_hex}", none).contains("add \"weak_algorithm\""));
    assert!(read_profile("{body|lower}", none).contains("add \"case_folded\""));
    assert!(
        read_profile("{f.o}|{f.r}|{f.state}[|{f.x}|{f.a}]", none).contains("does not cover {f.a}")
    );
    assert_eq!(read_profile("{f.o}|{f.r}|{f.state}[|{f.a}]", none), "taken");
    assert!(
        read_profile("{f.o}{f.r}|{f.a}|{f.state}", none)
            .contains("nothing separates {f.o} and {f.r}")
    );
    let delivery = "kind = \"delivery\"\nvalue = \"{h.X-Time}\"\nformat = \"unix_s\"\nskew_s = 300";
    let unsigned = read_profile("{body}", delivery);
    assert!(unsigned.contains("add \"unsigned_time\""), "{unsigned}");
    assert!(!read_profile("{h.X-Time}.{body}", delivery).contains("unsigned_time"));
}

/// A text of header and body has one reading although the body holds the mark between them.
#[test]
fn a_body_behind_a_time_is_read_one_way() {
    let profile = HEAD.to_owned() + &TEXT.replace("TEXT", "{h.X-Id}.{h.X-Time}.{body}") + TAIL;
    let directory = directory(&profile);
    let body = r#"{"o":"o-1","r":"r.1","a":1,"state":"paid","x":"a.b.c"}"#;
    let signature = sha256(&format!("id.5.{body}"));
    let headers =
        |id: &'static str, time: &'static str| vec![("X-Id", id), ("X-Time", time), ("X-Sig", "")];
    let with = |headers: Vec<(&str, &str)>| {
        let headers: Vec<_> = headers
            .into_iter()
            .map(|(n, v)| (n, if n == "X-Sig" { signature.as_str() } else { v }))
            .collect();
        verdict(&directory, &post(body, &headers))
    };
    assert_eq!(with(headers("id", "5")), "o-1 SUCCESS 1 VND r.1");
    assert_eq!(with(headers("id", "6")), "unauthenticated");
}
