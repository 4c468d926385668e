//! Owns the table of bodies: one notice a case, altered before or after it is signed, on a good
//! request. What each edit does stands at the head of the table.

use std::net::SocketAddr;

use super::accounts::secret;
use super::expected::{Expected, Kept, Outcome, try_all};
use super::macros::{expand, expand_text};
use crate::support::notice::Notice;
use crate::support::wire::{Connection, notice_request, post_request};

const TABLE: &str = include_str!("notices.txt");

/// A case, ready to be sent.
struct Case {
    path: String,
    body: Vec<u8>,
}

/// Sends every case.
pub fn run(public: SocketAddr) -> Vec<Outcome> {
    try_all(TABLE, |number, line| attempt(public, number, line))
}

fn attempt(public: SocketAddr, number: usize, line: &str) -> Outcome {
    let mut outcome = Outcome::default();
    let (expected, edits) = line.split_once('|').unwrap_or_else(|| panic!("no | in {line}"));
    let expected = Expected::parse(expected);
    let case = build(number, edits.trim());
    let mut connection = Connection::open(public);
    connection.send(&post_request(&case.path, &case.body));
    let Some(answer) = connection.answer() else {
        outcome.failure = Some(format!("{line}: no answer"));
        return outcome;
    };
    outcome.note(expected.kept, &expected.code, &case.body);
    let mut wrong = expected.judge(&answer);
    // The next notice on the same connection is understood: nothing was left of this one.
    let next = Notice::paid("SHOP", &format!("next-{number}"), "r").signed(&secret("main"));
    connection.send(&notice_request(&next));
    match connection.answer() {
        Some(answer) if answer.status == 200 => outcome.note(Kept::Log, "", &next),
        other => wrong.push(format!("the next notice got {other:?}")),
    }
    if !wrong.is_empty() {
        let wrong = wrong.join(", ");
        outcome.failure = Some(format!("{line}: {wrong}: {} {}", answer.status, answer.text()));
    }
    outcome
}

fn build(number: usize, edits: &str) -> Case {
    // No two cases sign the same text, also where both leave the order out within one millisecond.
    let before = i64::try_from(number).expect("the table is short");
    let mut notice = Notice::paid("SHOP", &format!("n-{number}"), "ref-1").paid_at(-before);
    let mut path = "/api/payment/ipn".to_owned();
    let mut key = "main".to_owned();
    let edits: Vec<&str> =
        edits.split(" ; ").map(str::trim).filter(|edit| !edit.is_empty()).collect();
    for edit in &edits {
        if let Some(partner) = edit.strip_prefix("@route ") {
            path = format!("/api/payment/ipn/{partner}");
        } else if let Some(name) = edit.strip_prefix("@key ") {
            name.clone_into(&mut key);
        } else if !edit.starts_with(['@', '+']) && !edit.contains('~') {
            notice = set(notice, edit, '=');
        } else {
            notice = shape(notice, edit);
        }
    }
    let mut signed = notice.sign(&secret(&key));
    for edit in edits.iter().filter(|edit| !edit.starts_with(['@', '+']) && edit.contains('~')) {
        signed = set(signed, edit, '~');
    }
    let mut body = signed.body().into_bytes();
    for edit in &edits {
        body = rewrite(body, edit);
    }
    Case { path, body }
}

/// `name=SOURCE`, or `name=` to leave it out.
fn set(notice: Notice, edit: &str, sign: char) -> Notice {
    let (name, source) = edit.split_once(sign).unwrap_or_else(|| panic!("no {sign} in {edit}"));
    match expand_text(source) {
        source if source.is_empty() => notice.without(name),
        source => notice.with(name, source),
    }
}

/// Edits of how a notice is signed and written.
fn shape(notice: Notice, edit: &str) -> Notice {
    if let Some(fields) = edit.strip_prefix("@signing ") {
        return notice.signing(&fields.split(',').collect::<Vec<_>>());
    }
    match edit.strip_prefix("@join ") {
        Some("nothing") => notice.joined_with(""),
        Some(separator) => notice.joined_with(separator),
        None if *edit == *"@reversed" => notice.reversed(),
        None => notice,
    }
}

/// Edits of the body's bytes, after the signing.
fn rewrite(mut body: Vec<u8>, edit: &str) -> Vec<u8> {
    let (verb, text) = edit.split_once(' ').unwrap_or((edit, ""));
    let bytes = || expand(text);
    match verb {
        "@body" => bytes(),
        "@before" => [bytes(), body].concat(),
        "@after" => [body, bytes()].concat(),
        "@cut" => {
            body.truncate(body.len() - text.parse::<usize>().expect("a number of bytes"));
            body
        }
        "@fill" => {
            body.resize(text.parse().expect("a number of bytes"), b' ');
            body
        }
        "@signature" => respell(&body, text),
        // Between the brace and what follows it.
        "+" => [b"{", &bytes()[..], b",", &body[1..]].concat(),
        _ => body,
    }
}

/// The signature in another spelling.
fn respell(body: &[u8], how: &str) -> Vec<u8> {
    let text = String::from_utf8(body.to_vec()).expect("it was not altered yet");
    let (before, signature) = text.split_once("\"signature\":\"").expect("it is signed");
    let (signature, after) = signature.split_once('"').expect("it ends");
    let respelt = match how {
        "upper" => signature.to_uppercase(),
        "short" => signature[1..].to_owned(),
        "long" => format!("{signature}0"),
        "even-longer" => format!("{signature}00"),
        "half" => signature[..32].to_owned(),
        "not-hex" => format!("{}g", &signature[1..]),
        "blank-before" => format!(" {signature}"),
        "prefixed" => format!("0x{signature}"),
        "reversed" => signature.chars().rev().collect(),
        "zeros" => "0".repeat(64),
        other => panic!("no spelling {other}"),
    };
    format!("{before}\"signature\":\"{respelt}\"{after}").into_bytes()
}
