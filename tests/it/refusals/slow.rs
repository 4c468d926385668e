//! Owns the proof that a slow client can't hold a connection: in the head, in the body, or idle;
//! and that others are served meanwhile. `payfold.toml` lowers the times.

use std::time::Duration;

use payfold_engines::log::Topic;

use super::accounts::Accounts;
use crate::support::waits::Stopwatch;
use crate::support::wire::{Connection, notice_request};

const SETTINGS: &str = "
[ingest]
head_timeout_ms = 1000
body_timeout_ms = 500
idle_timeout_ms = 1000
";
const HEAD: Duration = Duration::from_millis(1_000);
const BODY: Duration = Duration::from_millis(500);
const IDLE: Duration = Duration::from_millis(1_000);
/// The library's timers count from a clock it looks at twice a second.
const EARLY: Duration = Duration::from_millis(600);
/// How long the rest of a refused body is read, so that its sender sees the answer.
const DISCONNECT: Duration = Duration::from_secs(1);
/// Head, body and answer of a request after the first on its connection.
const KEPT_OPEN: Duration = Duration::from_millis(1_000 + 500 + 6_000);
/// What a busy machine may add.
const LATE: Duration = Duration::from_secs(4);
const APART: Duration = Duration::from_millis(20);

fn took(watch: &Stopwatch, at_least: Duration) {
    assert!(watch.elapsed() >= at_least, "{:?} of {at_least:?}", watch.elapsed());
    watch.assert_within(at_least + LATE, "it ends");
}

/// Ends with a bare 408 and is closed.
fn ends_in_the_head(mut connection: Connection, watch: &Stopwatch) {
    let answer = connection.answer().expect("an answer");
    assert_eq!((answer.status, answer.body.len()), (408, 0));
    took(watch, HEAD - EARLY);
    assert!(connection.is_closed());
}

/// Ends with a 408 problem and is closed.
fn ends_in_the_body(mut connection: Connection, watch: &Stopwatch) {
    let answer = connection.answer().expect("an answer");
    assert_eq!((answer.status, answer.code().as_str()), (408, "request_timeout"));
    assert_eq!(answer.header("connection"), Some("close"));
    took(watch, BODY);
    assert!(connection.is_closed());
}

#[test]
#[ignore = "nightly: limits"]
fn slow_heads_slow_bodies_and_idle_connections_end_and_others_are_served() {
    let accounts = Accounts::boot(SETTINGS);
    let notice = accounts.notice("slow");
    let request = notice_request(&notice);
    let body_at = request.len() - notice.len();
    let (head, body) = request.split_at(body_at);
    let open = || (accounts.system.connect(), Stopwatch::start());

    let (silent, watch) = open();
    ends_in_the_head(silent, &watch);

    let (mut half, watch) = open();
    half.send(&head[..head.len() - 3]);
    ends_in_the_head(half, &watch);

    let (mut trickling, watch) = open();
    assert!(trickling.trickle(&head[..head.len() - 3], APART), "a head of {} bytes", head.len());
    ends_in_the_head(trickling, &watch);

    let (mut half, watch) = open();
    half.send(&request[..request.len() - 1]);
    ends_in_the_body(half, &watch);

    let (mut trickling, watch) = open();
    trickling.send(head);
    assert!(trickling.trickle(&body[..body.len() - 1], APART), "a body of {} bytes", body.len());
    ends_in_the_body(trickling, &watch);

    let chunked = b"POST /api/payment/ipn HTTP/1.1\r\nhost: x\r\n\
        content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let (mut chunks, watch) = open();
    chunks.send(chunked);
    assert!(chunks.trickle(&b"1\r\n{\r\n".repeat(500), APART));
    ends_in_the_body(chunks, &watch);

    let (mut half, watch) = open();
    half.send(&[&chunked[..], b"5\r\n{"].concat());
    ends_in_the_body(half, &watch);

    let (mut idle, _) = open();
    assert_eq!(idle.exchange(&request).status, 200);
    let watch = Stopwatch::start();
    assert!(idle.is_closed(), "an idle connection ends without another answer");
    took(&watch, IDLE - EARLY);

    let crowd: Vec<_> = (0..200).map(|_| open().0).collect();
    for mut slow in crowd {
        slow.send(head);
    }
    let beside = accounts.notice("beside");
    assert_eq!(accounts.system.post_ipn(&beside).status, 200);
    assert_eq!(accounts.records(Topic::Intake).len(), 2);
    accounts.settle();
}

#[test]
#[ignore = "nightly: limits"]
fn a_later_head_and_the_rest_of_a_refused_body_are_not_waited_for_without_end() {
    let accounts = Accounts::boot(SETTINGS);
    let request = notice_request(&accounts.notice("later"));
    let watch = Stopwatch::start();
    let mut second = accounts.system.connect();
    assert_eq!(second.exchange(&request).status, 200);
    second.send(&request[..20]);

    let mut bodies: Vec<_> = ["GET /api/payment/ipn", "POST /nowhere", "POST /api/payment/ipn"]
        .map(|line| (line, accounts.system.connect()))
        .into();
    for (line, body) in &mut bodies {
        let head = format!("{line} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
        body.send(head.as_bytes());
        body.send(b"5\r\nhal");
        let answer = body.answer().expect("an answer");
        assert!([404, 405, 415].contains(&answer.status), "{answer:?}");
        assert_eq!(answer.header("connection"), Some("close"), "{answer:?}");
    }
    for (line, body) in &mut bodies {
        assert!(body.is_closed(), "{line}");
    }
    watch.assert_within(DISCONNECT + LATE, "refused bodies end");
    assert!(second.is_closed());
    took(&watch, KEPT_OPEN);
    accounts.settle();
}
