//! The guarantees of builds: several folds of the same log, walked in one order and dropped
//! separately.

use std::sync::Arc;

use payfold_engines::orders::{Commit, Cursor, Folded, OrderStore, Scan, ViewEntry};
use payfold_schemas::digest::Digest;
use payfold_schemas::order::Order;
use payfold_schemas::publication::Publication;
use payfold_schemas::time::Time;

use crate::bed::{Bed, at, claim_key, key, order, orders, soon};

const LOG: [u8; 16] = [7; 16];

async fn put(store: &dyn OrderStore, rows: &[Order], offset: u64, publication: Publication) {
    let digest = Digest::of_bytes(&offset.to_le_bytes());
    let created = ViewEntry::Created(Time::from_unix_ms(1));
    let commit = Commit {
        orders: rows.iter().cloned().map(Arc::new).collect(),
        views: rows.iter().map(|row| (row.key.clone(), created.clone())).collect(),
        folded: vec![Folded { publication, ..Folded::new(at(offset), digest) }],
        log_id: LOG,
    };
    soon(store.commit(commit)).await.expect("committed");
}

/// The names of the orders that a walk visits, in pages of `limit`.
async fn walk(store: &dyn OrderStore, limit: usize) -> Vec<String> {
    let (mut names, mut after): (Vec<String>, Option<Cursor>) = (Vec::new(), None);
    loop {
        let rows = soon(store.walk(after, limit)).await.expect("a page");
        assert!(rows.len() <= limit, "a page has what was asked for at most");
        let Some(last) = rows.last() else { return names };
        after = Some(last.cursor());
        for row in &rows {
            let order = row.order().expect("a row decodes");
            assert_eq!(order.key.to_string(), row.key);
            names.push(row.key.clone());
        }
    }
}

/// Each build has its own rows, views and progress, and keeps them when the store is opened again.
pub async fn are_apart(bed: &dyn Bed) {
    let first = orders(bed).await;
    let second = soon(first.build(2)).await.expect("it is made");
    let later = Publication { build: 2, epoch: 3 };
    put(&*first, &[order("p/M/a", 1)], 1, Publication::FIRST).await;
    assert_eq!(soon(second.progress()).await, Ok(None));
    put(&*second, &[order("p/M/a", 2), order("p/M/b", 3)], 3, later).await;
    drop((first, second));
    let first = orders(bed).await;
    let second = soon(first.build(2)).await.expect("it is there");
    let again = soon(second.build(1)).await.expect("each leads to every other");
    for (store, offset, publication, b_is_there) in
        [(&again, 1, Publication::FIRST, false), (&second, 3, later, true)]
    {
        let progress = soon(store.progress()).await.expect("read").expect("there");
        let [folded] = progress.folded[..] else { panic!("one partition: {progress:?}") };
        assert_eq!((folded.position.offset, folded.publication), (offset, publication));
        let rows = soon(store.load(vec![key("p/M/a"), key("p/M/b")])).await.expect("loaded");
        assert_eq!(rows[0].as_ref().map(|row| row.version), Some(offset.min(2)));
        assert_eq!(rows[1].is_some(), b_is_there);
        let scan = Scan::Created { from: Time::from_unix_ms(0), until: Time::from_unix_ms(9) };
        let listed = soon(store.scan(scan, None, 9)).await.expect("scanned");
        assert_eq!(listed.entries.len(), 1 + usize::from(b_is_there));
    }
    soon(first.claim(claim_key("shop/k"), b"one".to_vec())).await.expect("claimed");
    assert_eq!(soon(second.claimed(claim_key("shop/k"))).await, Ok(Some(b"one".to_vec())));
}

/// A walk visits every row once, for any page size, and visits two builds in the same order.
pub async fn are_walked_in_one_order(bed: &dyn Bed) {
    let first = orders(bed).await;
    let second = soon(first.build(2)).await.expect("it is made");
    assert_eq!(walk(&*first, 3).await, [""; 0]);
    let names: Vec<String> = (0..40).map(|n| format!("p/M/{}", n * 7 % 40)).collect();
    let rows: Vec<Order> = (names.iter().zip(1..)).map(|(name, n)| order(name, n)).collect();
    put(&*first, &rows, 40, Publication::FIRST).await;
    let newest_first: Vec<Order> = rows.iter().rev().cloned().collect();
    put(&*second, &newest_first, 40, Publication::FIRST).await;
    let whole = walk(&*first, 1_000).await;
    let mut sorted = whole.clone();
    sorted.sort();
    let mut expected = names;
    expected.sort();
    assert_eq!(sorted, expected, "every row once");
    for limit in [1, 3, 40] {
        assert_eq!(walk(&*first, limit).await, whole);
        assert_eq!(walk(&*second, limit).await, whole);
    }
}

/// A dropped build leaves nothing, and is empty when it is made again. Other builds keep
/// their rows.
pub async fn are_thrown_away(bed: &dyn Bed) {
    let first = orders(bed).await;
    let second = soon(first.build(2)).await.expect("it is made");
    put(&*first, &[order("p/M/a", 1)], 1, Publication::FIRST).await;
    put(&*second, &[order("p/M/a", 1)], 1, Publication::FIRST).await;
    drop(second);
    soon(first.drop_build(2)).await.expect("it is thrown away");
    soon(first.drop_build(2)).await.expect("there is nothing to do");
    assert_eq!(walk(&*first, 9).await, ["p/M/a"]);
    let again = soon(first.build(2)).await.expect("it is made again");
    assert_eq!(soon(again.progress()).await, Ok(None));
    assert_eq!(walk(&*again, 9).await, [""; 0]);
    // The first build can be dropped as well, once another one is published.
    put(&*again, &[order("p/M/b", 2)], 2, Publication::FIRST).await;
    soon(again.drop_build(1)).await.expect("it is thrown away");
    drop((first, again));
    let first = orders(bed).await;
    assert_eq!(soon(first.progress()).await, Ok(None));
    assert_eq!(walk(&*first, 9).await, [""; 0]);
    let second = soon(first.build(2)).await.expect("it is there");
    assert_eq!(walk(&*second, 9).await, ["p/M/b"]);
}
