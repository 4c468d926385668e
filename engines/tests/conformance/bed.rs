//! Owns the `Bed`, which an engine provides to the suite, and helpers of all tests.

use std::sync::Arc;
use std::time::Duration;

use payfold_engines::log::{Delivered, EventLog, Message, Start, Topic};
use payfold_engines::orders::{ClaimKey, OrderStore};
use payfold_engines::{EngineError, SeamFuture};
use payfold_schemas::ids::{OrderKey, ShopName};
use payfold_schemas::order::{KnownFacts, Order, OrderState, Summary};
use payfold_schemas::position::Position;
use payfold_schemas::time::Time;

/// One log and one store. Opening one again after dropping it opens the same data.
pub trait Bed: Send + Sync {
    /// Opens the log with a queue of this size.
    fn log(&self, queue_max: usize) -> SeamFuture<'_, Arc<dyn EventLog>, EngineError>;
    /// Opens the store.
    fn orders(&self) -> SeamFuture<'_, Arc<dyn OrderStore>, EngineError>;
}

pub async fn log(bed: &dyn Bed) -> Arc<dyn EventLog> {
    bed.log(4_096).await.expect("the log opens")
}

pub async fn orders(bed: &dyn Bed) -> Arc<dyn OrderStore> {
    bed.orders().await.expect("the store opens")
}

/// Awaits a future and fails the test if it hangs.
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("[time] it hangs")
}

pub fn message(key: &str, text: &str) -> Message {
    Message { key: key.to_owned(), event: None, value: text.as_bytes().to_vec(), mac: None }
}

/// Appends texts under one key and waits for each.
pub async fn append_each(log: &dyn EventLog, texts: &[&str]) -> Vec<Position> {
    let mut positions = Vec::new();
    for text in texts {
        let appended = soon(log.append(Topic::Intake, message("k", text))).await;
        positions.push(appended.expect("it is appended"));
    }
    positions
}

/// Reads `count` messages of a topic from its beginning.
pub async fn read(log: &dyn EventLog, topic: Topic, count: usize) -> Vec<Delivered> {
    let subscribed = soon(log.subscribe(topic, "reader", Start::After(Vec::new()))).await;
    let mut reader = subscribed.expect("it subscribes");
    let mut all = Vec::new();
    while all.len() < count {
        all.extend(soon(reader.next_batch(1_000)).await.expect("a batch"));
    }
    all
}

pub fn texts(messages: &[Delivered]) -> Vec<String> {
    messages.iter().map(|one| String::from_utf8_lossy(&one.value).into_owned()).collect()
}

pub fn key(text: &str) -> OrderKey {
    OrderKey::parse(text).expect("a key")
}

pub fn at(offset: u64) -> Position {
    Position { partition: 0, offset }
}

/// Makes an order; its last record has this offset.
pub fn order(name: &str, offset: u64) -> Order {
    let summary = Summary {
        attempt: Some(1),
        amount: Some(150_000),
        deadline: Some(Time::from_unix_ms(77)),
        ..Summary::new(OrderState::Pending)
    };
    let (key, first_seen) = (key(name), Time::from_unix_ms(1));
    let facts = KnownFacts::default();
    Order { key, version: offset, first_seen, position: at(offset), summary, facts }
}

/// The key of a create request, written `SHOP/IDEMPOTENCY-KEY`.
pub fn claim_key(text: &str) -> ClaimKey {
    let (shop, key) = text.split_once('/').expect("a shop and a key");
    let shop = ShopName::parse(shop).expect("a shop's name");
    ClaimKey::create_request(&shop, key).expect("a key of its own")
}
