//! Tests of a CQL store with several writers: write timestamps come from log positions, not clocks.

use payfold_engines::EngineError;
use payfold_engines::orders::cql::CqlOrders;
use payfold_engines::orders::{Claimed, Commit, Folded, OrderStore, Scan, ViewEntry};
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{OrderKey, Reference};
use payfold_schemas::order::Order;
use payfold_schemas::position::Position;
use payfold_schemas::time::Time;

use crate::bed::{claim_key, key, order, soon};
use crate::cql::Keyspace;

const LOG: [u8; 16] = [7; 16];

/// The commit of a batch that ends with this order.
fn ending(order: &Order) -> Commit {
    let digest = Digest::of_bytes(&order.position.offset.to_le_bytes());
    let folded = vec![Folded::new(order.position, digest)];
    Commit { orders: vec![order.clone().into()], folded, log_id: LOG, ..Commit::default() }
}

async fn put(store: &CqlOrders, order: &Order) {
    soon(store.commit(ending(order))).await.expect("committed");
}

async fn get(store: &CqlOrders, name: &str) -> Option<Order> {
    soon(store.load(vec![key(name)])).await.expect("loaded").remove(0)
}

#[tokio::test]
async fn a_zombies_late_commit_loses_in_any_order_of_arrival() {
    let Some(bed) = Keyspace::made().await else { return };
    let (owner, zombie) = (bed.open().await, bed.open().await);
    put(&zombie, &order("p/M/early", 3)).await;
    let (newer, older) = (order("p/M/a", 9), order("p/M/a", 5));
    put(&owner, &newer).await;
    put(&zombie, &older).await;
    let (newer_b, older_b) = (order("p/M/b", 12), order("p/M/b", 11));
    put(&zombie, &older_b).await;
    put(&owner, &newer_b).await;
    for store in [&owner, &zombie] {
        assert_eq!(get(store, "p/M/a").await.as_ref(), Some(&newer));
        assert_eq!(get(store, "p/M/b").await.as_ref(), Some(&newer_b));
        let progress = soon(store.progress()).await.expect("read").expect("there");
        assert_eq!(progress.folded, ending(&newer_b).folded);
    }
}

#[tokio::test]
async fn a_later_log_epoch_wins_whatever_the_offsets_and_each_partition_has_its_progress() {
    let Some(bed) = Keyspace::made().await else { return };
    let store = bed.open().await;
    let old = order("p/M/a", 1_000);
    let grown = Position { partition: 1 << 16 | 2, offset: 1 };
    let new = Order { position: grown, version: 1_001, ..old.clone() };
    let mut both = ending(&old);
    let other = Folded { position: Position { partition: 7, offset: 4 }, ..both.folded[0] };
    both.folded.push(other);
    soon(store.commit(ending(&new))).await.expect("committed");
    soon(store.commit(both.clone())).await.expect("committed");
    assert_eq!(get(&store, "p/M/a").await, Some(new.clone()));
    let progress = soon(store.progress()).await.expect("read").expect("there");
    assert_eq!(progress.folded, [both.folded[0], other, ending(&new).folded[0]]);

    let beyond = Order { position: Position { partition: 64 << 16, offset: 1 }, ..old };
    let refused = soon(store.commit(ending(&beyond))).await;
    assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
}

#[tokio::test]
async fn only_claims_use_a_clock() {
    let Some(bed) = Keyspace::made().await else { return };
    let store = bed.open().await;
    let row = order("p/M/a", 41);
    let reference = Reference::parse("r").expect("a reference");
    let entries = [
        ViewEntry::Deadline(row.first_seen),
        ViewEntry::Created(row.first_seen),
        ViewEntry::Reference(reference),
    ];
    let views = entries.map(|entry| (row.key.clone(), entry)).into();
    let commit = Commit { views, ..ending(&row) };
    soon(store.commit(commit)).await.expect("committed");
    let session = bed.session().await;
    for (cell, table) in [("row", "orders_g1"), ("folded", "progress_g1")] {
        let rows =
            session.query_unpaged(format!("SELECT writetime({cell}) FROM {table}"), ()).await;
        let rows = rows.expect("read").into_rows_result().expect("rows");
        assert_eq!(rows.single_row::<(i64,)>().expect("one"), (42,), "{table}");
    }
    // A row of key columns only has no `writetime`, so a delete with the expected timestamp checks
    // it.
    for (table, which) in [
        ("view_created_g1", "bucket = 0 AND shard = ?"),
        ("view_deadline_g1", "bucket = 0 AND shard = ?"),
        ("view_reference_g1", "account = 'p/M' AND reference = 'r'"),
        ("buckets_g1", "name IN ('created', 'deadline')"),
    ] {
        let count = async || {
            let rows = session.query_unpaged(format!("SELECT count(*) FROM {table}"), ()).await;
            let rows = rows.expect("counted").into_rows_result().expect("rows");
            rows.single_row::<(i64,)>().expect("one").0
        };
        assert!(count().await > 0, "{table}");
        for shard in 0..8 {
            let which = which.replace('?', &shard.to_string());
            let delete = format!("DELETE FROM {table} USING TIMESTAMP 1 WHERE {which}");
            session.query_unpaged(delete, ()).await.expect("deleted");
        }
        assert_eq!(count().await, 0, "{table} was written later than at 1");
    }
}

#[tokio::test]
async fn a_claim_raced_by_two_stores_is_granted_to_one() {
    let Some(bed) = Keyspace::made().await else { return };
    let stores = [bed.open().await, bed.open().await];
    for round in 0..20 {
        let claims = (0..16).map(|n| {
            let (key, record) =
                (claim_key(&format!("shop/{round}")), format!("record {n}").into_bytes());
            soon(stores[n % 2].claim(key, record))
        });
        let all = futures_util::future::join_all(claims).await;
        let all: Vec<_> = all.into_iter().map(|one| one.expect("answered")).collect();
        let mine: Vec<_> = (0..16).filter(|n| all[*n] == Claimed::Mine).collect();
        assert_eq!(mine.len(), 1, "{all:?}");
        let taken = Claimed::Taken(format!("record {}", mine[0]).into_bytes());
        assert!(all.iter().all(|one| *one == Claimed::Mine || *one == taken), "{all:?}");
    }
}

/// Shards are merged in order even if one of them has nearly all entries, which hashing never does.
#[tokio::test]
async fn unevenly_filled_shards_are_scanned_in_order() {
    let Some(bed) = Keyspace::made().await else { return };
    let store = bed.open().await;
    let shard = |key: &OrderKey| Digest::of_bytes(key.to_string().as_bytes()).as_bytes()[0] % 8;
    let keys = || (0..).map(|n| key(&format!("p/M/{n}")));
    let crowd = keys().filter(|key| shard(key) == 3).take(100);
    let others = keys().filter(|key| shard(key) != 3).take(30);
    let views: Vec<_> = (1..)
        .zip(crowd.chain(others))
        .map(|(ms, key)| (key, ViewEntry::Created(Time::from_unix_ms(ms))))
        .collect();
    let commit = Commit { views: views.clone().into(), log_id: LOG, ..Commit::default() };
    soon(store.commit(commit)).await.expect("committed");
    let (from, until) = (Time::from_unix_ms(0), Time::from_unix_ms(1_000));
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page =
            soon(store.scan(Scan::Created { from, until }, after, 40)).await.expect("a page");
        all.extend(page.entries);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(all, views);
}

/// Counts the entries that a scan finds for a reference.
async fn found(store: &CqlOrders, name: &str) -> usize {
    let key = key("p/M/a");
    let reference = Reference::parse(name).expect("a reference");
    let scan = Scan::Reference(key.partner, key.merchant_code, reference);
    soon(store.scan(scan, None, 9)).await.expect("a page").entries.len()
}

fn naming(name: &str, offset: u64) -> Commit {
    let row = order("p/M/a", offset);
    let entry = ViewEntry::Reference(Reference::parse(name).expect("a reference"));
    Commit { views: [(row.key.clone(), entry)].into(), ..ending(&row) }
}

#[tokio::test]
async fn an_entry_is_rewritten_only_if_it_failed() {
    let Some(bed) = Keyspace::made().await else { return };
    let (store, session) = (bed.open().await, bed.session().await);
    soon(store.commit(naming("r", 1))).await.expect("committed");
    assert_eq!(found(&store, "r").await, 1);
    session.query_unpaged("TRUNCATE view_reference_g1", ()).await.expect("emptied");
    soon(store.commit(naming("r", 2))).await.expect("committed");
    assert_eq!(found(&store, "r").await, 0, "it remembers that it was written");
    let another = bed.open().await;
    soon(another.commit(naming("r", 2))).await.expect("committed");
    assert_eq!(found(&store, "r").await, 1, "another process does not");

    session.query_unpaged("DROP TABLE view_reference_g1", ()).await.expect("dropped");
    match soon(store.commit(naming("s", 3))).await {
        Err(EngineError::Invalid(text)) => {
            assert!(text.contains("run `payfold schema apply`") && !text.contains('\n'), "{text}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(get(&store, "p/M/a").await, Some(order("p/M/a", 2)), "rows come after views");
    bed.make_tables().await;
    soon(store.commit(naming("s", 3))).await.expect("committed");
    assert_eq!(found(&store, "s").await, 1);
    assert_eq!(get(&store, "p/M/a").await, Some(order("p/M/a", 3)));
}

#[tokio::test]
async fn a_store_that_has_not_read_its_progress_refuses_a_commit_from_another_log() {
    let Some(bed) = Keyspace::made().await else { return };
    let (first, second) = (bed.open().await, bed.open().await);
    put(&first, &order("p/M/a", 4)).await;
    let foreign = Commit { log_id: [8; 16], ..ending(&order("p/M/b", 5)) };
    let mut rewritten = ending(&order("p/M/b", 4));
    rewritten.folded[0].digest = Digest::of_bytes(b"another");
    for bad in [foreign, rewritten] {
        let refused = soon(second.commit(bad)).await;
        assert!(matches!(refused, Err(EngineError::Corrupt(_))), "{refused:?}");
        assert_eq!(get(&second, "p/M/b").await, None);
    }
}

#[tokio::test]
async fn undecodable_cells_are_corrupt() {
    let Some(bed) = Keyspace::made().await else { return };
    let (store, session) = (bed.open().await, bed.session().await);
    for insert in [
        "INSERT INTO orders_g1 (key, row) VALUES ('p/M/a', 0xff)",
        "INSERT INTO orders_g1 (key) VALUES ('p/M/b')",
        "INSERT INTO progress_g1 (topic, partition, folded) VALUES ('intake', 0, 0x01)",
        "INSERT INTO view_reference_g1 (account, reference, order_id) VALUES ('p/M', 'r', 'no id')",
    ] {
        session.query_unpaged(insert, ()).await.expect("inserted");
    }
    let key_a = key("p/M/a");
    let reference = Reference::parse("r").expect("a reference");
    let scan = Scan::Reference(key_a.partner.clone(), key_a.merchant_code.clone(), reference);
    let met = [
        soon(store.load(vec![key_a])).await.err(),
        soon(store.load(vec![key("p/M/b")])).await.err(),
        soon(store.progress()).await.err(),
        soon(store.scan(scan, None, 9)).await.err(),
    ];
    for error in met {
        assert!(matches!(error, Some(EngineError::Corrupt(_))), "{error:?}");
    }
}
