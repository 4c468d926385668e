//! Owns an open-loop load of notices: each is sent at its own instant, whatever the outcome of
//! those before it. A plan says which key signs it, and rotations extend the plan meanwhile. Its
//! answer is judged by when that key was valid.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use payfold_engines::clock::{Clock, SystemClock};
use payfold_schemas::time::Time;

use crate::support::notice::Notice;
use crate::support::wire::{Connection, post_request};

/// Notices a second that are due.
const DUE_PER_S: u64 = 1_000;
/// At least this many have to be sent, in a debug build on a shared machine.
const SENT_PER_S_MIN: f64 = 300.0;
/// So many may be under way at once.
const CONNECTIONS: u64 = 64;

/// One key of the plan: what signs with it and when it counts.
#[derive(Clone, Debug)]
pub struct Planned {
    pub id: String,
    pub secret: String,
    pub from: Time,
    pub until: Option<Time>,
}

impl Planned {
    fn counts_at(&self, now: Time) -> bool {
        self.from <= now && self.until.is_none_or(|until| now < until)
    }
}

/// Every key there is or will be, the oldest first.
#[derive(Default)]
pub struct Plan(Mutex<Vec<Planned>>);

impl Plan {
    /// A key that begins at `from`; the one before it ends at `until_before`.
    pub fn add(&self, id: &str, secret: &str, (from, until_before): (Time, Time)) {
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = keys.last_mut() {
            before.until = Some(until_before);
        }
        let (id, secret) = (id.to_owned(), secret.to_owned());
        keys.push(Planned { id, secret, from, until: None });
    }

    pub fn keys(&self) -> Vec<Planned> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The key that signs the notice of this number. Of ten notices, eight are signed with a valid
    /// key, with the old and the new one in turn while both are valid. One is signed with a key
    /// that has ended, and one with a key that has not begun, where there are such keys.
    fn pick(&self, number: u64, now: Time) -> usize {
        let keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let places = |wanted: &dyn Fn(&Planned) -> bool| -> Vec<usize> {
            (0..keys.len()).filter(|place| wanted(&keys[*place])).collect()
        };
        let ended = || places(&|key| key.until.is_some_and(|until| until <= now));
        let wrong = match number % 10 {
            9 => ended().last().copied(),
            8 => places(&|key| now < key.from).first().copied(),
            _ => None,
        };
        let counting = places(&|key| key.counts_at(now));
        let turn = usize::try_from(number).unwrap_or_default();
        wrong.unwrap_or_else(|| counting[turn % counting.len()])
    }

    fn secret(&self, place: usize) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[place].secret.clone()
    }
}

/// One answered notice.
struct Post {
    key: usize,
    sent: Time,
    answered: Time,
    status: u16,
}

/// What came of a load.
pub struct Outcome {
    posts: Vec<Post>,
    took: Duration,
    late_max: Duration,
}

/// Ends the senders, also where what they accompany has failed.
struct Stopping<'s>(&'s AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends notices of acme/SHOP until `act` has returned.
pub fn under_load<T>(public: SocketAddr, plan: &Plan, act: impl FnOnce() -> T) -> (T, Outcome) {
    let (next, stop, begun) = (AtomicU64::new(0), AtomicBool::new(false), Instant::now());
    std::thread::scope(|scope| {
        let send = || send(public, plan, (&next, &stop, begun));
        let senders: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(send)).collect();
        let stopping = Stopping(&stop);
        let done = act();
        drop(stopping);
        let (mut posts, mut late_max) = (Vec::new(), Duration::ZERO);
        for sender in senders {
            let (sent, late) = sender.join().expect("it does not panic");
            posts.extend(sent);
            late_max = late_max.max(late);
        }
        (done, Outcome { posts, took: begun.elapsed(), late_max })
    })
}

fn send(
    public: SocketAddr,
    plan: &Plan,
    (next, stop, begun): (&AtomicU64, &AtomicBool, Instant),
) -> (Vec<Post>, Duration) {
    let mut connection = Connection::open(public);
    let (mut posts, mut late_max) = (Vec::new(), Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let due = Duration::from_micros(number * 1_000_000 / DUE_PER_S);
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
        late_max = late_max.max(begun.elapsed().saturating_sub(due));
        let key = plan.pick(number, SystemClock.now());
        let order = format!("ord-{}", number % 500);
        let body = Notice::paid("SHOP", &order, "ref-1").signed(&plan.secret(key));
        let sent = SystemClock.now();
        let status = connection.exchange(&post_request("/api/payment/ipn/acme", &body)).status;
        posts.push(Post { key, sent, answered: SystemClock.now(), status });
    }
    (posts, late_max)
}

impl Outcome {
    /// Judges every answer. It is 200 if its key was valid from sending to answer, 401 if the key
    /// had ended, and 401 or 503 if it was too early; at a border it may be either. Every rotated
    /// key was tried inside and after its time. Returns a line of figures.
    pub fn judge(&self, plan: &Plan) -> String {
        let keys = plan.keys();
        let mut tried: BTreeMap<(usize, bool), u64> = BTreeMap::new();
        let mut in_overlap = 0;
        for post in &self.posts {
            let key = &keys[post.key];
            let ended = key.until.is_some_and(|until| until <= post.sent);
            let counts = key.counts_at(post.sent) && key.counts_at(post.answered);
            let describe =
                || format!("{} sent {} answered {}: {key:?}", key.id, post.sent, post.answered);
            if counts {
                assert_eq!(post.status, 200, "{}", describe());
                let newer = keys.get(post.key + 1);
                in_overlap += u64::from(newer.is_some_and(|newer| newer.from <= post.sent));
            } else if ended {
                assert_eq!(post.status, 401, "{}", describe());
            } else if post.answered < key.from {
                // 503 as soon as the key is known: the notice is kept for it.
                assert!([401, 503].contains(&post.status), "{} {}", post.status, describe());
            }
            if counts || ended {
                *tried.entry((post.key, counts)).or_default() += 1;
            }
        }
        let rotated = keys.len() - 1;
        for (place, key) in keys.iter().enumerate().take(rotated) {
            for inside in [true, false] {
                let count = tried.get(&(place, inside)).copied().unwrap_or(0);
                assert!(count > 5, "{} was tried {count} times, inside {inside}", key.id);
            }
        }
        assert!(in_overlap > 0, "old keys were used inside the overlap");
        let rate = self.posts.len() as f64 / self.took.as_secs_f64();
        let of = |status| self.posts.iter().filter(|post| post.status == status).count();
        let figures = format!(
            "{rotated} rotations under {rate:.0} IPN/s for {:.1} s: {} taken, \
             {in_overlap} of them with the old key of an \
             overlap, {} refused for a key that did not count; sent {:.0} ms late at most",
            self.took.as_secs_f64(),
            of(200),
            of(401),
            self.late_max.as_secs_f64() * 1e3,
        );
        assert!(rate >= SENT_PER_S_MIN, "{figures}");
        figures
    }
}
