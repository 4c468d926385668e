//! Owns the fault of a broker that answers the members of a group too late. The broker asks a
//! projector to revoke a partition, the projector has dropped that answer when it comes, and the
//! broker does not repeat it. To the brokers the projector still has to revoke, so they assign it
//! nothing; once the other members are gone, some partitions have no member.

use std::time::Duration;

use crate::support::dice::Dice;
use crate::support::waits::{until, until_seen};

use super::assembly::Cluster;
use super::faults::{NOTICE_MAX, pause};
use super::pods::Pod;
use super::proxy::Proxy;

/// The log line of a member of a group that may not know its own partitions.
const JOINS_ANEW: &str = "leaves the group and joins it again";
/// How long that may take: a minute since the last time, and two checks.
const JOIN_ANEW_MAX: Duration = Duration::from_secs(80);
/// How often the assignment is tried until it suits the fault: the broker decides which of three
/// members has 2 of 8 partitions.
const TRIES: usize = 8;

/// Strikes the second projector of the cluster, which is behind the proxies: its answers come late.
pub fn strike(cluster: &Cluster, dice: &mut Dice) -> String {
    let [first, second] = &cluster.guests;
    let [beside, late] = &cluster.projectors[..] else { panic!("two projectors") };
    distribute_partitions(cluster, first);
    let before = late.said(JOINS_ANEW);
    cluster.kafka_proxies.iter().for_each(Proxy::delay_answers);
    second.start();
    second.ready();
    until("the others to let partitions go", NOTICE_MAX, || (owned(beside) < 3.0).then_some(()));
    // It asks about every 4 s now, because each answer that does not come costs it its connection.
    pause(dice, 5_000..6_000);
    cluster.kafka_proxies.iter().for_each(Proxy::calm);
    first.stop();
    second.stop();
    until("who gave an answer up to join anew", JOIN_ANEW_MAX, || {
        (late.said(JOINS_ANEW) > before).then_some(())
    });
    format!("{} did not hear what to let go when {} came", late.name, second.name)
}

/// Starts a guest until the two projectors that stay have 3 of 8 partitions each, of which a fourth
/// member will have one.
fn distribute_partitions(cluster: &Cluster, guest: &Pod) {
    for _ in 0..TRIES {
        guest.start();
        guest.ready();
        let owners = || cluster.projectors.iter().map(|pod| &**pod).chain([guest]);
        // On a busy machine an answer may be late without our doing.
        until_seen("all partitions to be shared out", JOIN_ANEW_MAX, || {
            let all: Vec<_> = owners().map(owned).collect();
            let are_shared = all.iter().sum::<f64>() == 8.0 && all.iter().all(|n| *n < 4.0);
            if are_shared { Ok(()) } else { Err(all) }
        });
        if cluster.projectors.iter().all(|pod| owned(pod) == 3.0) {
            return;
        }
        guest.stop();
        cluster.recover("a guest that had other partitions");
    }
    panic!("of {TRIES} times a guest came it never had 2 partitions");
}

fn owned(pod: &Pod) -> f64 {
    pod.metric("payfold_projector_partitions").unwrap_or(0.0)
}
