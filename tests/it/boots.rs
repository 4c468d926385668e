//! Owns the shortest proof that what the tests boot is the system: one notice in, one order out.

use crate::support::notice::Notice;
use crate::support::system::System;

#[test]
fn the_demo_takes_a_notice_signed_by_another_program() {
    let system = System::demo();
    let secret = std::fs::read_to_string(system.home().data().join("sandbox.key")).unwrap();
    let notice = Notice::paid("DEMO", "boots-1", "ref-1");
    let answer = system.post_ipn(&notice.clone().signed(&secret));
    assert_eq!((answer.status, answer.body.len()), (200, 0), "{answer:?}");
    let forged = system.post_ipn(&notice.signed("another secret"));
    assert_eq!((forged.status, forged.code().as_str()), (401, "unauthenticated"));
    let order = system.order_when(["sandbox", "DEMO", "boots-1"], |_| true);
    assert_eq!(order["state"], "UNMATCHED");
    let (home, status) = system.stop();
    assert!(status.success(), "{status}: {}", home.log());
    let again = home.boot();
    again.order_when(["sandbox", "DEMO", "boots-1"], |order| order["state"] == "UNMATCHED");
    again.kill();
}
