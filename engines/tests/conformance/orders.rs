//! The guarantees of `OrderStore` for rows, progress and claims. Views are in `scans`.

use std::sync::Arc;

use payfold_engines::EngineError;
use payfold_engines::orders::{Claimed, Commit, Folded, OrderStore, Progress, ViewEntry};
use payfold_schemas::digest::Digest;
use payfold_schemas::order::Order;
use payfold_schemas::time::Time;

use crate::bed::{Bed, at, claim_key, key, order, orders, soon};

const LOG: [u8; 16] = [7; 16];

fn folded(offset: u64) -> Folded {
    Folded::new(at(offset), Digest::of_bytes(&offset.to_le_bytes()))
}

/// The commit of a batch that ends at `offset`.
fn commit(rows: &[Order], offset: u64) -> Commit {
    let created = ViewEntry::Created(Time::from_unix_ms(1));
    let views = rows.iter().map(|row| (row.key.clone(), created.clone())).collect();
    let orders = rows.iter().cloned().map(Arc::new).collect();
    Commit { orders, views, folded: vec![folded(offset)], log_id: LOG }
}

async fn put(store: &dyn OrderStore, rows: &[Order], offset: u64) {
    soon(store.commit(commit(rows, offset))).await.expect("committed");
}

async fn get(store: &dyn OrderStore, name: &str) -> Option<Order> {
    soon(store.load(vec![key(name)])).await.expect("loaded").pop().expect("one per key")
}

/// Rows come in the order of the keys, `None` for a missing row, and twice for a key that is given
/// twice.
pub async fn loads_in_the_order_asked(bed: &dyn Bed) {
    let store = orders(bed).await;
    let (a, b) = (order("p/M/a", 1), order("p/M/b", 2));
    put(&*store, &[b.clone(), a.clone()], 2).await;
    let keys = ["p/M/b", "p/M/none", "p/M/a", "p/M/b", "p/N/a"].map(key).to_vec();
    let rows = soon(store.load(keys)).await.expect("loaded");
    assert_eq!(rows, [Some(b.clone()), None, Some(a), Some(b), None]);
}

/// Rows and progress are there when the store is opened again; a new store has no progress.
pub async fn keeps_what_it_committed(bed: &dyn Bed) {
    let first = orders(bed).await;
    assert_eq!(soon(first.progress()).await, Ok(None));
    let row = order("p/M/a", 3);
    put(&*first, std::slice::from_ref(&row), 3).await;
    drop(first);
    let again = orders(bed).await;
    assert_eq!(get(&*again, "p/M/a").await, Some(row));
    let progress = Progress { log_id: LOG, folded: vec![folded(3)] };
    assert_eq!(soon(again.progress()).await, Ok(Some(progress)));
}

/// Repeating a commit changes nothing; a newer commit replaces the row.
pub async fn repeats_a_commit(bed: &dyn Bed) {
    let store = orders(bed).await;
    let row = order("p/M/a", 1);
    put(&*store, std::slice::from_ref(&row), 1).await;
    put(&*store, std::slice::from_ref(&row), 1).await;
    assert_eq!(get(&*store, "p/M/a").await, Some(row));
    let newer = order("p/M/a", 2);
    put(&*store, std::slice::from_ref(&newer), 2).await;
    assert_eq!(get(&*store, "p/M/a").await, Some(newer));
}

/// A late commit of an older batch replaces no newer row, and progress does not go back.
pub async fn never_goes_back(bed: &dyn Bed) {
    let store = orders(bed).await;
    let newer = order("p/M/a", 9);
    put(&*store, std::slice::from_ref(&newer), 9).await;
    let other = order("p/M/b", 4);
    put(&*store, &[order("p/M/a", 5), other.clone()], 5).await;
    assert_eq!(get(&*store, "p/M/a").await, Some(newer));
    assert_eq!(get(&*store, "p/M/b").await, Some(other));
    let progress = soon(store.progress()).await.expect("read").expect("there");
    assert_eq!(progress.folded, [folded(9)]);
}

/// A commit from another log, or with another record at the same position, changes nothing at all.
pub async fn refuses_another_log(bed: &dyn Bed) {
    let store = orders(bed).await;
    put(&*store, &[order("p/M/a", 1)], 1).await;
    let mut foreign = commit(&[order("p/M/b", 2)], 2);
    foreign.log_id = [8; 16];
    let mut rewritten = commit(&[order("p/M/b", 1)], 1);
    rewritten.folded[0].digest = Digest::of_bytes(b"another");
    for bad in [foreign, rewritten] {
        let refused = soon(store.commit(bad)).await;
        assert!(matches!(refused, Err(EngineError::Corrupt(_))), "{refused:?}");
        assert_eq!(get(&*store, "p/M/b").await, None, "a refused commit leaves nothing behind");
    }
    put(&*store, &[order("p/M/b", 2)], 2).await;
}

async fn claim(store: &dyn OrderStore, key: &str, record: &str) -> Claimed {
    soon(store.claim(claim_key(key), record.as_bytes().to_vec())).await.expect("answered")
}

/// The first caller with a key gets `Mine`, every later one the first caller's record, also after
/// the store is opened again.
pub async fn claims_once(bed: &dyn Bed) {
    let store = orders(bed).await;
    let taken = Claimed::Taken(b"first".to_vec());
    let known = async |store: &dyn OrderStore| soon(store.claimed(claim_key("shop/k"))).await;
    assert_eq!(known(&*store).await, Ok(None));
    assert_eq!(claim(&*store, "shop/k", "first").await, Claimed::Mine);
    assert_eq!(claim(&*store, "shop/k", "second").await, taken);
    assert_eq!(known(&*store).await, Ok(Some(b"first".to_vec())));
    assert_eq!(claim(&*store, "shop/K", "first").await, Claimed::Mine, "keys differ by case");
    drop(store);
    let again = orders(bed).await;
    assert_eq!(known(&*again).await, Ok(Some(b"first".to_vec())));
    assert_eq!(claim(&*again, "shop/k", "first").await, taken, "even the first itself");
    assert_eq!(claim(&*again, "shop/other", "x").await, Claimed::Mine);
}

/// Of many callers at once with one key, one gets `Mine` and the others get its record.
pub async fn claims_once_of_many(bed: &dyn Bed) {
    let store = orders(bed).await;
    for round in 0..20 {
        let key = format!("shop/{round}");
        let records: Vec<String> = (0..16).map(|n| format!("record {n}")).collect();
        let all = records.iter().map(|record| claim(&*store, &key, record));
        let all = futures_util::future::join_all(all).await;
        let mine: Vec<usize> = (0..16).filter(|n| all[*n] == Claimed::Mine).collect();
        assert_eq!(mine.len(), 1, "{all:?}");
        let taken = Claimed::Taken(records[mine[0]].clone().into_bytes());
        assert!(all.iter().all(|one| *one == Claimed::Mine || *one == taken), "{all:?}");
    }
}
