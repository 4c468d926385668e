//! Mistakes in profiles: all are reported with their places, and no profile is loaded in part.

use super::*;

fn good() -> String {
    HEAD.to_owned()
        + r#"exceptions = ["no_time", "no_paid_at"]
[notice]
content = "json"
[[sign]]
algorithm = "hmac-sha256"
text = "{f.o}|{f.r}|{f.a}|{f.state}"
signature = "{f.sig}"
output = "hex-lower"
[map]
order = "{f.o}"
ref = "{f.r}"
amount = "{f.a}"
currency = "VND"
"# + TAIL
}

/// A part of the good profile => its replacement => part of the error, with `line:column` before it
/// where it has one.
const MISTAKES: &str = r#"
    version = 1 => version = 0 => 2:11: version starts at 1
    stage = "draft" => stage = "drift" => 3:9: unknown variant `drift`
    stage = "draft" => stage = "draft"\nlanguage = 2 => 4:12: this program reads language = 1
    content = "json" => content = "xml" => 6:11: unknown variant `xml`
    content = "json" => content = "json"\nmethods = ["GET"] => a GET has no body
    content = "json" => content = "json"\nmethods = ["PUT"] => notice.methods may have
    hmac-sha256 => hmac-sha3 => 8:13: unknown variant `hmac-sha3`
    text = "{f.o}|{f.r} => text = "{f.o|{f.r} => 9:8: a { without its }
    text = "{f.o}|{f.r} => text = "{x.o}|{f.r} => there is no document x before this
    |{f.state}" => " => does not cover {f.state}, which decides the status
    {f.o}|{f.r} => {f.r} => does not cover {f.o}, which decides the order
    |{f.a}| => |{f.a|crc32}| => does not cover {f.a}, which decides the amount
    signature = "{f.sig}" => signature = "{f.sig}{f.x}" => 10:13: write one place here
    signature = "{f.sig}" => # none => needs a signature
    output = "hex-lower" => # none => needs an output
    text = " => # " => needs a text
    hmac-sha256 => sha256 => a plain digest without {secret}
    hmac-sha256 => token => signs nothing of the notice
    amount = "{f.a}" => amount_unit = "minor" => has no place for amount
    amount = "{f.a}" => amount = "{f.a}"\namount_unit = "cents" => unknown variant `cents`
    currency = "VND" => currency = "VND"\nexponents = { VNX = 2 } => exponents.VNX
    currency = "VND" => currency = "VND"\ncurrencies = { usd = "US" } => currencies.usd
    currency = "VND" => currency = "VND"\ncolour = "red" => unknown field `colour`
    currency = "VND" => currency = "VND"\npaid_at = "{f.t}" => a time needs a format
    currency = "VND" => currency = "VND"\npaid_at = "{f.t}"\npaid_at_format = "%Q" => a format is rfc3339
    currency = "VND" => currency = "VND"\npaid_at = "{f.t}"\npaid_at_format = "%Y%m%d" => a pattern needs a zone
    "VND" => "VND"\npaid_at = "{f.t}"\npaid_at_format = "%Z"\npaid_at_zone = "UTC" => %Z is skipped
    "VND" => "VND"\npaid_at = "{f.t}"\npaid_at_format = "%+"\npaid_at_zone = "UTC" => not both
    "VND" => "VND"\npaid_at = "{f.t}"\npaid_at_format = "%F%::z"\npaid_at_zone = "UTC" => not both
    "VND" => "VND"\npaid_at = "{f.t}"\npaid_at_format = "%s"\npaid_at_zone = "UTC" => write unix_s
    kind = "none" => kind = "delivery"\nvalue = "{f.t}"\nformat = "%Z"\nskew_s = 5 => %Z is skipped
    outcome = "SUCCESS" => outcome = "SUCCESS"\npaid_at = "{f.t}" => a time needs a format; write paid_at_format into [map]
    outcome = "SUCCESS" => outcome = "PAID" => event.outcome is SUCCESS
    is = "paid" => iz = "paid" => unknown field `iz`
    is = "paid" => is = "paid", present = true => a condition has one of
    [[event]]\noutcome = "refuse" => # none => the last [[event]] must have no when
    when = [{ value = "{f.state}", is = "paid" }] => when = [] => has no when, so the events after it
    kind = "none" => kind = "none"\nskew_s = 5 => takes nothing else
    kind = "none" => kind = "delivery" => time.value is missing
    kind = "none" => kind = "delivery"\nvalue = "{f.t}"\nformat = "unix_s" => time.skew_s must be
    "no_time", => => an exception from the contract; add "no_time"
    "no_time", => "no_time", "get_notices", => the exception get_notices is not needed
    [limits] => [limit] => there is no section limit
    [limits] => [acks.accepted]\nstatus = 200\n[acks.bad_signature]\nstatus = 200\n[limits] => is the same answer as acks.accepted
    [limits] => [acks.thanks]\nstatus = 200\n[limits] => unknown field `thanks`
    [limits] => [acks.accepted]\nstatus = 99\n[limits] => an answer's status is 200 to 599
    [limits] => [[pairs]]\nname = "f"\nof = "f"\n[limits] => pairs needs a name
    [limits] => [[document]]\nname = "f"\nfrom = "{f.x}"\ncontent = "json"\n[limits] => document needs a name
    [limits] => [[field]]\nat = "{f.o}"\npattern = "("\n[limits] => is no regular expression
    depth = 8 => depth = 99 => limits.depth must be 1 to 32
    stage = "draft" => stage = "draft => 3:
"#;

#[test]
fn a_mistake_is_refused_with_its_place() {
    assert!(Profile::parse(&partner(), &good()).is_ok());
    let mut missed = Vec::new();
    for case in MISTAKES.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let parts: Vec<_> = case.split("=>").map(|part| part.trim().replace("\\n", "\n")).collect();
        let [from, to, expected] = parts.try_into().unwrap();
        assert!(good().contains(&from), "{case}");
        match Profile::parse(&partner(), &good().replacen(&from, &to, 1)) {
            Ok(_) => missed.push(format!("{case}\n  taken")),
            Err(error) => {
                let all = error.to_string().replace(" column ", ":").replace("line ", "");
                if !all.contains(&expected) {
                    missed.push(format!("{case}\n  {all}"));
                }
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// An older program admitted notices under these, and they are verified again.
#[test]
fn a_recorded_profile_with_a_pattern_that_is_refused_now_is_read() {
    let zone = "\npaid_at_zone = \"UTC\"";
    for (pattern, zone, is_taken) in [
        ("%F %T %Z", zone, false),
        ("%s", zone, false),
        ("%+", zone, false),
        ("%FT%T%::z", zone, false),
        ("%+", "", true),
        ("%FT%T%::z", "", true),
        ("%FT%T%#z", "", true),
    ] {
        let times = format!("\npaid_at = \"{{f.t}}\"\npaid_at_format = \"{pattern}\"{zone}");
        let text = good().replace("currency = \"VND\"", &format!("currency = \"VND\"{times}"));
        let text = text.replace("{f.state}\"\nsignature", "{f.state}|{f.t}\"\nsignature");
        let text = text.replace(", \"no_paid_at\"", "");
        let taken = Profile::parse(&partner(), &text).map(|_| ()).map_err(|why| why.to_string());
        assert_eq!(taken.is_ok(), is_taken, "{pattern}: {taken:?}");
        assert!(Profile::parse_recorded(&partner(), &text).is_ok(), "{pattern}");
    }
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let text = good()
        .replace("stage = \"draft\"", "stage = \"drift\"")
        .replace("content = \"json\"", "content = \"xml\"")
        .replace("hmac-sha256", "rot13")
        .replace("outcome = \"SUCCESS\"", "outcom = \"SUCCESS\"")
        .replace("outcome = \"ignore\"", "outcome = \"ignored\"")
        .replace("currency = \"VND\"", "currency = \"{x.c}\"")
        .replace("[limits]", "[limit]");
    let error = Profile::parse(&partner(), &text).unwrap_err();
    let text = error.to_string();
    for part in [
        "drift",
        "xml",
        "rot13",
        "outcom`",
        "event.outcome is SUCCESS",
        "no document x before this",
        "no section limit",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(error.others.len() >= 6);
}

#[test]
fn keys_that_do_not_fit_are_named() {
    let problem = |profile: &str, secret: &[u8]| {
        let profile = Profile::parse(&partner(), profile).unwrap();
        let mut account = AccountEntry::new(partner(), MerchantCode::parse("SHOP").unwrap());
        account.keys = vec![key("k", Channel::Ipn, secret)];
        let vault = VaultDocument { accounts: vec![account], ..VaultDocument::default() };
        Directory::build(vec![profile], &vault).unwrap_err()[0].to_string()
    };
    let rsa = good().replace("hmac-sha256", "rsa-sha256");
    let rsa =
        rsa.replace("text = \"", "text = \"{f.m}|").replace("[map]", "[map]\nmerchant = \"{f.m}\"");
    let not_pem = problem(&rsa, SECRET.as_bytes());
    assert!(not_pem.contains("key k is no public key"), "{not_pem}");
    let hex = good().replace("[[sign]]", "[key]\nencoding = \"hex\"\n[[sign]]");
    let not_hex = problem(&hex, SECRET.as_bytes());
    assert!(not_hex.contains("is not the hex text") && !not_hex.contains(SECRET), "{not_hex}");
    let short = problem(&hex, b"00112233445566778899aabbccddeeff");
    assert!(short.contains("key k has 16 bytes, 24 or more"), "{short}");
    let constant = good().replace("[[sign]]", "[constants]\nother = \"\"\n[[sign]]");
    let missing = problem(&constant, SECRET.as_bytes());
    assert!(missing.contains("needs the constant other"), "{missing}");
}

/// The patterns of a signed text's fields are joined into one regex.
#[test]
fn patterns_that_do_not_join_are_refused_at_load() {
    let load_error = |pattern: &str| {
        let fields = ["o", "r", "state"]
            .map(|name| format!("[[field]]\nat = \"{{f.{name}}}\"\npattern = '{pattern}'\n"));
        let text = good().replacen("[[event]]", &format!("{}[[event]]", fields.concat()), 1);
        match Profile::parse(&partner(), &text) {
            Ok(_) => "taken".to_owned(),
            Err(error) => error.to_string(),
        }
    };
    assert_eq!(load_error("[a-z]+"), "taken");
    for named in ["(?P<a>x)", "(?<a>x)"] {
        assert!(load_error(named).contains("a group has a name; write (…)"), "{named}");
    }
    assert!(load_error("a)|(?:b").contains("this is no regular expression"));
    let large = load_error(r"\w{1,100}");
    assert!(large.contains("are too large together"), "{large}");
}
