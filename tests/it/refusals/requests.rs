//! Owns the table of requests: heads and framing byte by byte around a good notice, and what
//! becomes of the connection. What each edit does stands at the head of the table.

use std::fmt::Write as _;
use std::net::SocketAddr;

use super::accounts::secret;
use super::expected::{Expected, Kept, Outcome, try_all};
use super::macros::expand;
use crate::support::notice::Notice;
use crate::support::wire::{Answer, Body, Connection, notice_request};

const TABLE: &str = include_str!("requests.txt");

/// Sends every case.
pub fn run(public: SocketAddr) -> Vec<Outcome> {
    try_all(TABLE, |number, line| attempt(public, number, line))
}

fn attempt(public: SocketAddr, number: usize, line: &str) -> Outcome {
    let mut outcome = Outcome::default();
    let parts: Vec<&str> = line.splitn(3, '|').map(str::trim).collect();
    let [expected, first_line, edits] = parts[..] else { panic!("two | in {line}") };
    let (expected, fate) = expected.rsplit_once(' ').expect("the connection's fate comes last");
    let expected = Expected::parse(expected);
    let notice = Notice::paid("SHOP", &format!("r-{number}"), "ref-1").signed(&secret("main"));
    let mut connection = Connection::open(public);
    connection.send(&request(first_line, edits, &notice));
    outcome.note(expected.kept, &expected.code, &notice);
    let body = if first_line.starts_with("HEAD ") { Body::Absent } else { Body::Follows };
    let Some(answer) = final_answer(&mut connection, body) else {
        outcome.failure = Some(format!("{line}: no answer"));
        return outcome;
    };
    let mut wrong = match body {
        Body::Follows => expected.judge(&answer),
        Body::Absent if answer.status == expected.status => Vec::new(),
        Body::Absent => vec!["status".to_owned()],
    };
    let allow = (answer.status == 405).then_some("POST");
    wrong.extend((answer.header("allow") != allow).then(|| "allow".to_owned()));
    let announced = answer.header("connection") == Some("close");
    // What fails before there is a request is answered by the library, which closes and says
    // nothing.
    if announced != (fate == "close") && !(expected.code.is_empty() && answer.status >= 400) {
        wrong.push(format!("connection: close is announced: {announced}"));
    }
    let after = format!("after-{number}");
    wrong.extend(judge_fate(&mut connection, fate, &after, &mut outcome));
    if !wrong.is_empty() {
        let wrong = wrong.join(", ");
        outcome.failure = Some(format!("{line}: {wrong}: {} {}", answer.status, answer.text()));
    }
    outcome
}

/// The answer after any `100 Continue`.
fn final_answer(connection: &mut Connection, body: Body) -> Option<Answer> {
    loop {
        let answer = connection.answer_with(body)?;
        if answer.status >= 200 {
            return Some(answer);
        }
    }
}

/// `keep`: the next notice on it is taken. `close`: it ends without another byte.
fn judge_fate(
    connection: &mut Connection,
    fate: &str,
    order: &str,
    outcome: &mut Outcome,
) -> Option<String> {
    match fate {
        "close" => (!connection.is_closed()).then(|| "more than one answer".to_owned()),
        "keep" => {
            let next = Notice::paid("SHOP", order, "r").signed(&secret("main"));
            connection.send(&notice_request(&next));
            match connection.answer() {
                Some(answer) if answer.status == 200 => outcome.note(Kept::Log, "", &next),
                other => return Some(format!("the next notice got {other:?}")),
            }
            None
        }
        other => panic!("keep or close, not {other}"),
    }
}

/// A request around a notice: its first line, then the usual headers, edited.
fn request(line: &str, edits: &str, notice: &[u8]) -> Vec<u8> {
    let mut headers: Vec<(String, Vec<u8>)> = vec![
        ("host".to_owned(), b"payfold".to_vec()),
        ("content-type".to_owned(), b"application/json".to_vec()),
    ];
    let (mut body, mut length, mut ends) = (notice.to_vec(), true, "\r\n");
    for edit in edits.split(" ; ").map(str::trim).filter(|edit| !edit.is_empty()) {
        let (verb, text) = edit.split_once(' ').unwrap_or((edit, ""));
        match verb {
            "@body" => body = expand(text),
            "@length" if text == "none" => length = false,
            "@chunked" => {
                (body, length) = (chunked(&body, text), false);
                headers.push(("transfer-encoding".to_owned(), b"chunked".to_vec()));
            }
            "@chunks" => body = chunked(&body, text),
            "@headers" => {
                let count = text.parse::<usize>().expect("a number of headers in all");
                let more = count - headers.len() - usize::from(length);
                headers.extend((0..more).map(|n| (format!("x-{n}"), b"y".to_vec())));
            }
            "@lf" => ends = "\n",
            _ => edit_header(&mut headers, edit),
        }
    }
    if length {
        headers.push(("content-length".to_owned(), body.len().to_string().into_bytes()));
    }
    let mut bytes = expand(line);
    bytes.extend_from_slice(ends.as_bytes());
    for (name, value) in headers {
        bytes.extend([&expand(&name)[..], b": ", &value[..], ends.as_bytes()].concat());
    }
    bytes.extend_from_slice(ends.as_bytes());
    bytes.extend(body);
    bytes
}

/// `-name` takes a header out, `+name: value` adds one, `name: value` replaces it or adds it.
fn edit_header(headers: &mut Vec<(String, Vec<u8>)>, edit: &str) {
    if let Some(name) = edit.strip_prefix('-') {
        headers.retain(|(other, _)| other != name);
        return;
    }
    let empty = || edit.strip_suffix(':').map(|name| (name, ""));
    let header = edit.split_once(": ").or_else(empty);
    let (name, value) = header.unwrap_or_else(|| panic!("no header: {edit}"));
    let value = expand(value);
    if let Some(name) = name.strip_prefix('+') {
        headers.push((name.to_owned(), value));
        return;
    }
    headers.retain(|(other, _)| other != name);
    headers.push((name.to_owned(), value));
}

/// The body in chunks of so many bytes.
fn chunked(body: &[u8], bytes: &str) -> Vec<u8> {
    let bytes = bytes.parse().expect("a number of bytes");
    let mut chunks = Vec::new();
    for chunk in body.chunks(bytes) {
        let mut size = String::new();
        write!(size, "{:x}\r\n", chunk.len()).expect("writes to memory");
        chunks.extend([size.as_bytes(), chunk, b"\r\n"].concat());
    }
    [&chunks[..], b"0\r\n\r\n"].concat()
}
