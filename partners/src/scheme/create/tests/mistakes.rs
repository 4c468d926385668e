//! Mistakes in `[create]`: each is reported with its place.

use super::*;

/// A call that uses every part of the section.
fn call() -> String {
    let (head, _) =
        StarterProfile::of("sorted-pairs").unwrap().profile.split_once("[create]").unwrap();
    format!(
        r#"{head}[create]
kind = "call"
method = "POST"
path = "/payments"
credential = "bearer"
token = "{{secret}}"
content = "form"
amount_unit = "minor"
expiry = "request"
ttl_s = 900
[create.fields]
order = "{{order}}"
amount = "{{amount}}"
currency = "{{currency}}"
until = "{{expires}}"
sign = "{{sign}}"
[[create.pairs]]
name = "sent"
of = "s"
[create.sign]
algorithm = "hmac-sha256"
text = "{{p.sent}}"
output = "hex-lower"
[create.answer]
success = [{{ value = "{{a.code}}", is = "0" }}]
ref = "{{a.id}}"
redirect = "{{a.url}}"
"#
    )
}

/// A part of the good section => its replacement => part of the error, with `line:column` within
/// the section before it where it has one.
const MISTAKES: &str = r#"
    kind = "call" => kind = "form" => 2:8: unknown variant `form`, expected one of `call`, `signed_url`, `form_post`
    kind = "call" =>  => missing field `kind`
    method = "POST" => => create.method is missing: GET or POST
    method = "POST" => method = "PUT" => 3:10: unknown variant `PUT`
    path = "/payments" => path = "payments" => 4:8: create.path must be a path
    path = "/payments" => path = "/a b" => create.path must be a path
    path = "/payments" => path = "/{secret}" => the secret must not stand in an address
    path = "/payments" => path = "/{body}" => {body} can't stand here
    path = "/payments" => path = "/{ref}" => {ref} names nothing; tokens are order, now, now_s, now_ms, sign, nonce, key_serial, access_token, amount, currency
    path = "/payments" => path = "/{s.none}" => {s.none} names no key of [create.fields]
    path = "/payments" => path = "/{order|after}" => there is no filter after; there are: crc32
    path = "/payments" => base = "https://{merchant}.example"\npath = "/payments" => create.base is an address or a constant
    credential = "bearer" => credential = "basic" => a credential is none
    credential = "bearer" => colour = "red"\ncredential = "bearer" => unknown field `colour`
    content = "form" => content = "xml" => unknown variant `xml`
    content = "form" => => a body needs method = "POST"
    content = "form" => content = "form"\nencoding = "none" => fields are sent encoded
    amount_unit = "minor" => => missing field `amount_unit`
    amount_unit = "minor" => amount_unit = "cents" => unknown variant `cents`
    amount_unit = "minor" => amount_unit = "minor"\nexponents = { XXY = 1 } => exponents.XXY must be a currency
    amount_unit = "minor" => amount_unit = "minor"\ncurrencies = { usd = "US" } => currencies.usd must be a currency
    amount_unit = "minor" => amount_unit = "minor"\ncurrencies = { a = "USD", b = "USD" } => currencies.b is a second code for USD
    expiry = "request" => expiry = "never" => unknown variant `never`
    expiry = "request" => expiry = "response" => 9:10: expiry = "response" needs [create.answer] expires
    expiry = "request" => expiry = "ttl" => an expiry is sent to the partner, so write expiry = "request"
    until = "{expires}" => => expiry = "request" needs {expires}, {expires_in_s} or {expires_in_min}
    ttl_s = 900 => ttl_s = 59 => create.ttl_s must be 60 to 31536000
    ttl_s = 900 => => missing field `ttl_s`
    ttl_s = 900 => ttl_s = 900\ntimeout_s = 61 => create.timeout_s must be 1 to 60
    ttl_s = 900 => ttl_s = 900\nanswer_bytes = 1048577 => create.answer_bytes must be 1024 to 1048576
    ttl_s = 900 => ttl_s = 900\ngrace_s = 86401 => create.grace_s must be 0 to 86400
    ttl_s = 900 => ttl_s = 900\nmax_session_s = 0 => create.max_session_s must be 1 to 604800
    ttl_s = 900 => ttl_s = 900\nexpires_format = "%Q" => a format is rfc3339
    ttl_s = 900 => ttl_s = 900\nexpires_format = "%H%#z" => this pattern is for reading only
    ttl_s = 900 => ttl_s = 900\nexpires_zone = "UTC" => create.expires_zone is for a pattern
    order = "{order}" => => {order} is not sent
    order = "{order}" => order = "{order|compact}" => the order is sent changed, and [map] order reads it unchanged
    amount = "{amount}" => => {amount} is not sent
    currency = "{currency}" => => {currency} is not sent, so the amount could be of any currency
    order = "{order}" => order = "{f.order}" => {f.order} can't stand here: no document is read
    sign = "{sign}" => => [create.sign] makes {sign}, and nothing that is sent
    of = "s" => of = "f" => there is no document f before this; there are: s
    of = "s" => of = "s"\nexcept = ["amount"] => [create.sign] does not cover {amount}
    of = "s" => of = "s"\nkeys = ["amount"] => [create.sign] does not cover {order}
    text = "{p.sent}" => text = "{body}" => create.sign.text includes the part of the request that holds {sign}
    text = "{p.sent}" => text = "{s.sign}{amount}" => create.sign.text includes the part of the request that holds {sign}
    text = "{p.sent}" => text = "{order}" => [create.sign] does not cover {amount}
    hmac-sha256 => rsa-sha1 => no call is signed with rsa-sha1
    hmac-sha256 => md5 => a plain digest without {secret}
    ref = "{a.id}" => ref = "{order}" => {order} is not read from the answer
    ref = "{a.id}" => ref = "soon" => ref is "later", where only the notice names the transaction
    ref = "{a.id}" => => missing field `ref`
    redirect = "{a.url}" => => [create.answer] needs redirect or qr
    redirect = "{a.url}" => redirect = "{s.url}" => there is no document s before this; there are: a
    redirect = "{a.url}" => redirect = "{a.url}"\nexpires_format = "unix_s" => expires_format and expires_zone need expires
    redirect = "{a.url}" => redirect = "{a.url}"\nexpires = "{a.until}" => a time needs a format
    redirect = "{a.url}" => redirect = "{a.url}"\nexpires = "{a.until}"\nexpires_format = "unix_s" => [create.answer] has expires, so write expiry = "response"
    value = "{a.code}" => value = "{amount}" => {amount} is not read from the answer
"#;

/// The same for a signed address.
const OF_ADDRESSES: &str = r#"
    kind = "signed_url" => kind = "signed_url"\nmethod = "GET" => kind = "signed_url" makes no call
    kind = "signed_url" => kind = "signed_url"\nheaders = { X = "1" } => kind = "signed_url" makes no call
    kind = "signed_url" => kind = "signed_url"\ncontent = "json"\nbody = "x" => kind = "signed_url" makes no call
    vnp_OrderType = "other" => vnp_OrderType = "{secret}" => the secret must not stand in an address
    encoding = "form"\namount_unit => encoding = "raw"\namount_unit => fields are sent encoded
    vnp_SecureHash = "{sign}" => => [create.sign] makes {sign}, and nothing that is sent
    [create.sign]\nalgorithm = "hmac-sha512"\ntext = "{p.sent}"\noutput = "hex-lower" => => without a signature anybody could build this address
    text = "{p.sent}" => text = "{query}" => create.sign.text includes the part of the request that holds {sign}
    vnp_Amount = "{amount}" => vnp_Amount = "100" => {amount} is not sent
"#;

/// The same for a form.
const OF_POSTED_FIELDS: &str = r#"
    content = "form" => => a browser posts a form: write content = "form"
    content = "form" => content = "form"\nmethod = "POST" => kind = "form_post" makes no call
    path = "/paymentv2/vpcpay.html" => path = "/{order}" => a form is posted to one fixed address
    vnp_OrderType = "other" => vnp_OrderType = "{secret}" => the payer sees the fields of a form
    [create.sign]\nalgorithm = "hmac-sha512"\ntext = "{p.sent}"\noutput = "hex-lower" => => without a signature anybody could build this address
"#;

fn problems(profile: &str) -> Option<String> {
    let head = profile[..profile.find("[create]").unwrap()].lines().count();
    let error = Profile::parse(&partner(), profile).err()?;
    let all = std::iter::once(&error).chain(&error.others);
    let line = |e: &crate::profile::error::ProfileError| {
        format!("{}:{}: {}\n", e.line.saturating_sub(head), e.column, e.problem)
    };
    Some(all.map(line).collect())
}

fn check(good: &str, cases: &str) {
    assert_eq!(problems(good), None);
    let mut missed = Vec::new();
    for case in cases.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let parts: Vec<_> = case.split("=>").map(|part| part.trim().replace("\\n", "\n")).collect();
        let [from, to, expected] = parts.try_into().unwrap();
        let (head, create) = good.split_at(good.find("[create]").unwrap());
        assert!(create.contains(&from), "{case}");
        let problems = problems(&format!("{head}{}", create.replacen(&from, &to, 1)));
        let problems = problems.unwrap_or_else(|| "taken".to_owned());
        if !problems.contains(&expected) {
            missed.push(format!("{case}\n  {problems}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn a_mistake_is_refused_with_its_place() {
    check(&call(), MISTAKES);
}

#[test]
fn a_mistake_in_a_signed_address_is_refused() {
    check(&vnpay(), OF_ADDRESSES);
}

#[test]
fn a_mistake_in_posted_fields_is_refused() {
    let form = vnpay().replace("kind = \"signed_url\"", "kind = \"form_post\"\ncontent = \"form\"");
    check(&form, OF_POSTED_FIELDS);
}

#[test]
fn a_call_that_does_not_authenticate_us_is_refused() {
    let unsigned = call().replace("sign = \"{sign}\"\n", "");
    let sign =
        "[create.sign]\nalgorithm = \"hmac-sha256\"\ntext = \"{p.sent}\"\noutput = \"hex-lower\"\n";
    let unsigned = unsigned.replace(sign, "");
    assert_eq!(problems(&unsigned), None, "the bearer token is enough");
    let without_credential =
        unsigned.replace("credential = \"bearer\"\ntoken = \"{secret}\"\n", "");
    assert!(problems(&without_credential).unwrap().contains("the call does not authenticate us"));
    let by_field = without_credential
        .replace("order = \"{order}\"", "order = \"{order}\"\nkey = \"{secret}\"");
    assert_eq!(problems(&by_field), None);
}

#[test]
fn a_field_brings_no_secret_into_an_address() {
    let with = |path: &str| {
        let path = format!("path = \"/payments?x={path}\"");
        let call = call().replace("path = \"/payments\"", &path);
        call.replace("order = \"{order}\"", "order = \"{order}\"\nkey = \"{secret}\"")
    };
    assert_eq!(problems(&with("{s.order}")), None);
    for path in ["{s.key}", "{p.sent}"] {
        let problems = problems(&with(path)).unwrap_or_default();
        assert!(
            problems.contains(&format!("{path} has the secret or an access token in it")),
            "{problems}"
        );
    }
}

#[test]
fn a_session_without_its_transaction_can_t_be_named_by_a_notice() {
    let session = |profile: &str| profile.replacen("stage =", "ref_is_session = true\nstage =", 1);
    assert_eq!(problems(&session(&call())), None);
    let later = session(&call().replace("ref = \"{a.id}\"", "ref = \"later\""));
    assert!(problems(&later).unwrap().contains("no notice's ref could ever be it"));
    assert!(problems(&session(&vnpay())).unwrap().contains("no notice's ref could ever be it"));
    let by_order = later.replace("ref = \"{q.transaction_id}\"", "ref = \"{q.order_id}\"");
    assert_eq!(problems(&by_order), None);
}

#[test]
fn a_missing_answer_is_reported() {
    let without = call().split("[create.answer]").next().unwrap().to_owned();
    assert!(problems(&without).unwrap().contains("2:8: [create.answer] is missing"));
}

#[test]
fn all_mistakes_of_the_section_are_reported_at_once() {
    let text = call()
        .replace("\"POST\"", "\"PUT\"")
        .replace("hmac-sha256", "rot13")
        .replace("ttl_s = 900", "ttl_s = \"soon\"")
        .replace("redirect =", "redirekt =");
    let problems = problems(&text).unwrap();
    for part in ["PUT", "rot13", "soon", "redirekt"] {
        assert!(problems.contains(part), "{part} in {problems}");
    }
}

#[test]
fn what_is_only_signed_is_not_sent() {
    for value in ["order", "amount", "currency"] {
        let field = format!("{value} = \"{{{value}}}\"\n");
        let text = format!("[[create.text]]\nname = \"rest\"\ntext = \"{{{value}}}\"\n");
        let signed = call()
            .replacen(&field, "", 1)
            .replacen("[[create.pairs]]", &format!("{text}[[create.pairs]]"), 1)
            .replacen("text = \"{p.sent}\"", "text = \"{p.sent}{t.rest}\"", 1);
        let problem = problems(&signed).unwrap();
        assert!(problem.contains(&format!("{{{value}}} is not sent")), "{problem}");
        // A program that admitted it reads its notices again.
        assert!(Profile::parse_recorded(&partner(), &signed).is_ok());
        let sent = "[create.fields]\ncode = \"{t.rest}\"";
        assert_eq!(problems(&signed.replacen("[create.fields]", sent, 1)), None);
    }
}

/// With a body, fields are sent where it names them.
#[test]
fn a_field_beside_a_body_is_sent_if_the_body_names_it() {
    let with = |body: &str| {
        let body = format!("ttl_s = 900\nbody = '{body}'");
        problems(&call().replacen("ttl_s = 900", &body, 1)).unwrap_or_default()
    };
    let none = with("x");
    for value in ["{order} is not sent", "{currency} is not sent", "nothing that is sent uses"] {
        assert!(none.contains(value), "{value} in {none}");
    }
    assert_eq!(with("{p.sent}&sign={sign}"), "");
    assert_eq!(with("{s.order}{s.amount}{s.currency}{s.until}{sign}"), "");
    let unsigned = with("{p.sent}");
    assert!(unsigned.contains("nothing that is sent uses"), "{unsigned}");
}

#[test]
fn one_currency_need_not_be_sent() {
    let with = |currencies: &str| {
        let silent = call().replacen("currency = \"{currency}\"\n", "", 1);
        let with = format!("ttl_s = 900\ncurrencies = {currencies}");
        problems(&silent.replacen("ttl_s = 900", &with, 1))
    };
    assert_eq!(with("{ USD = \"USD\" }"), None);
    let problem = with("{ USD = \"USD\", EUR = \"EUR\" }").unwrap();
    assert!(problem.contains("{currency} is not sent"), "{problem}");
}
