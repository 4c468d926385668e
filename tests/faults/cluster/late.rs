//! Owns the fault of a broker that answers members of a group too late: a projector is told to let a partition go, has
//! given that answer up when it comes, and is not told again. To the brokers it still has to let go, so it is given
//! nothing either; once the others are gone, partitions have nobody.

use std::time::Duration;

use crate::dice::Dice;
use crate::support::system::until;

use super::assembly::Cluster;
use super::faults::{NOTICE_MAX, pause};
use super::pods::Pod;
use super::proxy::Proxy;

/// How a member of a group says that it may not know which partitions are its own.
const JOINS_ANEW: &str = "leaves the group and joins it again";
/// How long that may take: a minute after the time before, and two looks.
const JOIN_ANEW_MAX: Duration = Duration::from_secs(80);
/// Tries until the shares are as the fault needs them: who of three has 2 of 8 partitions is not ours to say.
const TRIES: usize = 8;

/// Strikes: the second projector of the cluster, behind the proxies, is the one that is answered late.
pub fn strike(cluster: &Cluster, dice: &mut Dice) -> String {
    let [first, second] = &cluster.guests;
    let [beside, late] = &cluster.projectors[..] else { panic!("two projectors") };
    share_out(cluster, first);
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

/// Lets a guest come until the two that stay have 3 of 8 partitions each, of which a fourth will have one.
fn share_out(cluster: &Cluster, guest: &Pod) {
    for _ in 0..TRIES {
        guest.start();
        guest.ready();
        let owners = || cluster.projectors.iter().map(|pod| &**pod).chain([guest]);
        until("all partitions to be shared out", NOTICE_MAX, || {
            let all: Vec<_> = owners().map(owned).collect();
            (all.iter().sum::<f64>() == 8.0 && all.iter().all(|count| *count < 4.0)).then_some(())
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
