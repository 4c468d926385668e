//! Owns the end of a process: after SIGTERM it takes no new work, finishes the work that is under
//! way, and exits with 0.

use std::net::TcpStream;
use std::time::Duration;

use crate::support::demo::Demo;
use crate::support::notice::Notice;
use crate::support::pair::Pair;
use crate::support::waits::{Stopwatch, until};
use crate::support::wire::notice_request;

pub fn a_request_under_way_is_finished_before_the_process_leaves(pair: Pair) {
    let Some(mut demo) = Demo::on(pair) else { return };
    let body = Notice::paid("DEMO", "drained", "ref-1").signed(&demo.secret);
    let request = notice_request(&body);
    let (begun, rest) = request.split_at(request.len() - 10);
    let mut idle = demo.system.connect();
    assert_eq!(idle.exchange(&request).status, 200);
    let mut under_way = demo.system.connect();
    under_way.send(begun);
    // One more whole exchange on the one listener: the bytes sent before it have been read.
    for _ in 0..20 {
        demo.pay("before", "ref-1");
    }

    let watch = Stopwatch::start();
    demo.system.terminate();
    let draining = || Some(()).filter(|()| demo.system.get("/readyz").status == 503);
    until("it is not ready any more", Duration::from_secs(5), draining);
    assert_eq!(demo.system.get("/livez").status, 200, "draining is no fault");
    let unready = demo.system.payfold(&["check", "--ready"]);
    assert!(unready.code() == 1 && unready.stderr.contains("draining"), "{unready:?}");
    under_way.send(rest);
    assert_eq!(under_way.answer().expect("what was begun is answered").status, 200);
    let status = demo.system.wait();
    assert_eq!(status.code(), Some(0), "{status}");
    watch.assert_within(Duration::from_secs(25), "it ends");
    assert!(TcpStream::connect(demo.system.public()).is_err(), "the listener is gone");

    let home = demo.system.home();
    let left = std::fs::read_dir(home.data()).expect("the folder is there");
    let left: Vec<_> = left.map(|entry| entry.expect("it can be listed").file_name()).collect();
    let run_file = left.iter().find(|name| name.to_string_lossy().starts_with("run-"));
    assert_eq!(run_file, None, "the run file is taken away");
    let printed = home.printed();
    assert!(printed.contains("draining: 1 requests open, log synced, bye"), "{printed}");
    assert!(!home.log().contains("panicked"), "{}", home.log());
    let key = ["sandbox", "DEMO", "drained"];
    if pair == Pair::Sqlite {
        let shown = [&["order", "show"], &key[..], &["--output", "json"]].concat();
        assert_eq!(home.payfold(&shown).json()["state"], "UNMATCHED", "what was taken is folded");
    }
    // The next process folds what this one left: intake is shared.
    home.boot().order_when(key, |order| order["state"] == "UNMATCHED");
}
