//! Owns the load on a cluster: partners that post notices to every ingest pod until each is
//! answered 200, and shops that create payments through every checkout pod until each answer is
//! definite.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::faults::load::World;
use crate::support::dice::Dice;
use crate::support::sandbox::TOKEN;
use crate::support::wire::{notice_request, payment_request};

use super::client::{Answers, Asked, Client};
use super::pods::Pod;

/// How many threads post notices, and how many create payments.
const PARTNERS: u64 = 4;
const SHOPS: u64 = 3;
/// The pause between two turns of a thread: the load is steady, and leaves the machine's few cores
/// to the cluster.
const PARTNER_PACE: Duration = Duration::from_millis(50);
const SHOP_PACE: Duration = Duration::from_millis(100);
/// A thread with this many unanswered notices posts no new one.
const WAITING_MAX: usize = 500;
/// How long the unanswered may take once no fault strikes any more.
const DRAIN_MAX: Duration = Duration::from_secs(150);

/// Partners and shops at work.
pub struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// What all of them share.
#[derive(Clone)]
pub struct Scene {
    pub world: Arc<World>,
    pub answers: Arc<Answers>,
    pub ingests: Vec<Arc<Pod>>,
    pub checkouts: Vec<Arc<Pod>>,
}

impl Scene {
    fn clients(&self, pods: &[Arc<Pod>]) -> Vec<Client> {
        pods.iter().map(|pod| Client::new(pod, &self.answers)).collect()
    }
}

impl Load {
    /// Lets all of them begin.
    pub fn start(scene: &Scene, seed: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for number in 0..PARTNERS {
            let (scene, stop) = (scene.clone(), Arc::clone(&stop));
            let dice = Dice::new(seed, 100 + number);
            threads.push(thread::spawn(move || partner(&scene, &stop, dice)));
        }
        for number in 0..SHOPS {
            let (scene, stop) = (scene.clone(), Arc::clone(&stop));
            let dice = Dice::new(seed, 200 + number);
            threads.push(thread::spawn(move || shop(&scene, &stop, (dice, number))));
        }
        Self { stop, threads }
    }

    /// Starts no new request, and waits until every started one is answered.
    pub fn finish(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            thread.join().expect("partners and shops end with everything answered");
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

fn partner(scene: &Scene, stop: &AtomicBool, mut dice: Dice) {
    let mut clients = scene.clients(&scene.ingests);
    let mut waiting = VecDeque::new();
    while !stop.load(Ordering::SeqCst) {
        if waiting.len() < WAITING_MAX {
            for body in scene.world.say(&mut dice) {
                post(scene, &mut clients, (&mut dice, &mut waiting), body);
            }
        }
        if let Some(body) = waiting.pop_front() {
            post(scene, &mut clients, (&mut dice, &mut waiting), body);
        }
        thread::sleep(PARTNER_PACE);
    }
    let begun = Instant::now();
    while let Some(body) = waiting.pop_front() {
        post(scene, &mut clients, (&mut dice, &mut waiting), body);
        assert!(begun.elapsed() < DRAIN_MAX, "[time] {} notices never answered 200", waiting.len());
    }
}

/// Posts to either pod; a notice that is not answered 200 waits for its next turn.
fn post(
    scene: &Scene,
    clients: &mut [Client],
    (dice, waiting): (&mut Dice, &mut VecDeque<Arc<Vec<u8>>>),
    body: Arc<Vec<u8>>,
) {
    let answer = pick(clients, dice).ask(Asked::Notice, &notice_request(&body));
    let status = answer.map(|answer| answer.status);
    if let Some(status) = status {
        scene.world.seen().answered(&body, status);
    }
    if status != Some(200) {
        waiting.push_back(body);
    }
    if status.is_none() {
        // Its pod is down; there is nothing to wait for but time.
        thread::sleep(PARTNER_PACE);
    }
}

fn pick<'a>(clients: &'a mut [Client], dice: &mut Dice) -> &'a mut Client {
    let count = u64::try_from(clients.len()).expect("a count");
    let place = usize::try_from(dice.roll(count)).expect("a place");
    &mut clients[place]
}

fn shop(scene: &Scene, stop: &AtomicBool, (mut dice, number): (Dice, u64)) {
    let mut clients = scene.clients(&scene.checkouts);
    let mut payments = 0_u64;
    while !stop.load(Ordering::SeqCst) {
        payments += 1;
        let key = format!("shop-{number}-{payments}");
        // The partner pays some by itself; the load makes the notices of the others.
        let pays = if payments.is_multiple_of(2) { " #pay" } else { "" };
        create(scene, &mut clients, (&mut dice, &key), pays);
        thread::sleep(SHOP_PACE);
    }
}

/// Asks under one key until the answer is definite.
fn create(scene: &Scene, clients: &mut [Client], (dice, key): (&mut Dice, &str), pays: &str) {
    let amount = 1_000 + dice.roll(1_000_000);
    let payment = json!({
        "partner": "sandbox", "merchantCode": "DEMO", "reference": key, "amount": amount,
        "currency": "VND", "description": format!("{key}{pays}"),
    });
    let request = payment_request(TOKEN, key, &payment);
    let begun = Instant::now();
    let mut last = String::new();
    loop {
        let answer = pick(clients, dice).ask(Asked::Create, &request);
        if let Some(answer) = &answer
            && [201, 202].contains(&answer.status)
        {
            let created = answer.json();
            let text = |name: &str| created[name].as_str().map(str::to_owned);
            let order_id = text("orderId").expect("an answer names its order");
            scene.world.seen().opened.insert(format!("sandbox/DEMO/{order_id}"));
            if let (Some(provider_ref), "") = (text("providerRef"), pays) {
                scene.world.meet(order_id, provider_ref, amount);
            }
            return;
        }
        if let Some(answer) = answer {
            if answer.status == 502 {
                // Definite too: nothing was sent to the partner, and the next attempt has another
                // key.
                return;
            }
            last = format!("{answer:?}");
        }
        assert!(begun.elapsed() < DRAIN_MAX, "[time] {key} has no definite answer, but {last}");
        thread::sleep(SHOP_PACE);
    }
}
