//! The feed over a real log, and over one whose subscriptions fail.

use std::sync::atomic::{AtomicUsize, Ordering};

use payfold_engines::SeamFuture;
use payfold_engines::log::sqlite::{SqliteLog, SqliteLogSettings};
use payfold_engines::log::{Message, Share, Subscription};
use payfold_schemas::event::{EventAttributes, ORDER_CHANGED_TYPE, order_event_id};
use payfold_schemas::time::Time;

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
    let message = Message { key: order.to_owned(), event: Some(event), value: b"{}".to_vec() };
    log.append(Topic::Orders, message).await.unwrap();
}

async fn told(follower: &mut Follower, version: u64) {
    let until = async {
        while follower.told() < (Version { generation: 1, version }) {
            follower.changed().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), until)
        .await
        .expect("[time] the follower is notified");
}

#[tokio::test]
async fn it_tells_followers_and_forgets_who_left() {
    let (log, _dir) = log();
    let feed = Feed::start(Arc::clone(&log), 3, &Handle::current());
    let mut one = feed.follow(&key("p/M/a")).unwrap();
    let mut two = feed.follow(&key("p/M/a")).unwrap();
    let other = feed.follow(&key("p/M/b")).unwrap();
    assert!(feed.follow(&key("p/M/c")).is_none() && feed.seat().is_none(), "three seats");
    // The feed begins at the head there is when it opens the log, and says of nothing before.
    let mut version = 0;
    while other.told() == Version::default() {
        version += 1;
        publish(&*log, "p/M/b", version).await;
    }
    publish(&*log, "p/M/a", 1).await;
    publish(&*log, "p/M/a", 2).await;
    told(&mut one, 2).await;
    told(&mut two, 2).await;
    assert_eq!(other.told(), Version { generation: 1, version }, "nothing of another order");
    assert_eq!(feed.followed(), 2);
    drop(one);
    assert_eq!(feed.followed(), 2, "another still follows");
    drop((two, other));
    assert_eq!(feed.followed(), 0);
    assert!(feed.seat().is_some());
}

/// A log whose subscriptions end after one batch, and can't be opened every other time.
struct Flaky {
    real: Arc<dyn EventLog>,
    opened: AtomicUsize,
}

struct Once {
    real: Box<dyn Subscription>,
    used: bool,
}

impl Subscription for Once {
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

impl EventLog for Flaky {
    fn append(&self, topic: Topic, message: Message) -> SeamFuture<'static, Position, EngineError> {
        self.real.append(topic, message)
    }

    fn append_all(
        &self,
        topic: Topic,
        messages: Vec<Message>,
    ) -> SeamFuture<'static, Vec<Position>, EngineError> {
        self.real.append_all(topic, messages)
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
                return Err(EngineError::Unavailable("away".to_owned()));
            }
            let once = Once { real: subscription.await?, used: false };
            Ok(Box::new(once) as Box<dyn Subscription>)
        })
    }

    fn share(&self, topic: Topic, group: &str) -> SeamFuture<'_, Box<dyn Share>, EngineError> {
        self.real.share(topic, group)
    }

    fn read_after(
        &self,
        topic: Topic,
        after: Position,
        limit: usize,
    ) -> SeamFuture<'_, Vec<Delivered>, EngineError> {
        self.real.read_after(topic, after, limit)
    }

    fn extent(&self, topic: Topic) -> SeamFuture<'_, Vec<Extent>, EngineError> {
        self.real.extent(topic)
    }

    fn id(&self) -> [u8; 16] {
        self.real.id()
    }

    fn queue_depth(&self) -> usize {
        self.real.queue_depth()
    }

    fn close(&self) -> SeamFuture<'_, (), EngineError> {
        self.real.close()
    }
}

/// What was appended while the subscription was gone is told when it is opened again.
#[tokio::test]
async fn a_subscription_that_fails_is_opened_again_where_it_stood() {
    let (real, _dir) = log();
    let flaky = Arc::new(Flaky { real: Arc::clone(&real), opened: AtomicUsize::new(0) });
    let feed = Feed::start(flaky.clone(), 9, &Handle::current());
    let mut followers = [1, 2, 3].map(|n: u64| feed.follow(&key(&format!("p/M/{n}"))).unwrap());
    while flaky.opened.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    for n in 1..=3 {
        publish(&*real, &format!("p/M/{n}"), n).await;
    }
    for (follower, n) in followers.iter_mut().zip(1..) {
        told(follower, n).await;
    }
    assert!(flaky.opened.load(Ordering::SeqCst) >= 3);
}
