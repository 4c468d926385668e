//! The feed over a real log, and over a log with failing subscriptions.

use std::sync::atomic::{AtomicUsize, Ordering};

use payfold_doubles::{Double, LogDouble};
use payfold_engines::SeamFuture;
use payfold_engines::log::sqlite::{SqliteLog, SqliteLogSettings};
use payfold_engines::log::{Message, Subscription};
use payfold_schemas::event::{EventAttributes, ORDER_CHANGED_TYPE, order_event_id};
use payfold_schemas::time::Time;
use payfold_testing::waits::eventually;

use super::*;

fn key(order: &str) -> OrderKey {
    OrderKey::parse(order).unwrap()
}

fn log() -> (Arc<dyn EventLog>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let log = SqliteLog::open(dir.path().join("log.db"), SqliteLogSettings::default()).unwrap();
    (Arc::new(log), dir)
}

async fn publish(log: &dyn EventLog, order: &str, version: u64) {
    let id = order_event_id(&key(order), 1, version);
    let event = EventAttributes { id, kind: ORDER_CHANGED_TYPE, time: Time::from_unix_ms(0) };
    let message =
        Message { key: order.to_owned(), event: Some(event), value: b"{}".to_vec(), mac: None };
    log.append(Topic::Orders, message).await.unwrap();
}

async fn wait_for_version(follower: &mut Follower, version: u64) {
    let until = async {
        while follower.newest_version() < (Version { epoch: 1, version }) {
            follower.changed().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), until)
        .await
        .expect("[time] the follower is notified");
}

#[tokio::test]
async fn followers_are_notified_and_forgotten_when_they_are_dropped() {
    let (log, _dir) = log();
    let feed = Feed::start(Arc::clone(&log), 3, &Handle::current());
    let mut one = feed.follow(&key("p/M/a")).unwrap();
    let mut two = feed.follow(&key("p/M/a")).unwrap();
    let other = feed.follow(&key("p/M/b")).unwrap();
    assert!(
        feed.follow(&key("p/M/c")).is_none() && feed.acquire_permit().is_none(),
        "three permits"
    );
    // The feed starts at the head of the log at the moment it opens the log.
    let mut version = 0;
    let first = async {
        while other.newest_version() == Version::default() {
            version += 1;
            publish(&*log, "p/M/b", version).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), first).await.expect("[time] the feed starts");
    publish(&*log, "p/M/a", 1).await;
    publish(&*log, "p/M/a", 2).await;
    wait_for_version(&mut one, 2).await;
    wait_for_version(&mut two, 2).await;
    assert_eq!(other.newest_version(), Version { epoch: 1, version }, "events of one order only");
    assert_eq!(feed.followed_count(), 2);
    drop(one);
    assert_eq!(feed.followed_count(), 2, "another still follows");
    drop((two, other));
    assert_eq!(feed.followed_count(), 0);
    assert!(feed.acquire_permit().is_some());
}

/// A log in which a subscription ends after one batch, and every other subscription fails to open.
struct FlakyLog {
    real: Arc<dyn EventLog>,
    opened: AtomicUsize,
}

struct OneBatch {
    real: Box<dyn Subscription>,
    used: bool,
}

impl Subscription for OneBatch {
    fn next_batch(&mut self, _: usize) -> SeamFuture<'_, Vec<Delivered>, EngineError> {
        if std::mem::replace(&mut self.used, true) {
            return Box::pin(async { Err(EngineError::Unavailable("ended".to_owned())) });
        }
        self.real.next_batch(1)
    }

    fn ack(&mut self, through: Vec<Position>) -> SeamFuture<'_, (), EngineError> {
        panic!("the feed acks nothing: {through:?}");
    }
}

impl LogDouble for FlakyLog {
    fn real(&self) -> &dyn EventLog {
        &*self.real
    }

    fn subscribe(
        &self,
        topic: Topic,
        group: &str,
        start: Start,
    ) -> SeamFuture<'_, Box<dyn Subscription>, EngineError> {
        let opened = self.opened.fetch_add(1, Ordering::SeqCst);
        let subscription = self.real.subscribe(topic, group, start);
        Box::pin(async move {
            if opened % 2 == 1 {
                return Err(EngineError::Unavailable("unavailable".to_owned()));
            }
            let once = OneBatch { real: subscription.await?, used: false };
            Ok(Box::new(once) as Box<dyn Subscription>)
        })
    }
}

/// Events that are appended while there is no subscription are read when it is opened again.
#[tokio::test]
async fn a_failed_subscription_is_reopened_at_its_position() {
    let (real, _dir) = log();
    let flaky = Arc::new(Double(FlakyLog { real: Arc::clone(&real), opened: AtomicUsize::new(0) }));
    let feed = Feed::start(flaky.clone(), 9, &Handle::current());
    let mut followers = [1, 2, 3].map(|n: u64| feed.follow(&key(&format!("p/M/{n}"))).unwrap());
    eventually("the log is opened", async || {
        if flaky.opened.load(Ordering::SeqCst) == 0 { Err("not once") } else { Ok(()) }
    })
    .await;
    for n in 1..=3 {
        publish(&*real, &format!("p/M/{n}"), n).await;
    }
    for (follower, n) in followers.iter_mut().zip(1..) {
        wait_for_version(follower, n).await;
    }
    assert!(flaky.opened.load(Ordering::SeqCst) >= 3);
}
