//! The guarantees of `OrderStore::scan` and `OrderStore::money`.

use std::sync::Arc;

use payfold_engines::EngineError;
use payfold_engines::orders::{Commit, Cursor, MoneyPage, OrderStore, Scan, ViewEntry, Window};
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Create;
use payfold_schemas::ids::{MerchantCode, Nonce, OrderKey, PartnerCode, ProviderRef, Reference};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::order::{Known, Order};
use payfold_schemas::order_money::OrderMoney;
use payfold_schemas::time::Time;

use crate::bed::{Bed, at, key, order, orders, soon};

type Entry = (OrderKey, ViewEntry);

fn entry(name: &str, view: &ViewEntry) -> Entry {
    (key(name), view.clone())
}

async fn add(store: &dyn OrderStore, views: Vec<Entry>) {
    let commit = Commit { views: views.into(), log_id: [7; 16], ..Commit::default() };
    soon(store.commit(commit)).await.expect("committed");
}

/// Walks a view to its end in pages of `limit`.
async fn walk(store: &dyn OrderStore, scan: &Scan, limit: usize) -> Vec<Entry> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = soon(store.scan(scan.clone(), after, limit)).await.expect("a page");
        assert!(page.entries.len() <= limit);
        all.extend(page.entries);
        assert!(all.len() < 1_000, "{scan:?} does not end");
        after = page.next;
        if after.is_none() {
            return all;
        }
    }
}

/// Asserts that a view yields `expected`, whatever the size of its pages.
async fn yields(store: &dyn OrderStore, scan: Scan, expected: &[Entry]) {
    for limit in [1, 2, 3, 100] {
        assert_eq!(walk(store, &scan, limit).await, expected, "{scan:?} by {limit}");
    }
}

/// Time views are sorted by time, then key; `from` is included and `until` is not.
pub async fn walks_times(bed: &dyn Bed) {
    let store = orders(bed).await;
    let time = Time::from_unix_ms;
    let (from, until) = (time(10), time(30));
    let views: [fn(Time) -> ViewEntry; 2] = [ViewEntry::Created, ViewEntry::Deadline];
    let scans = [Scan::Created { from, until }, Scan::Deadline { from, until }];
    let inside = |view: fn(Time) -> ViewEntry| {
        [("p/M/z", 10), ("p/A/b", 20), ("p/M/a", 20), ("p/M/c", 29)]
            .map(|(name, ms)| entry(name, &view(time(ms))))
    };
    for (view, scan) in views.into_iter().zip(scans) {
        let inside = inside(view);
        let mut written = inside.to_vec();
        written.push(entry("p/M/early", &view(time(9))));
        written.push(entry("p/M/late", &view(time(30))));
        written.reverse();
        add(&*store, written.clone()).await;
        add(&*store, written).await;
        yields(&*store, scan, &inside).await;
    }
    let mut newest_first = inside(ViewEntry::Created);
    newest_first.reverse();
    yields(&*store, Scan::Newest { from, until }, &newest_first).await;
}

/// A time view can be scanned from the first possible instant to the last, with many entries at one
/// instant or none for years.
pub async fn walks_any_stretch_of_time(bed: &dyn Bed) {
    let store = orders(bed).await;
    let minute = 60_000_000_000;
    let base = Time::parse("2026-01-31T10:00:00Z").expect("a time").unix_nanos();
    let dense = (0..200).map(|n| base + n % 5);
    let sparse = (1..60).map(|n| base + n * 37 * minute);
    let ends = [i64::MIN, -minute, -1, 0, i64::MAX - 1];
    let mut all: Vec<Entry> = (0..)
        .zip(dense.chain(sparse).chain(ends))
        .map(|(n, nanos)| {
            // As text, a key with M-x sorts before one with M.
            let merchant = ["M", "M-x", "M.x"][n % 3];
            let view = ViewEntry::Deadline(Time::from_unix_nanos(nanos));
            entry(&format!("p/{merchant}/{n}"), &view)
        })
        .collect();
    add(&*store, all.clone()).await;
    let created_at = |(key, view): Entry| match view {
        ViewEntry::Deadline(time) => (key, ViewEntry::Created(time)),
        other => (key, other),
    };
    add(&*store, all.iter().cloned().map(created_at).collect()).await;
    all.sort_by_key(|(key, view)| (view.clone(), key.to_string()));
    let (from, until) = (Time::from_unix_nanos(i64::MIN), Time::from_unix_nanos(i64::MAX));
    for limit in [7, 64, 500] {
        assert_eq!(walk(&*store, &Scan::Deadline { from, until }, limit).await, all, "by {limit}");
        let newest = walk(&*store, &Scan::Newest { from, until }, limit).await;
        let backwards: Vec<_> = all.iter().rev().cloned().map(created_at).collect();
        assert_eq!(newest, backwards, "the newest by {limit}");
    }
    let late = Time::from_unix_nanos(base + 2);
    let last = Time::from_unix_nanos(base + 37 * minute);
    let expected: Vec<_> = (all.iter())
        .filter(|(_, view)| (ViewEntry::Deadline(late)..ViewEntry::Deadline(last)).contains(view))
        .cloned()
        .collect();
    assert_eq!(expected.len(), 120);
    yields(&*store, Scan::Deadline { from: late, until: last }, &expected).await;
    let newest: Vec<_> = expected.into_iter().rev().map(created_at).collect();
    yields(&*store, Scan::Newest { from: late, until: last }, &newest).await;
    for (from, until) in [(last, late), (late, late)] {
        yields(&*store, Scan::Deadline { from, until }, &[]).await;
        yields(&*store, Scan::Newest { from, until }, &[]).await;
    }
}

/// Name views list the orders of one account under one name, each once, and no other account's.
pub async fn walks_names(bed: &dyn Bed) {
    let store = orders(bed).await;
    let partner = PartnerCode::parse("p").expect("a partner");
    let merchant = MerchantCode::parse("M").expect("a merchant");
    let reference = Reference::parse("basket 1").expect("a reference");
    let provider_ref = ProviderRef::parse("txn/1").expect("a ref");
    let kinds = [
        (
            ViewEntry::Reference(reference.clone()),
            ViewEntry::Reference(Reference::parse("basket 2").expect("a reference")),
            Scan::Reference(partner.clone(), merchant.clone(), reference),
        ),
        (
            ViewEntry::ProviderRef(provider_ref.clone()),
            ViewEntry::ProviderRef(ProviderRef::parse("txn/10").expect("a ref")),
            Scan::ProviderRef(partner.clone(), merchant.clone(), provider_ref),
        ),
    ];
    for (view, other, scan) in kinds {
        let inside = ["p/M/1", "p/M/2", "p/M/3", "p/M/4"].map(|name| entry(name, &view));
        let mut written = inside.to_vec();
        written.push(entry("p/M/5", &other));
        written.push(entry("p/N/6", &view));
        written.push(entry("q/M/7", &view));
        written.reverse();
        add(&*store, written.clone()).await;
        add(&*store, written).await;
        yields(&*store, scan, &inside).await;
    }
}

/// One nonce lists every (order, content) that carried it.
pub async fn walks_nonces(bed: &dyn Bed) {
    let store = orders(bed).await;
    let nonce = Nonce::parse("n-1").expect("a nonce");
    let view = |content: u8| ViewEntry::Nonce(nonce.clone(), Digest::from_bytes([content; 32]));
    let inside = [
        entry("p/M/2", &view(1)),
        entry("p/M/1", &view(2)),
        entry("p/M/3", &view(2)),
        entry("p/M/1", &view(3)),
    ];
    let mut written = inside.to_vec();
    written.push(entry("p/N/1", &view(1)));
    add(&*store, written.clone()).await;
    add(&*store, written).await;
    let key = key("p/M/1");
    yields(&*store, Scan::Nonce(key.partner, key.merchant_code, nonce), &inside).await;
}

/// Makes an order with a create request.
fn requested_order(name: &str, offset: u64) -> Order {
    let reference = Reference::parse(&format!("basket of {name}")).expect("a reference");
    let content = Create {
        amount: Amount::from_minor(100 + i64::try_from(offset).expect("small")).expect("an amount"),
        currency: Currency::parse("VND").expect("a currency"),
        reference: reference.clone(),
        attempt: 2,
        deadline: Time::from_unix_ms(77),
    };
    let mut order = order(name, offset);
    order.facts.creates.push(Known { content, position: at(offset) });
    order.summary.reference = Some(reference);
    order
}

/// A window lists one partner's orders, each once and as in its row, in the view's order.
pub async fn lists_money_of_a_window(bed: &dyn Bed) {
    let store = orders(bed).await;
    let time = Time::from_unix_ms;
    let (from, until) = (time(10), time(30));
    // Keys that sort before and after `p/`, and an entry without a row.
    let names = ["p/A/b", "o-p/M/a", "p-q/M/a", "p/M/a", "p0/M/a", "q/M/a", "p/M/no-row", "p/M/c"];
    let rows: Vec<Order> = (names.iter().zip(1..))
        .filter(|(name, _)| **name != "p/M/no-row")
        .map(|(name, offset)| requested_order(name, offset))
        .chain([requested_order("p/M/early", 20), requested_order("p/M/late", 21)])
        .collect();
    let created = |name: &str, ms| entry(name, &ViewEntry::Created(time(ms)));
    let mut views: Vec<Entry> = names
        .iter()
        .zip([10, 10, 11, 12, 12, 13, 14, 29])
        .map(|(name, ms)| created(name, ms))
        .collect();
    views.extend([created("p/M/early", 9), created("p/M/late", 30)]);
    let orders = rows.iter().cloned().map(Arc::new).collect();
    let commit = Commit { orders, views: views.into(), log_id: [7; 16], ..Commit::default() };
    soon(store.commit(commit)).await.expect("committed");

    let window = Window { partner: PartnerCode::parse("p").expect("a partner"), from, until };
    let page = |after, limit| soon(store.money(window.clone(), after, limit));
    let expected: Vec<OrderMoney> = ["p/A/b", "p/M/a", "p/M/c"]
        .map(|name| rows.iter().find(|row| row.key == key(name)).expect("a row").clone().into())
        .to_vec();
    for limit in [1, 2, 3, 7, 8, 100] {
        let (mut all, mut after, mut pages) = (Vec::new(), None, 0);
        loop {
            let MoneyPage { orders, next } = page(after, limit).await.expect("a page");
            assert!(orders.len() <= limit);
            all.extend(orders);
            pages += 1;
            after = next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(all, expected, "by {limit}");
        assert_eq!(pages, names.len().div_ceil(limit), "a page is of so many entries, by {limit}");
    }
    // The cursors of `money` and `scan` are interchangeable.
    let scan = Scan::Created { from, until };
    let scanned = soon(store.scan(scan, None, 3)).await.expect("a page");
    let read = page(None, 3).await.expect("a page");
    assert_eq!(read.next, scanned.next);
    assert_eq!(page(scanned.next, 9).await.expect("a page").orders, expected[1..]);
    for (cursor, limit) in
        [("deadline/1/p/M/a", 1), ("created/x", 1), ("created/11000000/p/A/b", 0)]
    {
        let refused = page(Some(Cursor(cursor.to_owned())), limit).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    }
}

/// A cursor keeps its place when entries are added, is printable, and fits its own view only.
pub async fn continues_after_a_cursor(bed: &dyn Bed) {
    let store = orders(bed).await;
    let created = |ms| ViewEntry::Created(Time::from_unix_ms(ms));
    add(&*store, vec![entry("p/M/b", &created(2)), entry("p/M/d", &created(4))]).await;
    let (from, until) = (Time::from_unix_ms(0), Time::from_unix_ms(9));
    let scan = Scan::Created { from, until };
    let page = soon(store.scan(scan.clone(), None, 1)).await.expect("a page");
    let cursor = page.next.expect("there is more");
    assert!(cursor.0.chars().all(|c| c.is_ascii_graphic()), "{cursor:?}");
    add(&*store, vec![entry("p/M/a", &created(1)), entry("p/M/c", &created(3))]).await;
    let rest = soon(store.scan(scan.clone(), Some(cursor.clone()), 9)).await.expect("a page");
    assert_eq!(rest.entries, [entry("p/M/c", &created(3)), entry("p/M/d", &created(4))]);
    assert_eq!(rest.next, None);

    let newest = Scan::Newest { from, until };
    let page = soon(store.scan(newest.clone(), None, 2)).await.expect("a page");
    let backwards = page.next.expect("there is more");
    add(&*store, vec![entry("p/M/e", &created(3)), entry("p/M/0", &created(2))]).await;
    let rest = soon(store.scan(newest.clone(), Some(backwards.clone()), 9)).await.expect("a page");
    let left = [("p/M/b", 2), ("p/M/0", 2), ("p/M/a", 1)];
    assert_eq!(rest.entries, left.map(|(name, ms)| entry(name, &created(ms))));
    let earlier = Scan::Newest { from, until: Time::from_unix_ms(2) };
    let rest = soon(store.scan(earlier, Some(backwards.clone()), 9)).await.expect("a page");
    assert_eq!(rest.entries, [entry("p/M/a", &created(1))], "no cursor leads out of a window");

    let deadline = Scan::Deadline { from, until };
    let garbage = Cursor("created/x".to_owned());
    for (scan, cursor, limit) in [
        (deadline, Some(cursor.clone()), 1),
        (newest, Some(cursor), 1),
        (scan.clone(), Some(backwards), 1),
        (scan.clone(), Some(garbage), 1),
        (scan, None, 0),
    ] {
        let refused = soon(store.scan(scan, cursor, limit)).await;
        assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    }
}
