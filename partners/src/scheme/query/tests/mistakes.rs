//! Mistakes in `[query]`: each is reported with its place.

use super::*;

const GOOD: &str = r#"method = "POST"
path = "/q/{order}"
credential = "basic"
user = "{secret}"
content = "json"
body = '{{"sign":"{sign}"}}'
[query.sign]
algorithm = "hmac-sha256"
text = "{order}"
output = "hex-lower"
"#;

/// A part of the good section => its replacement => part of the error, with `line:column` within
/// the section before it where it has one.
const MISTAKES: &str = r#"
    "POST" => "PUT" => 2:10: unknown variant `PUT`
    "POST" => "GET" => 7:8: a body needs method = "POST"
    path = "/q => path = "q => 3:8: query.path must be a path
    path = "/q => path = "//q => 3:8: query.path must be a path
    path = "/q => path = "/q# => query.path must be a path
    /q/{order} => /q/{ordre} => 3:8: {ordre} names nothing; tokens are order, now, now_s, now_ms, sign, nonce, key_serial, access_token, ref, order_without_ref, body
    /q/{order} => /q/{f.order} => {f.order} can't stand here: no document is read
    /q/{order} => /q/{h.Order} => {h.Order} can't stand here
    /q/{order} => /q/{order}/{secret} => the secret must not stand in an address
    /q/{order} => /q/{c.none} => there is no constant none
    /q/{order} => /q/{body} => {body} can't stand here
    /q/{order} => /q/{order}?s={sign|shout} => there is no filter shout
    user = "{secret}" => # none => 4:14: a credential is none
    user = "{secret}" => token = "{secret}" => a credential is none
    credential = "basic" => credential = "bearer" => a credential is none
    credential = "basic" => credential = "digest" => unknown variant `digest`
    credential = "basic" => headers = { Authorization = "x" }\ncredential = "basic" => query.credential writes Authorization already
    credential = "basic" => headers = { Host = "x" }\ncredential = "basic" => Host is no header that can be set
    credential = "basic" => headers = { "a b" = "x" }\ncredential = "basic" => a b is no header that can be set
    credential = "basic" => key = "mine"\ncredential = "basic" => unknown variant `mine`
    credential = "basic" => colour = "red"\ncredential = "basic" => unknown field `colour`
    credential = "basic" => per_s = 0\ncredential = "basic" => 4:9: query.per_s must be 1 to 1000
    credential = "basic" => at_once = 65\ncredential = "basic" => query.at_once must be 1 to 64
    credential = "basic" => timeout_s = 61\ncredential = "basic" => query.timeout_s must be 1 to 60
    credential = "basic" => answer_bytes = 9\ncredential = "basic" => query.answer_bytes must be 1024 to
    credential = "basic" => not_found = [200]\ncredential = "basic" => query.not_found takes 400 to 499
    credential = "basic" => not_found = [401]\ncredential = "basic" => query.not_found takes 400 to 499
    credential = "basic" => now_zone = "+07:00"\ncredential = "basic" => now_zone is for a pattern
    credential = "basic" => now_format = "%Q"\ncredential = "basic" => a format is rfc3339
    content = "json" => # none => a body needs
    '{{"sign":"{sign}"}}' => '{"sign":"{sign}"}' => 7:8: {"sign":"{sign}"} names nothing
    "{sign}" => "x" => [query.sign] makes {sign}, and nothing that is sent
    hmac-sha256 => rsa-sha1 => 9:13: no call is signed with rsa-sha1
    hmac-sha256 => token => a call is signed with hmac-…
    hmac-sha256 => md5 => a plain digest without {secret}
    text = "{order}" => text = "{body}" => query.sign.text includes the part of the request that holds {sign}
    text = "{order}" => text = "{sign}" => {sign} can't stand here
    output = "hex-lower" => output = "hex-middle" => unknown variant `hex-middle`
"#;

/// The same for the map and the events.
const OF_ANSWERS: &str = r#"
    [query.map] => [query.mapp] => unknown field `mapp`
    ref = "{a.transaction_id}" => => it ends a payment and has no place for ref
    ref = "{a.transaction_id}" => ref = "{ref}" => {ref} is not read from the answer
    order = "{a.order_id}" => order = "{order}" => {order} is not read from the answer
    amount = "{a.gross_amount}" => amount = "{f.gross_amount}" => there is no document f before this; there are: a
    amount = "{a.gross_amount}" => amount = "{secret}" => {secret} is not read from the answer
    amount_unit = "major" => amount_unit = "cents" => unknown variant `cents`
    amount_unit = "major" => paid_at = "{a.t}" => query.map takes no paid_at
    outcome = "unknown" => outcome = "ignore" => query.event.outcome is SUCCESS
    outcome = "SUCCESS" => outcome = "pending" => no [[query.event]] has outcome = "SUCCESS"
    when = [{ value = "{a.transaction_status}", is = "expire" }] => => an event without when must not end a payment
    when = [{ value = "{a.status_code}", is = "404" }] => => it has no when, so the events after it
    value = "{a.status_code}" => value = "{h.Status}" => {h.Status} is not read from the answer
    value = "{a.status_code}" => value = "{a.status_code}{a.x}" => write one place here
"#;

fn problems(profile: &str) -> Option<String> {
    let head = profile[..profile.find("[query]").unwrap()].lines().count();
    let error = Profile::parse(&partner(), profile).err()?;
    let all = std::iter::once(&error).chain(&error.others);
    let line = |e: &crate::profile::error::ProfileError| {
        format!("{}:{}: {}\n", e.line.saturating_sub(head), e.column, e.problem)
    };
    Some(all.map(line).collect())
}

fn check(good: &str, cases: &str, every: usize) {
    assert_eq!(problems(good), None);
    let mut missed = Vec::new();
    for case in cases.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let parts: Vec<_> = case.split("=>").map(|part| part.trim().replace("\\n", "\n")).collect();
        let [from, to, expected] = parts.try_into().unwrap();
        let (head, query) = good.split_at(good.find("[query]").unwrap());
        assert!(query.contains(&from), "{case}");
        let problems = problems(&format!("{head}{}", query.replacen(&from, &to, every)));
        let problems = problems.unwrap_or_else(|| "taken".to_owned());
        if !problems.contains(&expected) {
            missed.push(format!("{case}\n  {problems}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn a_mistake_in_the_question_is_refused_with_its_place() {
    check(&with_question(GOOD), MISTAKES, 1);
}

#[test]
fn a_mistake_in_the_answer_is_refused() {
    check(shipped("midtrans"), OF_ANSWERS, usize::MAX);
}

/// A stranger may put another order's transaction into a notice that a query confirms.
#[test]
fn a_question_by_transaction_needs_an_answer_that_names_its_order() {
    let (midtrans, order) = (shipped("midtrans"), "order = \"{a.order_id}\"\n");
    let by_ref = midtrans.replace("/v2/{order}/status", "/v2/{ref}/status");
    let refused = "the payment of another order would confirm this one";
    assert!(by_ref != midtrans && by_ref.contains(order));
    assert_eq!(problems(&by_ref), None, "the answer names it");
    let unnamed = by_ref.replace(order, "");
    assert!(problems(&unnamed).unwrap().contains(refused));
    // An order beside the transaction in the question proves nothing.
    let both = unnamed.replace("/v2/{ref}/status", "/v2/{ref}/status?order={order}");
    assert!(problems(&both).unwrap().contains(refused));
    assert_eq!(problems(&midtrans.replace(order, "")), None, "it asks about the order");
    // A question that names the order while no transaction is known asks about the transaction.
    let either = unnamed.replace("/v2/{ref}/status", "/v2/{order_without_ref}/status");
    assert!(problems(&either).unwrap().contains(refused));
    // A signature over both may have two readings, and then it binds nothing.
    let signed = "{f.order_id}{f.status_code}";
    assert!(unnamed.contains(signed));
    let bound = unnamed.replace(signed, "{f.order_id}|{f.transaction_id}|{f.status_code}");
    assert!(problems(&bound).unwrap().contains(refused));
    // An event may name it itself; each that ends a payment has to.
    let success = "is = \"settlement\" }]\noutcome = \"SUCCESS\"\n";
    assert!(unnamed.contains(success));
    let one = unnamed.replace(success, &format!("{success}{order}"));
    assert!(problems(&one).unwrap().contains(refused));
}

#[test]
fn all_mistakes_of_the_section_are_reported_at_once() {
    let text = with_question(GOOD)
        .replace("\"POST\"", "\"PUT\"")
        .replace("hmac-sha256\"\ntext = \"{order}\"", "rot13\"\ntext = \"{order}\"")
        .replace("outcome = \"unknown\"", "outcom = \"unknown\"")
        .replace("[query.map]\norder", "[query.map]\nordre");
    let problems = problems(&text).unwrap();
    for part in ["PUT", "rot13", "outcom", "ordre"] {
        assert!(problems.contains(part), "{part} in {problems}");
    }
}
