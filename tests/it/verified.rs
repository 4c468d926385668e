//! The running program finds a record that a disk has damaged by itself, in the background, and
//! reports it by metric and log.

use std::time::Duration;

use payfold_engines::log::Topic;

use crate::parked::damage;
use crate::support::demo::Demo;
use crate::support::waits::until;

const WAIT_MAX: Duration = Duration::from_secs(40);

#[test]
fn a_damaged_record_is_found_in_the_background() {
    let demo = Demo::boot();
    let body = demo.pay("o-1", "r-1");
    until("the log to be read and found whole", WAIT_MAX, || {
        let verified = demo.system.metric("payfold_engine_log_verified_timestamp_seconds");
        verified.filter(|at| *at > 1.7e9)
    });
    assert_eq!(demo.system.metric("payfold_engine_log_damaged_records"), Some(0.0));
    let home = demo.system.stop().0;

    // Quarantine is not folded: only reading everything finds it.
    let [_, position] = damage(&home, Topic::Quarantine);

    let system = home.boot();
    system.metric_when("payfold_engine_log_damaged_records", 1.0);
    system.metric_when("payfold_engine_log_verify_failures_total", 1.0);
    let log = home.log();
    let said = log.lines().find(|line| line.contains("the log is damaged")).expect("a line");
    assert!(said.contains("ERROR") && said.contains(&position.to_string()), "{said}");
    assert_eq!(system.post_ipn(&body).status, 200, "notices are taken all the same");
}
