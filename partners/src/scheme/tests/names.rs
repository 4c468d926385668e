//! What a signed text does not fix: the name under which a value was sent, whether an empty value
//! was sent at all, and where one of two adjacent values ends.

use super::attacks::TEXT;
use super::*;

const LIST: &str = r#"exceptions = ["no_time", "no_paid_at"]
[notice]
content = "form"
[[pairs]]
name = "all"
of = "f"
except = ["sig"]
LIST
[[sign]]
algorithm = "hmac-sha256"
text = "{p.all}"
signature = "{f.sig}"
output = "hex-lower"
[map]
order = "{f.order}"
ref = "{f.ref}"
amount = "{f.amount}"
currency = "VND"
"#;

/// The profile of a form with this list; `{f.state}` decides the status.
fn of_list(list: &str) -> String {
    HEAD.to_owned() + &LIST.replace("LIST", list) + TAIL
}

fn read_profile(profile: &str) -> String {
    match Profile::parse(&partner(), profile) {
        Ok(_) => "taken".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn values_without_their_names_are_covered_only_where_the_names_are_fixed() {
    let keys = "keys = [\"amount\", \"order\", \"ref\", \"state\"]\n";
    for (list, is_taken) in [
        ("", true),
        ("encoding = \"form\"", true),
        ("write = \"values\"\nseparator = \"|\"", false),
        ("write = \"values\"\nseparator = \"|\"\norder = \"as-is\"", false),
        ("write = \"values\"\nseparator = \"|\"\nencoding = \"rfc3986\"", false),
        (&format!("{keys}write = \"values\"\nseparator = \"|\""), true),
        (&format!("{keys}write = \"values\"\nseparator = \"|\"\nempty = \"skip\""), false),
        (&format!("{keys}write = \"values\"\nseparator = \"\""), false),
        ("write = \"names-and-values\"", false),
        (&format!("{keys}write = \"names-and-values\"\nseparator = \"|\""), true),
        ("assign = \"\"", false),
        ("separator = \"\"", false),
        (&format!("{keys}separator = \"\""), false),
        (&format!("{keys}empty = \"skip\""), true),
    ] {
        let said = read_profile(&of_list(list));
        let expected = "does not bind values to names";
        assert_eq!(said == "taken", is_taken, "{list}: {said}");
        assert!(is_taken || said.contains(expected), "{list}: {said}");
        let confirmed = of_list(list).replace("stage =", "confirm = \"always\"\nstage =");
        let confirmed = confirmed.replace("\"no_time\"", "\"needs_confirmation\", \"no_time\"");
        assert_eq!(read_profile(&confirmed), "taken", "{list}");
    }
    let by_text = of_list("write = \"values\"\nseparator = \"|\"")
        .replace("text = \"{p.all}\"", "text = \"{t.all}\"")
        .replace("[[sign]]", "[[text]]\nname = \"all\"\ntext = \"x{p.all}\"\n[[sign]]");
    assert!(
        read_profile(&by_text).contains("does not bind values to names"),
        "through a text, too"
    );
}

/// With fixed names and the separator in a value, the same text fits another notice.
#[test]
fn a_value_does_not_slide_under_another_name() {
    let keys =
        "keys = [\"amount\", \"order\", \"ref\", \"state\"]\nwrite = \"values\"\nseparator = \"|\"";
    let directory = directory(&of_list(keys));
    let said = |body: &str, text: &str| {
        verdict(&directory, &post(&format!("{body}&sig={}", sha256(text)), &[]))
    };
    assert_eq!(said("amount=5&order=o&ref=r&state=paid", "5|o|r|paid"), "o SUCCESS 5 VND r");
    let slid = said("amount=5&order=o&ref=r%7Cx&state=paid", "5|o|r|x|paid");
    assert!(slid.starts_with("fault: the member \"ref\""), "{slid}");
}

/// A deciding value can't contain the member that follows it. Otherwise one payment could be
/// reported under two refs.
#[test]
fn a_deciding_value_swallows_no_member_behind_it() {
    let directory = directory(&of_list(""));
    let text = "amount=5&order=o&ref=r&sa=x&state=paid";
    let said =
        |body: &str| verdict(&directory, &post(&format!("{body}&sig={}", sha256(text)), &[]));
    assert_eq!(said(text), "o SUCCESS 5 VND r");
    let swallowed = said("amount=5&order=o&ref=r%26sa%3Dx&state=paid");
    assert!(swallowed.starts_with("fault: the member \"ref\""), "{swallowed}");
}

/// An empty value can be added or removed without changing the signed text, so it must not change
/// the meaning.
#[test]
fn an_empty_value_means_the_same_as_an_absent_one() {
    let events = r#"
[[event]]
when = [{ value = "{f.refund}", present = true }]
outcome = "REFUNDED"
[[event]]
when = [{ value = "{f.state}", is = "paid" }, { value = "{f.error}", present = false }]
outcome = "SUCCESS"
[[event]]
when = [{ value = "{f.state}", is_not = "new" }]
outcome = "FAILED"
"#;
    let (before, after) = TAIL.split_once("[[event]]").unwrap();
    let tail = format!("{before}{events}[[event]]{after}");
    let profile = HEAD.to_owned() + &LIST.replace("LIST", "empty = \"skip\"") + &tail;
    let directory = directory(&profile);
    let text = "amount=5&order=o&ref=r&state=paid";
    for more in ["", "&refund=", "&error=", "&refund=&error="] {
        let body = format!("{text}{more}&sig={}", sha256(text));
        assert_eq!(verdict(&directory, &post(&body, &[])), "o SUCCESS 5 VND r", "{more}");
    }
    for test in ["is = \"\"", "is_not = \"\"", "one_of = [\"a\", \"\"]", "starts_with = \"\""] {
        let other = profile.replace("present = true", test);
        assert!(read_profile(&other).contains("write present = false (or true)"), "{test}");
    }
}

fn side_by_side(text: &str, more: &str) -> String {
    let time = "kind = \"delivery\"\nvalue = \"{h.X-Time}\"\nformat = \"unix_s\"\nskew_s = 300";
    let tail = TAIL.replace("kind = \"none\"", time);
    let signed = TEXT.replace("TEXT", text).replace("\"no_time\", ", "");
    HEAD.to_owned() + &signed + more + &tail
}

#[test]
fn adjacent_values_are_checked_when_the_profile_is_read() {
    let field = |at: &str, what: &str| format!("[[field]]\nat = \"{at}\"\n{what}\n");
    for (text, more, is_taken) in [
        ("{h.X-Time}{body}", String::new(), true),
        ("{h.X-Other}{h.X-Time}{body}", String::new(), false),
        ("{h.X-Other}{h.X-Time}{body}", field("{h.X-Other}", "pattern = \"[a-f]{8}\""), true),
        ("{h.X-Time}{h.X-Id}{body}", field("{h.X-Id}", "pattern = \"[0-9]+\""), false),
        ("{h.X-Time}|{h.X-Id}{body}", field("{h.X-Id}", "pattern = \"[0-9]+\""), true),
        ("{h.X-Id}{body}|{h.X-Time}", String::new(), false),
        ("{h.X-Id}{body}|{h.X-Time}", field("{h.X-Id}", "pattern = \".+\""), false),
        ("{h.X-Id}{body}|{h.X-Time}", field("{h.X-Id}", "pattern = \"[0-9]+\""), true),
        ("{h.X-Id|sha256_hex}{body}|{h.X-Time}", String::new(), true),
        ("{h.X-Time}{method}{path}{body}", String::new(), true),
        ("{url}{body}|{h.X-Time}", String::new(), true),
        ("{body}{h.X-Time}", String::new(), true),
        ("{f.o}{f.r}{f.a}{f.state}{h.X-Time}", String::new(), false),
    ] {
        let said = read_profile(&side_by_side(text, &more));
        assert_eq!(said == "taken", is_taken, "{text}: {said}");
        assert!(is_taken || said.contains("nothing separates"), "{text}: {said}");
    }
}

/// A profile that passes the check accepts signed notices, and no other reading of their texts.
#[test]
fn a_body_right_behind_a_time_is_read_one_way() {
    let body = r#"{"o":"o-1","r":"r.1","a":1,"state":"paid","x":"{1}"}"#;
    let time = "1769853600";
    let at = |text: &str, (time, sent): (&str, &str), signed: &str| {
        let directory = directory(&side_by_side(text, ""));
        let signature = sha256(signed);
        verdict(&directory, &post(sent, &[("X-Time", time), ("X-Sig", signature.as_str())]))
    };
    for (text, signed) in [
        ("{h.X-Time}{body}", format!("{time}{body}")),
        ("{body}{h.X-Time}", format!("{body}{time}")),
        (
            "{url}{body}|{h.X-Time}",
            format!("https://pay.example.com/api/payment/ipn/acme{body}|{time}"),
        ),
        ("{h.X-Time}{method}{path}{body}", format!("{time}POST/api/payment/ipn/acme{body}")),
    ] {
        assert_eq!(at(text, (time, body), &signed), "o-1 SUCCESS 1 VND r.1", "{text}");
    }
    // If a digit moves from one value into the other, the time or the JSON is invalid.
    let slid = at("{h.X-Time}{body}", ("176985360", &format!("0{body}")), &format!("{time}{body}"));
    assert!(slid.starts_with("malformed_json"), "{slid}");
    let spaced = format!(" {body}");
    let accepted = at("{h.X-Time}{body}", (time, &spaced), &format!("{time}{spaced}"));
    assert_eq!(accepted, "o-1 SUCCESS 1 VND r.1");
}
