//! The running program finds a record that a disk has damaged by itself, in the background, and
//! reports it by metric and log.

use std::time::Duration;

use payfold_engines::log::{Message, Topic};

use crate::support::notice::Notice;
use crate::support::pair::{Inside, with_log};
use crate::support::system::System;
use crate::support::waits::until;

const WAIT_MAX: Duration = Duration::from_secs(40);

fn metric(system: &System, name: &str) -> Option<f64> {
    let text = system.get("/metrics").text();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")))?;
    line.parse().ok()
}

#[test]
fn a_damaged_record_is_found_in_the_background() {
    let system = System::demo();
    let path = system.home().data().join("sandbox.key");
    let secret = std::fs::read_to_string(path).expect("a demo has a key");
    let body = Notice::paid("DEMO", "o-1", "r-1").signed(secret.trim());
    assert_eq!(system.post_ipn(&body).status, 200);
    until("the log to be read and found whole", WAIT_MAX, || {
        metric(&system, "payfold_engine_log_verified_timestamp_seconds").filter(|at| *at > 1.7e9)
    });
    assert_eq!(metric(&system, "payfold_engine_log_damaged_records"), Some(0.0));
    let home = system.stop().0;

    // Quarantine is not folded: only reading everything finds it.
    let records = Inside::of(&home).messages(Topic::Intake);
    let whole = records.into_iter().find(|one| one.key.ends_with("/o-1")).expect("a record");
    let mut value = whole.value;
    *value.last_mut().expect("a byte") ^= 1;
    let position = with_log(&home, async |log| {
        let message = Message { key: whole.key, event: None, value };
        log.append(Topic::Quarantine, message).await.expect("it is stored as any other")
    });

    let system = home.boot();
    until("the damage to be found", WAIT_MAX, || {
        metric(&system, "payfold_engine_log_damaged_records").filter(|found| *found == 1.0)
    });
    until("the failure to be counted", WAIT_MAX, || {
        metric(&system, "payfold_engine_log_verify_failures_total").filter(|found| *found == 1.0)
    });
    let log = home.log();
    let said = log.lines().find(|line| line.contains("the log is damaged")).expect("a line");
    assert!(said.contains("ERROR") && said.contains(&position.to_string()), "{said}");
    assert_eq!(system.post_ipn(&body).status, 200, "notices are taken all the same");
}
