//! How long the CQL store takes, printed for people: `cargo test -p payfold-engines --test
//! conformance figures -- --ignored --nocapture`. There is no pass or fail. Only Cassandra has the
//! request counter that this reads.

use std::sync::Arc;
use std::time::{Duration, Instant};

use payfold_engines::orders::cql::CqlOrders;
use payfold_engines::orders::{Commit, Folded, OrderStore, Scan, ViewEntry};
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{Nonce, ProviderRef, Reference};
use payfold_schemas::order::Order;
use payfold_schemas::time::Time;

use scylla::client::session::Session;

use crate::bed::{claim_key, order, soon};
use crate::cql::Keyspace;

const ORDERS: usize = 2_000;

#[expect(clippy::print_stdout, reason = "figures are printed")]
fn print(what: &str, started: Instant) {
    println!("{what}: {:.0} ms", started.elapsed().as_secs_f64() * 1e3);
}

/// The requests that the database has counted on all open connections.
async fn requests(session: &Session) -> i64 {
    let rows = session.query_unpaged("SELECT request_count FROM system_views.clients", ()).await;
    let rows = rows.expect("read").into_rows_result().expect("rows");
    rows.rows::<(i64,)>().expect("numbers").map(|row| row.expect("a number").0).sum()
}

/// Makes a commit of orders that are in every view.
fn batch(name: &str, first: u64) -> Commit {
    let now = Time::from_unix_ms(1_769_853_600_000);
    let made = |n| Arc::new(order(&format!("momo/M1/{name}-{n}"), n));
    let orders: Vec<Arc<Order>> = (first..).take(ORDERS).map(made).collect();
    let views = (0..).zip(&orders).flat_map(|(n, order)| {
        let text = format!("{name}-{n}");
        [
            ViewEntry::Created(now.plus_ms(n)),
            ViewEntry::Deadline(now.plus_ms(n + 1_800_000)),
            ViewEntry::Reference(Reference::parse(&text).expect("a reference")),
            ViewEntry::ProviderRef(ProviderRef::parse(&text).expect("a ref")),
            ViewEntry::Nonce(Nonce::parse(&text).expect("a nonce"), Digest::of_bytes(b"x")),
        ]
        .map(|entry| (order.key.clone(), entry))
    });
    let last = orders.last().expect("there are some").position;
    let folded = vec![Folded::new(last, Digest::of_bytes(b"last"))];
    Commit { views: views.collect(), orders, folded, log_id: [7; 16] }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prints figures"]
async fn figures() {
    let Some(bed) = Keyspace::unmade() else { return };
    let started = Instant::now();
    bed.make_tables().await;
    print("making a keyspace and 9 tables", started);
    let started = Instant::now();
    let store: CqlOrders = bed.open().await;
    print("opening the store", started);
    let session = bed.session().await;
    for round in 0..4 {
        let commit = batch("a", 1 + 2_000 * round);
        let keys: Vec<_> = commit.orders.iter().map(|order| order.key.clone()).collect();
        let before = requests(&session).await;
        let started = Instant::now();
        soon(store.commit(commit.clone())).await.expect("committed");
        print("a commit of 2,000 orders with 5 view entries each", started);
        // The counting itself is one request.
        println!("  requests: {}", requests(&session).await - before - 1);
        let started = Instant::now();
        soon(store.commit(commit)).await.expect("committed");
        print("  the same again, its views remembered", started);
        let started = Instant::now();
        soon(store.load(keys)).await.expect("loaded");
        print("  a load of 2,000 keys", started);
        let started = Instant::now();
        let (from, until) = (Time::from_unix_nanos(i64::MIN), Time::from_unix_nanos(i64::MAX));
        let page = soon(store.scan(Scan::Created { from, until }, None, 1_000)).await;
        assert_eq!(page.expect("a page").entries.len(), 1_000);
        print("  a page of 1,000", started);
    }
    let mut one = batch("b", 100_000);
    one.orders.truncate(1);
    one.views = one.views[..5].into();
    let started = Instant::now();
    soon(store.commit(one)).await.expect("committed");
    print("a commit of one order", started);
    let (started, mut slowest) = (Instant::now(), Duration::ZERO);
    for n in 0..100 {
        let begun = Instant::now();
        soon(store.claim(claim_key(&format!("shop/{n}")), vec![1; 300])).await.expect("claimed");
        slowest = slowest.max(begun.elapsed());
    }
    print(&format!("100 claims one after the other, the slowest {slowest:?}"), started);
}
