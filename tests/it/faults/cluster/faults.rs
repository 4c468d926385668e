//! Owns the faults: what each does to the cluster, and that it had the effect that makes it one.
//! When it returns, all that was taken away is there again; whether the cluster recovered is asked
//! after.

use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::dice::Dice;
use crate::support::waits::until;

use super::assembly::Cluster;
use super::brokers_away;
use super::late;
use super::pods::Pod;
use super::proxy::Proxy;

/// The log line of a projector that notices that it was removed from the group.
const LOST: &str = "were lost to another projector";
/// How long it may take to notice.
pub const NOTICE_MAX: Duration = Duration::from_secs(20);
/// The time without a heartbeat after which the brokers remove a member of a group
/// (`group.consumer.session.timeout.ms`); then its partitions need an owner.
const SESSION: Duration = Duration::from_secs(6);

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    ProjectorKilled,
    ProjectorFrozen,
    Rebalanced,
    IngestKilled,
    CheckoutKilled,
    BrokerKilled,
    LeadersMoved,
    BrokersAway,
    DatabaseKilled,
    KafkaCut,
    KafkaDelayed,
    KafkaDeaf,
    KafkaLate,
    DatabaseCut,
    DatabaseDelayed,
    DatabaseDeaf,
}

impl Kind {
    pub const ALL: [Self; 16] = [
        Self::ProjectorKilled,
        Self::ProjectorFrozen,
        Self::Rebalanced,
        Self::IngestKilled,
        Self::CheckoutKilled,
        Self::BrokerKilled,
        Self::LeadersMoved,
        Self::BrokersAway,
        Self::DatabaseKilled,
        Self::KafkaCut,
        Self::KafkaDelayed,
        Self::KafkaDeaf,
        Self::KafkaLate,
        Self::DatabaseCut,
        Self::DatabaseDelayed,
        Self::DatabaseDeaf,
    ];

    /// Its name in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::ProjectorKilled => "projector killed",
            Self::ProjectorFrozen => "projector frozen",
            Self::Rebalanced => "rebalanced again and again",
            Self::IngestKilled => "ingest killed",
            Self::CheckoutKilled => "checkout killed",
            Self::BrokerKilled => "broker killed",
            Self::LeadersMoved => "leaders moved",
            Self::BrokersAway => "all brokers away",
            Self::DatabaseKilled => "database killed",
            Self::KafkaCut => "connections to brokers cut",
            Self::KafkaDelayed => "connections to brokers delayed",
            Self::KafkaDeaf => "connections to brokers half-open",
            Self::KafkaLate => "brokers answer too late while a projector comes",
            Self::DatabaseCut => "connections to the database cut",
            Self::DatabaseDelayed => "connections to the database delayed",
            Self::DatabaseDeaf => "connections to the database half-open",
        }
    }

    /// Strikes; says what it did.
    pub fn strike(self, cluster: &Cluster, dice: &mut Dice) -> String {
        // The random moment is part of the experiment.
        pause(dice, 200..1_500);
        match self {
            Self::ProjectorKilled => killed(&cluster.projectors, dice),
            Self::ProjectorFrozen => frozen(cluster, dice),
            Self::Rebalanced => rebalanced(cluster, dice),
            Self::IngestKilled => killed(&cluster.scene.ingests, dice),
            Self::CheckoutKilled => killed(&cluster.scene.checkouts, dice),
            Self::BrokerKilled => server(cluster, ("kill", &broker(dice)), dice),
            Self::LeadersMoved => server(cluster, ("stop", &broker(dice)), dice),
            Self::BrokersAway => brokers_away::strike(cluster, dice),
            Self::DatabaseKilled => server(cluster, ("kill", "cassandra"), dice),
            Self::KafkaCut => cut(&cluster.kafka_proxies, dice),
            Self::KafkaDelayed => delayed(&cluster.kafka_proxies, dice),
            Self::KafkaDeaf => deaf(&cluster.kafka_proxies, dice),
            Self::KafkaLate => late::strike(cluster, dice),
            Self::DatabaseCut => cut(std::slice::from_ref(&cluster.cql_proxy), dice),
            Self::DatabaseDelayed => delayed(std::slice::from_ref(&cluster.cql_proxy), dice),
            Self::DatabaseDeaf => deaf(std::slice::from_ref(&cluster.cql_proxy), dice),
        }
    }
}

/// So many faults of these kinds in a random order: each once before any strikes again.
pub fn order(kinds: &[Kind], count: usize, dice: &mut Dice) -> Vec<Kind> {
    let mut order = Vec::new();
    while order.len() < count && !kinds.is_empty() {
        let mut round = kinds.to_vec();
        while !round.is_empty() && order.len() < count {
            let left = u64::try_from(round.len()).expect("a count");
            order.push(round.swap_remove(usize::try_from(dice.roll(left)).expect("a place")));
        }
    }
    order
}

pub fn pause(dice: &mut Dice, ms: Range<u64>) {
    thread::sleep(Duration::from_millis(ms.start + dice.roll(ms.end - ms.start)));
}

/// SIGKILL; an orchestrator starts it again.
fn killed(pods: &[Arc<Pod>], dice: &mut Dice) -> String {
    let pod = dice.pick(pods);
    pod.kill();
    pause(dice, 0..2_000);
    pod.start();
    pod.ready();
    pod.name.clone()
}

/// SIGSTOP until the group has removed it, and some more: the zombie wakes with half a batch to
/// write. Every projector has partitions to lose while the cluster is well.
fn frozen(cluster: &Cluster, dice: &mut Dice) -> String {
    let pod = dice.pick(&cluster.projectors);
    let before = pod.said(LOST);
    pod.signal(Signal::STOP);
    thread::sleep(SESSION);
    pause(dice, 1_000..4_000);
    pod.signal(Signal::CONT);
    until("the zombie to notice that it is one", NOTICE_MAX, || {
        pod.assert_runs();
        (pod.said(LOST) > before).then_some(())
    });
    format!("{}, which lost what it had", pod.name)
}

/// Another projector joins, is assigned partitions and leaves, orderly or not.
fn rebalanced(cluster: &Cluster, dice: &mut Dice) -> String {
    let [guest, _] = &cluster.guests;
    let (mut stopped, mut killed) = (0, 0);
    for _ in 0..4 {
        guest.start();
        guest.ready();
        pause(dice, 0..1_500);
        if dice.roll(2) == 0 {
            guest.kill();
            killed += 1;
        } else {
            guest.stop();
            stopped += 1;
        }
    }
    format!("{} came 4 times, was stopped {stopped} and killed {killed} times", guest.name)
}

/// A broker's name.
fn broker(dice: &mut Dice) -> String {
    format!("kafka-{}", 1 + dice.roll(3))
}

/// Ends a server and starts it again.
fn server(cluster: &Cluster, (how, name): (&str, &str), dice: &mut Dice) -> String {
    cluster.stack.send_command(&format!("{how} {name}"));
    pause(dice, 0..4_000);
    cluster.stack.send_command(&format!("start {name}"));
    name.to_owned()
}

/// Closes every connection, some times.
fn cut(proxies: &[Proxy], dice: &mut Dice) -> String {
    let carried = || proxies.iter().map(Proxy::carried).sum::<u64>();
    let before = carried();
    for _ in 0..5 {
        proxies.iter().for_each(Proxy::cut);
        pause(dice, 50..800);
    }
    until("clients to come back", NOTICE_MAX, || (carried() > before).then_some(()));
    format!("5 times, {} new connections", carried() - before)
}

fn delayed(proxies: &[Proxy], dice: &mut Dice) -> String {
    proxies.iter().for_each(Proxy::delay);
    pause(dice, 3_000..6_000);
    proxies.iter().for_each(Proxy::calm);
    "bytes came 300 ms late".to_owned()
}

/// Connections stay open and no byte is carried. Afterwards these connections stay deaf, and only
/// new ones are carried.
fn deaf(proxies: &[Proxy], dice: &mut Dice) -> String {
    let carried = || proxies.iter().map(Proxy::carried).sum::<u64>();
    let before = carried();
    proxies.iter().for_each(Proxy::deafen);
    pause(dice, 4_000..10_000);
    proxies.iter().for_each(Proxy::calm);
    until("clients to give up what is deaf", NOTICE_MAX, || (carried() > before).then_some(()));
    format!("{} new connections", carried() - before)
}
