//! Owns the proof that requests on one connection are never mixed up: each has its own answer, in
//! order, and bytes of a refused body never become a request.

use payfold_engines::log::Topic;

use super::accounts::Accounts;
use crate::support::wire::{Connection, post_request};

const IPN: &str = "/api/payment/ipn";

/// The orders in the log, in its order.
fn orders(accounts: &Accounts) -> Vec<String> {
    let raw = accounts.records(Topic::Intake).into_iter().map(|record| record.raw);
    let order = |raw: Vec<u8>| {
        let notice: serde_json::Value = serde_json::from_slice(&raw).expect("it was accepted");
        notice["orderId"].as_str().expect("it was accepted").to_owned()
    };
    raw.map(order).collect()
}

fn statuses(connection: &mut Connection, count: usize) -> Vec<u16> {
    (0..count).map(|_| connection.answer().expect("an answer").status).collect()
}

/// The answers to requests that are all sent at once. An answer may announce that it is the last:
/// the library does so when only a part of the next request is there. Then the rest is sent again,
/// because it must not have been taken.
fn pipeline(accounts: &Accounts, mut requests: &[Vec<u8>]) -> Vec<u16> {
    let mut statuses = Vec::new();
    while !requests.is_empty() {
        let mut connection = accounts.system.connect();
        connection.send(&requests.concat());
        let mut is_last = false;
        while !is_last && !requests.is_empty() {
            let answer = connection.answer().expect("an answer");
            is_last = answer.header("connection") == Some("close");
            statuses.push(answer.status);
            requests = &requests[1..];
        }
        assert!(!is_last || connection.is_closed(), "nothing comes after the last answer");
    }
    statuses
}

#[test]
fn pipelined_requests_get_their_own_answers_in_order() {
    let accounts = Accounts::boot("");
    let good = |order: &str| post_request(IPN, &accounts.notice(order));
    let get = b"GET /nowhere HTTP/1.1\r\nhost: x\r\n\r\n".to_vec();

    let expected: Vec<_> = (0..50).map(|n| format!("p-{n:02}")).collect();
    let many: Vec<_> = expected.iter().map(|order| good(order)).collect();
    assert_eq!(pipeline(&accounts, &many), [200; 50]);
    assert_eq!(orders(&accounts), expected);

    let (expected, mixed): (Vec<_>, Vec<_>) = [
        (200, good("m-0")),
        (400, post_request(IPN, b"{")),
        (404, get.clone()),
        (401, post_request(IPN, b"{\"merchantCode\":\"SHOP\"}")),
        (200, good("m-1")),
        (401, post_request("/api/payment/ipn/unknown", &accounts.notice("m-2"))),
        (400, post_request(IPN, b"")),
        (405, b"GET /api/payment/ipn HTTP/1.1\r\nhost: x\r\n\r\n".to_vec()),
        (415, b"POST /api/payment/ipn HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\n{".to_vec()),
        (200, good("m-3")),
    ]
    .into_iter()
    .unzip();
    assert_eq!(pipeline(&accounts, &mixed), expected);

    let mut broken = accounts.system.connect();
    let bad = b"POST /api/payment/ipn HTTP/1.1\r\nno colon\r\n\r\n".to_vec();
    broken.send(&[good("b-0"), bad, good("b-1")].concat());
    assert_eq!(statuses(&mut broken, 2), [200, 400]);
    assert!(broken.is_closed());

    let mut bytewise = accounts.system.connect();
    for order in ["s-0", "s-1"] {
        for byte in good(order) {
            bytewise.send(&[byte]);
        }
        assert_eq!(statuses(&mut bytewise, 1), [200]);
    }

    let mut left = accounts.system.connect();
    let half = good("l-1");
    left.send(&[&good("l-0")[..], &half[..half.len() - 1]].concat());
    assert_eq!(left.answer().expect("an answer").status, 200);
    drop((broken, bytewise, left));
    accounts.settle();
    assert_eq!(orders(&accounts)[50..], ["m-0", "m-1", "m-3", "b-0", "s-0", "s-1", "l-0"]);
}

#[test]
fn a_request_within_a_refused_body_is_never_taken() {
    let accounts = Accounts::boot("");
    let inner = post_request(IPN, &accounts.notice("smuggled"));
    let length = inner.len();
    let chunked = [format!("{length:x}\r\n").as_bytes(), &inner, b"\r\n0\r\n\r\n"].concat();
    let json = "content-type: application/json\r\n";
    let heads = [
        format!("GET {IPN} HTTP/1.1\r\ncontent-length: {length}\r\n"),
        format!("POST /nowhere HTTP/1.1\r\n{json}content-length: {length}\r\n"),
        format!("POST {IPN} HTTP/1.1\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n"),
        format!(
            "POST {IPN} HTTP/1.1\r\n{json}content-encoding: gzip\r\ncontent-length: {length}\r\n"
        ),
        format!("POST {IPN} HTTP/1.1\r\n{json}content-length: {length}\r\n"),
        format!("POST {IPN} HTTP/1.1\r\n{json}content-length: 99999\r\n"),
        format!("POST {IPN} HTTP/1.1\r\n{json}upgrade: websocket\r\ncontent-length: 0\r\n"),
        format!("CONNECT {IPN} HTTP/1.1\r\n{json}content-length: 0\r\n"),
        format!("POST {IPN} HTTP/1.1\r\n{json}content-length: 0\r\ncontent-length: {length}\r\n"),
        format!("POST {IPN} HTTP/1.1\r\n{json}content-length: 0, {length}\r\n"),
        format!("POST {IPN} HTTP/1.1\r\n{json}content-length: 0\r\ntransfer-encoding: chunked\r\n"),
        format!("POST {IPN} HTTP/1.1\r\n{json}transfer-encoding: identity\r\n"),
        format!("POST {IPN} HTTP/1.1\r\n{json}transfer-encoding: x\r\ncontent-length: 0\r\n"),
        format!("POST {IPN} HTTP/1.0\r\n{json}transfer-encoding: chunked\r\n"),
        format!("POST {IPN} HTTP/1.1\r\n{json}x: a\r\n b\r\ncontent-length: 0\r\n"),
        format!("POST {IPN} HTTP/1.1\r\n{json}x: a\0b\r\ncontent-length: 0\r\n"),
    ];
    for head in &heads {
        let head = format!("{head}host: x\r\n\r\n");
        for body in [&inner, &chunked] {
            let mut connection = accounts.system.connect();
            connection.send(&[head.as_bytes(), body].concat());
            connection.end_sending();
            let answer = connection.answer().expect("an answer");
            assert!((400..500).contains(&answer.status), "{head}{answer:?}");
            while connection.answer().is_some() {}
        }
    }
    assert_eq!(orders(&accounts), [""; 0]);
    accounts.settle();
    assert!(!accounts.system.home().log().contains("panicked"));
}
