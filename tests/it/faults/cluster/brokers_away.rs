//! Owns the fault in which every broker is gone for a while under full load: every post is answered
//! 503 in time, and no ingest pod grows while it waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::assembly::Cluster;
use super::client::{Asked, Client};
use super::load::Scene;
use super::pods::Pod;

use crate::support::dice::Dice;
use crate::support::wire::notice_request;

/// How long the brokers are away.
const AWAY: Duration = Duration::from_secs(20);
/// Connections that post as fast as they are answered, beside the steady load.
const FLOOD: u64 = 512;
/// How long they do so while there still are brokers: all of it has to be folded afterwards.
const WARM: Duration = Duration::from_millis(700);
/// They do little.
const STACK_BYTES: usize = 256 << 10;
/// What an ingest pod may grow by meanwhile, KiB.
const GROWTH_KIB_MAX: u64 = 32 << 10;

/// Strikes; says what it did.
pub fn strike(cluster: &Cluster, dice: &mut Dice) -> String {
    let (scene, brokers) = (&cluster.scene, "kafka-1 kafka-2 kafka-3");
    let stop = Arc::new(AtomicBool::new(false));
    let flood: Vec<_> = (0..FLOOD).map(|_| flood(scene, &stop, dice.roll(u64::MAX))).collect();
    // The load runs before the outage, so that the memory of a full load does not count as the
    // outage's.
    watch(&scene.ingests, WARM);
    let warm = resident(&scene.ingests);
    let refused = scene.answers.count(Asked::Notice, 503);
    cluster.stack.send_command(&format!("kill {brokers}"));
    let most = watch(&scene.ingests, AWAY);
    let refused = scene.answers.count(Asked::Notice, 503) - refused;
    stop.store(true, Ordering::SeqCst);
    flood.into_iter().for_each(|thread| thread.join().expect("a partner ends without a panic"));
    cluster.stack.send_command(&format!("start {brokers}"));
    assert!(refused > 0, "with no broker somebody has to be refused");
    let growth: Vec<_> =
        most.iter().zip(&warm).map(|(most, warm)| most.saturating_sub(*warm)).collect();
    for (pod, growth) in scene.ingests.iter().zip(&growth) {
        assert!(*growth <= GROWTH_KIB_MAX, "{} grew by {growth} KiB without brokers", pod.name);
    }
    let mib = |kib: &[u64]| kib.iter().map(|kib| kib >> 10).collect::<Vec<_>>();
    let (warm, growth) = (mib(&warm), mib(&growth));
    format!("for {AWAY:?}, {refused} times 503, ingest from {warm:?} MiB by {growth:?} MiB at most")
}

fn resident(pods: &[Arc<Pod>]) -> Vec<u64> {
    pods.iter().map(|pod| pod.resident_kib()).collect()
}

/// The most each pod had in this time.
fn watch(pods: &[Arc<Pod>], time: Duration) -> Vec<u64> {
    let begun = Instant::now();
    let mut most = resident(pods);
    while begun.elapsed() < time {
        thread::sleep(Duration::from_millis(100));
        most = most.iter().zip(resident(pods)).map(|(most, now)| now.max(*most)).collect();
    }
    most
}

/// A partner that only posts; it drops notices that are refused.
fn flood(scene: &Scene, stop: &Arc<AtomicBool>, seed: u64) -> thread::JoinHandle<()> {
    let (scene, stop) = (scene.clone(), Arc::clone(stop));
    let post = move || {
        let mut dice = Dice::new(seed, 300);
        let pod = dice.pick(&scene.ingests);
        let mut client = Client::new(pod, &scene.answers);
        while !stop.load(Ordering::SeqCst) {
            for body in scene.world.say(&mut dice) {
                if let Some(answer) = client.ask(Asked::Notice, &notice_request(&body)) {
                    scene.world.seen().answered(&body, answer.status);
                }
            }
        }
    };
    let started = thread::Builder::new().stack_size(STACK_BYTES).spawn(post);
    started.expect("a thread can be started")
}
