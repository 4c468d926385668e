//! A client that sends a request's head without end is cut off on every listener, also after an
//! answered request; a client that waits for an answer is not.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::system::System;
use crate::support::wire::{Connection, bearer, request};

/// Far under what a head may take.
const BETWEEN_LINES: Duration = Duration::from_millis(200);
/// A head has 5 s; the machine may be busy.
const HELD_MAX: Duration = Duration::from_secs(15);

/// Sends a whole request, then a head line by line; how long the connection is held.
fn held(address: SocketAddr, trickled: &str) -> Duration {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout can be set");
    stream.write_all(b"GET /nothing HTTP/1.1\r\nhost: x\r\n\r\n").expect("it is open");
    let mut bytes = [0; 4_096];
    assert!(stream.read(&mut bytes).expect("an answer") > 0);
    stream.set_read_timeout(Some(BETWEEN_LINES)).expect("a timeout can be set");
    let begun = Instant::now();
    stream.write_all(trickled.as_bytes()).expect("it is open");
    while begun.elapsed() < HELD_MAX {
        if stream.write_all(b"a").is_err() {
            break;
        }
        match stream.read(&mut bytes) {
            Ok(0) => break,
            Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                break;
            }
            Ok(_) | Err(_) => {}
        }
    }
    begun.elapsed()
}

#[test]
#[ignore = "nightly: limits"]
fn no_listener_waits_for_a_head_without_end() {
    let system = System::demo();
    let head = "GET /nothing HTTP/1.1\r\nx-slow: ";
    // Of the admin listener also a body, which comes after a head that was in time.
    let body = "POST /v1/rebuild/pause HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n";
    let (shop, admin) = (system.shop(), system.admin());
    let cases = [(shop, head), (admin, head), (admin, body)];
    let trials = cases.map(|(address, trickled)| thread::spawn(move || held(address, trickled)));
    for (trial, (address, trickled)) in trials.into_iter().zip(cases) {
        let held = trial.join().expect("a trial ends without a panic");
        assert!(held < HELD_MAX, "{address} holds {trickled:?} after {held:?}");
    }
}

#[test]
#[ignore = "nightly: limits"]
fn who_waits_for_an_answer_is_not_cut_off() {
    let system = System::demo();
    let token = bearer(&system.home().data_file("demo.key"));
    // The order does not exist, so nothing changes in these 8 s, which is longer than a head may
    // take.
    let poll = request("GET /v1/payments/sandbox/DEMO/none?wait=8", &token, None);
    let begun = Instant::now();
    let answer = Connection::open(system.shop()).exchange(&poll);
    assert_eq!(answer.status, 404, "{answer:?}");
    assert!(begun.elapsed() >= Duration::from_secs(8), "{:?}", begun.elapsed());
}
