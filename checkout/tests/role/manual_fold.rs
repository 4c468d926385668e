//! A minimal fold for these tests: a role's crate may not depend on the projector. Like the
//! projector it publishes an event first and commits the row after that.

use std::collections::HashMap;
use std::sync::Arc;

use payfold_engines::log::{EventLog, Message, Start, Topic};
use payfold_engines::orders::{Commit, OrderStore, ViewEntry};
use payfold_schemas::event::{EventAttributes, ORDER_CHANGED_TYPE, order_event_id};
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::ipn::{Ipn, Status};
use payfold_schemas::order::{Known, KnownFacts, KnownIpn, Order, OrderState, Summary};
use payfold_schemas::position::Position;
use payfold_schemas::record::decode_fact;
use payfold_schemas::time::Time;
use serde_json::json;

use crate::world::NOW;

/// Folds everything in intake, and what is appended later, until dropped.
pub struct Folding(tokio::task::JoinHandle<()>);

impl Drop for Folding {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub fn start(log: Arc<dyn EventLog>, store: Arc<dyn OrderStore>) -> Folding {
    Folding(tokio::spawn(async move {
        let mut orders = HashMap::<OrderKey, Order>::new();
        let mut records =
            log.subscribe(Topic::Intake, "manual fold", Start::After(Vec::new())).await.unwrap();
        while let Ok(batch) = records.next_batch(64).await {
            for delivered in batch {
                let record = decode_fact(&delivered.value).unwrap();
                let key = record.order.clone();
                let order = orders
                    .entry(key)
                    .or_insert_with(|| new_order(&record.order, record.received_at));
                order.position = delivered.position;
                if add_fact(order, &record.fact, delivered.position) {
                    order.version += 1;
                    publish_event(&*log, order).await;
                }
                commit_order(&*store, order).await;
            }
        }
    }))
}

/// A row of a REQUESTED order in version 1, without its facts.
pub fn requested_order(key: &OrderKey) -> Order {
    let mut order = new_order(key, NOW);
    (order.version, order.summary.state) = (1, OrderState::Requested);
    order
}

fn new_order(key: &OrderKey, first_seen: Time) -> Order {
    Order {
        key: key.clone(),
        version: 0,
        first_seen,
        position: Position::default(),
        summary: Summary::new(OrderState::Unmatched),
        facts: KnownFacts::default(),
    }
}

/// Adds one fact; returns whether it is new.
fn add_fact(order: &mut Order, fact: &Fact, position: Position) -> bool {
    let (facts, summary) = (&mut order.facts, &mut order.summary);
    match fact {
        Fact::CreateRequested(create) => {
            summary.reference = Some(create.reference.clone());
            summary.attempt = Some(create.attempt);
            summary.amount = Some(create.amount.minor());
            summary.currency = Some(create.currency);
            summary.deadline = Some(create.deadline);
            if summary.state == OrderState::Unmatched {
                summary.state = OrderState::Requested;
            }
            insert_new(&mut facts.creates, create.clone(), position)
        }
        Fact::SessionOpened(session) => {
            summary.session_ref = Some(session.provider_ref.clone());
            summary.deadline = Some(session.deadline);
            summary.state = OrderState::Pending;
            insert_new(&mut facts.sessions, session.clone(), position)
        }
        Fact::CreateFailed(failed) => {
            summary.state = OrderState::Failed;
            insert_new(&mut facts.create_failures, failed.clone(), position)
        }
        Fact::Ipn(ipn) if ipn.status == Status::Success => {
            summary.state = OrderState::Paid;
            summary.fulfil = true;
            summary.paid_amount = ipn.money.amount.minor();
            summary.paid_at = ipn.money.paid_at;
            summary.payment_ref = Some(ipn.provider_ref.clone());
            let Ipn { provider_ref, status, money, policy, .. } = ipn.clone();
            let known = KnownIpn { provider_ref, status, money, policy };
            insert_new(&mut facts.ipns, known, position)
        }
        other => panic!("these tests do not fold {other:?}"),
    }
}

fn insert_new<T: PartialEq>(known: &mut Vec<Known<T>>, content: T, position: Position) -> bool {
    let is_new = !known.iter().any(|one| one.content == content);
    if is_new {
        known.push(Known { content, position });
    }
    is_new
}

/// Publishes the event of an order's version.
pub async fn publish_event(log: &dyn EventLog, order: &Order) {
    let key = &order.key;
    let event = EventAttributes {
        id: order_event_id(key, 1, order.version),
        kind: ORDER_CHANGED_TYPE,
        time: order.first_seen,
    };
    let data = json!({
        "partner": key.partner, "merchantCode": key.merchant_code, "orderId": key.order_id,
        "epoch": 1, "version": order.version, "state": order.summary.state,
    });
    let value = data.to_string().into_bytes();
    let message = Message { key: key.to_message_key(), event: Some(event), value, mac: None };
    log.append(Topic::Orders, message).await.unwrap();
}

/// Commits a row and its view entry.
pub async fn commit_order(store: &dyn OrderStore, order: &Order) {
    let reference = order.summary.reference.clone();
    let views = reference.map(|r| (order.key.clone(), ViewEntry::Reference(r)));
    let views = views.into_iter().collect();
    let commit = Commit { orders: vec![order.clone().into()], views, ..Commit::default() };
    store.commit(commit).await.unwrap();
}
