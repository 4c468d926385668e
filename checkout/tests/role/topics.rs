//! The topics over HTTP: CloudEvents of the shop's own accounts, from any position, with or without
//! a wait.

use std::time::{Duration, Instant};

use payfold_engines::log::{Message, Topic};
use payfold_schemas::event::EventAttributes;
use payfold_testing::waits::Stopwatch;
use serde_json::{Value, json};

use crate::manual_fold;
use crate::partner::Partner;
use crate::world::{Engines, NOW, World, key, read_answer};

async fn publish_order(engines: &Engines, order: &str, version: u64) {
    let mut made = manual_fold::requested_order(&key(order));
    made.version = version;
    manual_fold::publish_event(&*engines.log, &made).await;
}

/// The lines of an answer, and its `Payfold-Next`.
async fn read_lines(world: &World, query: &str) -> (Vec<Value>, String) {
    let response = world.get(&format!("/v1/topics/{query}")).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "application/x-ndjson");
    let next = response.headers()["payfold-next"].to_str().unwrap().to_owned();
    let text = response.text().await.unwrap();
    assert!(text.is_empty() || text.ends_with('\n'));
    (text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), next)
}

#[actix_web::test]
async fn events_are_read_from_any_position() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let world = World::new(&engines, &partner).await;
    assert_eq!(read_lines(&world, "orders").await, (vec![], "0-0".to_owned()));
    for n in 1..=9 {
        publish_order(&engines, if n % 3 == 0 { "acme/OTHER/b" } else { "acme/SHOP/a" }, n).await;
    }
    let (all, next) = read_lines(&world, "orders").await;
    assert_eq!((all.len(), next.as_str()), (6, "0-9"));
    let first = json!({
        "specversion": "1.0", "id": "acme/SHOP/a/1/1", "source": "payfold",
        "type": "payfold.order.changed.v1", "subject": "acme/SHOP/a", "time": NOW.to_string(),
        "datacontenttype": "application/json", "position": "0-1",
        "data": {
            "partner": "acme", "merchantCode": "SHOP", "orderId": "a", "epoch": 1,
            "version": 1,
            "state": "REQUESTED",
        },
    });
    assert_eq!(all[0], first);

    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let (some, next) = read_lines(&world, &format!("orders?limit=1&after={after}")).await;
        if next == after {
            break;
        }
        assert!(some.len() <= 1);
        seen.extend(some);
        after = next;
    }
    assert_eq!(seen, all, "page by page it is the same");
    assert_eq!(
        read_lines(&world, "orders?after=0-8").await,
        (vec![], "0-9".to_owned()),
        "filtered"
    );
    assert_eq!(read_lines(&world, "orders?after=7").await.0, vec![all[5].clone()]);
}

#[actix_web::test]
async fn findings_are_filtered_by_account() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let world = World::new(&engines, &partner).await;
    for (id, data) in [
        ("mine", json!({"partner": "acme", "merchantCode": "SHOP", "code": "X"})),
        ("theirs", json!({"partner": "acme", "merchantCode": "OTHER"})),
        ("of no account", json!({"code": "TOTALS"})),
    ] {
        let event =
            EventAttributes { id: id.to_owned(), kind: "payfold.finding.changed.v1", time: NOW };
        let value = data.to_string().into_bytes();
        let message = Message { key: id.to_owned(), event: Some(event), value, mac: None };
        engines.log.append(Topic::Findings, message).await.unwrap();
    }
    let (seen, next) = read_lines(&world, "findings").await;
    let ids: Vec<_> = seen.iter().map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!((ids, next.as_str()), (vec!["mine"], "0-3"));
}

#[actix_web::test]
async fn a_wait_ends_with_the_first_line_or_at_its_timeout() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let world = World::new(&engines, &partner).await;
    let (watch, started) = (Stopwatch::start(), Instant::now());
    assert_eq!(read_lines(&world, "orders?wait=1").await, (vec![], "0-0".to_owned()));
    assert!(started.elapsed() >= Duration::from_secs(1));
    let (waited, ()) = futures_util::join!(read_lines(&world, "orders?wait=30&after=0-0"), async {
        // Another shop's event does not end the wait, and is not read again.
        publish_order(&engines, "acme/OTHER/b", 1).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        publish_order(&engines, "acme/SHOP/a", 1).await;
    });
    assert_eq!((waited.0.len(), waited.1.as_str()), (1, "0-2"));
    watch.assert_within(Duration::from_secs(29), "an answer before the end of its wait");
}

#[actix_web::test]
async fn a_bad_position_is_refused() {
    let (engines, partner) = (Engines::new(), Partner::opens().await);
    let world = World::new(&engines, &partner).await;
    publish_order(&engines, "acme/SHOP/a", 1).await;
    for after in ["0-2", "1-0", "x", "0-1,0-1", "-1", "0-1-2", "99999999999999999999"] {
        let path = format!("/v1/topics/orders?after={after}");
        let (status, body) = read_answer(world.get(&path).send().await.unwrap()).await;
        assert_eq!((status, body["code"].as_str()), (400, Some("bad_position")), "{after}");
    }
    for topic in ["intake", "quarantine", "Orders"] {
        let (status, body) =
            read_answer(world.get(&format!("/v1/topics/{topic}")).send().await.unwrap()).await;
        assert_eq!((status, body["code"].as_str()), (404, Some("not_found")), "{topic}");
    }
}
