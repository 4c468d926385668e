//! Owns the input: generated worlds, one for each order, put in turns as a log has them. Invariant:
//! the same everywhere and every time; the facts of one order come in the order of its world.

use std::collections::BTreeSet;

use payfold_engines::log::{EventLog, Message, Topic};
use payfold_projector::fold::{apply, summarize};
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::{KeyId, OrderKey, PartnerCode, RequestId};
use payfold_schemas::notice_source::{NoticeSource, ProfileStamp, RecordedRequest};
use payfold_schemas::order::{Flag, KnownFacts, OrderState};
use payfold_schemas::position::Position;
use payfold_schemas::record::{FactRecord, Record};
use payfold_schemas::record_mac::Writer;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use crate::support::pair::with_log;
use crate::support::system::{Home, alone};
use crate::support::worlds::{minute, world};

/// Five facts an order on average.
const FACTS_MAX: usize = 10;
/// How many orders are open at once.
const WINDOW: usize = 500;
const APPEND: usize = 5_000;

/// Orders and their facts.
pub struct Given {
    worlds: Vec<(OrderKey, Vec<Fact>)>,
    messages: Vec<Message>,
}

impl Given {
    /// So many orders with one fact or more.
    pub fn generate(orders: usize) -> Self {
        // Its seed is always the same.
        let mut runner = TestRunner::deterministic();
        let strategy =
            world(FACTS_MAX).prop_filter("an order has a fact", |facts| !facts.is_empty());
        let worlds: Vec<_> = (0..orders)
            .map(|number| {
                let key = OrderKey::parse(&format!("acme/SHOP-{}/o-{number}", number % 3));
                let tree = strategy.new_tree(&mut runner).expect("worlds can be made");
                (key.expect("a key"), tree.current())
            })
            .collect();
        let messages = messages(&worlds);
        Self { worlds, messages }
    }

    /// How many records there are.
    pub fn records(&self) -> u64 {
        u64::try_from(self.messages.len()).expect("it is small")
    }

    /// Every order.
    pub fn keys(&self) -> impl Iterator<Item = &OrderKey> {
        self.worlds.iter().map(|(key, _)| key)
    }

    /// Fails if the worlds are too plain to prove anything.
    pub fn reaches_enough(&self) {
        let facts = self.messages.len() / self.worlds.len();
        assert!((4..=7).contains(&facts), "{facts} facts an order");
        let (mut states, mut flags, mut repeats) = (BTreeSet::new(), BTreeSet::new(), 0);
        for (_, facts) in &self.worlds {
            let mut known = KnownFacts::default();
            for fact in facts {
                repeats += u32::from(!apply(&mut known, fact, Position::default()).is_change());
            }
            let summary = summarize(&known);
            states.insert(summary.state);
            flags.extend(summary.flags.iter().map(|raised| raised.flag));
        }
        assert_eq!(states.len(), OrderState::ALL.len(), "reached {states:?}");
        // No person decides anything here, and no world is a flood.
        assert!(flags.len() + 3 >= Flag::ALL.len(), "raised {flags:?}");
        assert!(repeats > 1_000, "{repeats} records repeat what is known");
    }

    /// Appends it to the log of a system that does not run, all but a tenth.
    pub fn preload(&self, home: &Home) {
        std::fs::create_dir_all(home.data()).expect("the folder can be made");
        let most = &self.messages[..self.most()];
        alone(|| {
            with_log(home, Writer::Ingest, async |log: &dyn EventLog| append(log, most).await)
        });
    }

    /// Appends the last tenth: by then every projector has partitions to fold.
    pub async fn finish(&self, log: &dyn EventLog) {
        append(log, &self.messages[self.most()..]).await;
    }

    fn most(&self) -> usize {
        self.messages.len() / 10 * 9
    }
}

async fn append(log: &dyn EventLog, messages: &[Message]) {
    for part in messages.chunks(APPEND) {
        let appended = log.append_all(Topic::Intake, part.to_vec()).await;
        appended.expect("it can be appended to");
    }
}

/// In each window comes the first fact of every order, then the second of every order, and so on.
fn messages(worlds: &[(OrderKey, Vec<Fact>)]) -> Vec<Message> {
    let mut messages = Vec::new();
    for window in worlds.chunks(WINDOW) {
        for step in 0..FACTS_MAX {
            for (key, facts) in window {
                if let Some(fact) = facts.get(step) {
                    messages.push(message(key, fact.clone(), messages.len()));
                }
            }
        }
    }
    messages
}

fn message(order: &OrderKey, fact: Fact, number: usize) -> Message {
    let source = matches!(fact, Fact::Ipn(_)).then(|| NoticeSource {
        profile: ProfileStamp {
            partner: PartnerCode::parse("acme").expect("a partner code"),
            version: 1,
            digest: Digest::of_bytes(b"profile"),
        },
        key_id: KeyId::parse("k1").expect("a key id"),
        request: RecordedRequest {
            target: "/api/payment/ipn".to_owned(),
            ..RecordedRequest::default()
        },
        released: None,
    });
    let number = i64::try_from(number).expect("it is small");
    let record = FactRecord {
        order: order.clone(),
        fact,
        request_id: RequestId::new(uuid::Uuid::from_u128(number.unsigned_abs().into())),
        received_at: minute(0).plus_ms(number),
        source,
    };
    let value = Record::of_fact(record, b"{}".to_vec()).encode();
    Message { key: order.to_string(), event: None, value, mac: None }
}
