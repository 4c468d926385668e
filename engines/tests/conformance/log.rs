//! The guarantees of `EventLog` and `Subscription`.

use std::collections::HashMap;

use futures_util::FutureExt;
use futures_util::future::join_all;
use payfold_engines::EngineError;
use payfold_engines::log::{Start, Topic};
use payfold_schemas::event::{EventAttributes, ORDER_CHANGED_TYPE};
use payfold_schemas::position::Position;
use payfold_schemas::time::Time;

use crate::bed::{Bed, append_each, log, message, read, soon, texts};

/// Acknowledged messages are there when the log is opened again, and its id is the same.
pub async fn keeps_acknowledged_messages(bed: &dyn Bed) {
    let first = log(bed).await;
    let (id, positions) = (first.id(), append_each(&*first, &["a", "b", "c"]).await);
    drop(first);
    let again = log(bed).await;
    let found = read(&*again, Topic::Intake, 3).await;
    assert_eq!(again.id(), id);
    assert_eq!(texts(&found), ["a", "b", "c"]);
    assert_eq!(found.iter().map(|one| one.position).collect::<Vec<_>>(), positions);
    let next = append_each(&*again, &["d"]).await;
    assert!(next[0] > positions[2], "no position is used twice");
}

/// Messages of a key are delivered in the order in which their appends were called, awaited or not.
pub async fn keeps_the_order_of_a_key(bed: &dyn Bed) {
    let log = log(bed).await;
    let mut appends = Vec::new();
    for n in 0..300 {
        let key = format!("key-{}", n % 7);
        appends.push(log.append(Topic::Intake, message(&key, &format!("{n:03}"))));
    }
    // Awaited from the last to the first, because only the order of the calls may matter.
    appends.reverse();
    soon(join_all(appends)).await.into_iter().collect::<Result<Vec<_>, _>>().expect("all appended");
    let mut last: HashMap<String, Vec<u8>> = HashMap::new();
    for one in read(&*log, Topic::Intake, 300).await {
        let before = last.insert(one.key.clone(), one.value.clone());
        assert!(before.is_none_or(|before| before < one.value), "out of order in {}", one.key);
    }
    assert_eq!(last.len(), 7);
}

/// A list of any length is appended in order, with a position for each message.
pub async fn appends_lists(bed: &dyn Bed) {
    let log = bed.log(2).await.expect("the log opens");
    let list: Vec<_> = (0..500).map(|n| message("k", &format!("{n:03}"))).collect();
    let positions = soon(log.append_all(Topic::Intake, list)).await.expect("a list is not bounded");
    assert!(positions.windows(2).all(|pair| pair[0] < pair[1]));
    let found = read(&*log, Topic::Intake, 500).await;
    assert_eq!(found.iter().map(|one| one.position).collect::<Vec<_>>(), positions);
    assert_eq!(texts(&found), (0..500).map(|n| format!("{n:03}")).collect::<Vec<_>>());
    assert_eq!(soon(log.append_all(Topic::Intake, Vec::new())).await, Ok(Vec::new()));
}

/// An event's attributes come back; a record has none; topics do not mix.
pub async fn keeps_topics_and_attributes(bed: &dyn Bed) {
    let log = log(bed).await;
    let time = Time::from_unix_ms(1_769_853_600_250);
    let event = EventAttributes { id: "p/M/o/1/1".to_owned(), kind: ORDER_CHANGED_TYPE, time };
    let mut changed = message("p/M/o", "{}");
    changed.event = Some(event);
    soon(log.append(Topic::Orders, changed)).await.expect("appended");
    append_each(&*log, &["record"]).await;
    let events = read(&*log, Topic::Orders, 1).await;
    let found = events[0].event.as_ref().expect("an event");
    let attributes = (found.id.as_str(), found.kind.as_str(), found.time.as_str());
    assert_eq!(attributes, ("p/M/o/1/1", ORDER_CHANGED_TYPE, "2026-01-31T10:00:00.250Z"));
    let records = read(&*log, Topic::Intake, 1).await;
    assert_eq!((texts(&records), records[0].event.as_ref()), (vec!["record".to_owned()], None));
}

/// A batch has at most `limit` messages and the next one starts right after it.
pub async fn delivers_batches(bed: &dyn Bed) {
    let log = log(bed).await;
    append_each(&*log, &["1", "2", "3", "4", "5"]).await;
    let mut reader =
        soon(log.subscribe(Topic::Intake, "g", Start::Group)).await.expect("subscribed");
    let mut found = Vec::new();
    while found.len() < 5 {
        let batch = soon(reader.next_batch(2)).await.expect("a batch");
        assert!((1..=2).contains(&batch.len()));
        found.extend(batch);
    }
    assert_eq!(texts(&found), ["1", "2", "3", "4", "5"]);
}

/// A group continues after its last ack, also after the log is opened again; another group and
/// `After` are independent of it.
pub async fn remembers_acks(bed: &dyn Bed) {
    let first = log(bed).await;
    let positions = append_each(&*first, &["1", "2", "3", "4"]).await;
    let mut reader =
        soon(first.subscribe(Topic::Intake, "g", Start::Group)).await.expect("subscribed");
    assert_eq!(texts(&soon(reader.next_batch(3)).await.expect("a batch"))[0], "1");
    // A late ack of an earlier position changes nothing.
    for through in [positions[0], positions[1], positions[0]] {
        soon(reader.ack(vec![through])).await.expect("acked");
    }
    drop((reader, first));
    let again = log(bed).await;
    for (group, start, expected) in [
        ("g", Start::Group, "3"),
        ("other", Start::Group, "1"),
        ("g", Start::After(vec![positions[2]]), "4"),
        ("g", Start::After(Vec::new()), "1"),
    ] {
        let subscribed = soon(again.subscribe(Topic::Intake, group, start.clone())).await;
        let mut reader = subscribed.expect("subscribed");
        let batch = soon(reader.next_batch(1)).await.expect("a batch");
        assert_eq!(texts(&batch), [expected], "{group} {start:?}");
    }
}

/// A reader at the end waits until a message is appended, and misses none if its future is dropped
/// meanwhile.
pub async fn wakes_a_waiting_reader(bed: &dyn Bed) {
    let log = log(bed).await;
    let mut reader =
        soon(log.subscribe(Topic::Intake, "g", Start::Group)).await.expect("subscribed");
    for n in 0..20 {
        assert!(reader.next_batch(10).now_or_never().is_none(), "nothing is there yet");
        let text = n.to_string();
        let texts_to_add = [text.as_str()];
        let (batch, _) =
            soon(async { tokio::join!(reader.next_batch(10), append_each(&*log, &texts_to_add)) })
                .await;
        assert_eq!(texts(&batch.expect("a batch")), [text]);
    }
}

/// Dropping a `next_batch` at any moment loses nothing and repeats nothing.
pub async fn survives_dropped_reads(bed: &dyn Bed) {
    let log = log(bed).await;
    append_each(&*log, &["1", "2", "3"]).await;
    let mut reader =
        soon(log.subscribe(Topic::Intake, "g", Start::Group)).await.expect("subscribed");
    let mut found = Vec::new();
    while found.len() < 3 {
        if let Some(batch) = reader.next_batch(1).now_or_never() {
            found.extend(batch.expect("a batch"));
            continue;
        }
        found.extend(soon(reader.next_batch(1)).await.expect("a batch"));
    }
    assert_eq!(texts(&found), ["1", "2", "3"]);
}

/// A full queue refuses at once; accepted messages are answered and stored, and then there is room
/// again.
pub async fn refuses_at_once_when_full(bed: &dyn Bed) {
    let log = bed.log(4).await.expect("the log opens");
    let (mut kept, mut refused) = (0, 0);
    // An engine may be as fast as one burst, but not as every burst.
    while refused == 0 {
        let burst: Vec<_> =
            (0..50).map(|_| log.append(Topic::Intake, message("k", "burst"))).collect();
        for outcome in soon(join_all(burst)).await {
            match outcome {
                Ok(_) => kept += 1,
                Err(EngineError::Unavailable(_)) => refused += 1,
                Err(other) => panic!("{other}"),
            }
        }
        assert!(kept < 100_000, "a queue of 4 never filled");
    }
    assert_eq!(log.queue_depth(), 0);
    append_each(&*log, &["room again"]).await;
    assert_eq!(read(&*log, Topic::Intake, kept + 1).await.len(), kept + 1);
}

/// Dropping an append's future does not cancel it.
pub async fn keeps_dropped_appends(bed: &dyn Bed) {
    let log = log(bed).await;
    drop(log.append(Topic::Intake, message("k", "dropped")));
    let mut polled = 1;
    // What is durable before it is polled was not dropped while it waited.
    while let Some(outcome) = log.append(Topic::Intake, message("k", "polled")).now_or_never() {
        outcome.expect("appended");
        polled += 1;
        assert!(polled < 100, "each is durable at once");
    }
    append_each(&*log, &["awaited"]).await;
    let found = read(&*log, Topic::Intake, polled + 2).await;
    let polled = std::iter::repeat_n("polled", polled);
    let expected: Vec<&str> = ["dropped"].into_iter().chain(polled).chain(["awaited"]).collect();
    assert_eq!(texts(&found), expected);
}

/// Closing makes everything queued durable; later appends are refused.
pub async fn drains_when_closed(bed: &dyn Bed) {
    let first = log(bed).await;
    let appends: Vec<_> =
        (0..200).map(|n| first.append(Topic::Intake, message("k", &n.to_string()))).collect();
    soon(first.close()).await.expect("closed");
    soon(first.close()).await.expect("closed twice");
    assert_eq!(first.queue_depth(), 0);
    let refused = soon(first.append(Topic::Intake, message("k", "late"))).await;
    assert!(matches!(refused, Err(EngineError::Unavailable(_))), "{refused:?}");
    for outcome in join_all(appends).await {
        outcome.expect("queued before it was closed");
    }
    drop(first);
    assert_eq!(read(&*log(bed).await, Topic::Intake, 200).await.len(), 200);
}

/// A listing starts after a position, has a limit, and is empty at the end; the extent agrees.
pub async fn lists(bed: &dyn Bed) {
    let log = log(bed).await;
    for extent in soon(log.extent(Topic::Intake)).await.expect("an extent") {
        assert_eq!((extent.first, extent.last), (0, 0));
    }
    let positions = append_each(&*log, &["1", "2", "3"]).await;
    let listed = soon(log.read_after(Topic::Intake, positions[0], 1)).await.expect("a listing");
    assert_eq!(texts(&listed), ["2"]);
    let rest = soon(log.read_after(Topic::Intake, positions[0], 10)).await.expect("a listing");
    assert_eq!(texts(&rest), ["2", "3"]);
    assert_eq!(soon(log.read_after(Topic::Intake, positions[2], 10)).await, Ok(Vec::new()));
    let extents = soon(log.extent(Topic::Intake)).await.expect("an extent");
    let extent =
        extents.iter().find(|one| one.partition == positions[0].partition).expect("listed");
    assert_eq!((extent.first, extent.last), (positions[0].offset, positions[2].offset));
    assert_ne!(extent.bytes, Some(0));
}

/// A long topic is listed page by page without a gap, by several readers at once, each on its own
/// partition.
pub async fn lists_long_topics(bed: &dyn Bed) {
    const MESSAGES: usize = 30_000;
    let log = log(bed).await;
    let messages: Vec<_> =
        (0..MESSAGES).map(|n| message(&format!("k{}", n % 64), &format!("{n:0>600}"))).collect();
    for part in messages.chunks(1_000) {
        soon(log.append_all(Topic::Intake, part.to_vec())).await.expect("they are kept");
    }
    let extents = soon(log.extent(Topic::Intake)).await.expect("an extent");
    let listings = extents.iter().map(|extent| async {
        let (mut after, mut found) =
            (Position { partition: extent.partition, offset: 0 }, Vec::new());
        loop {
            let page = soon(log.read_after(Topic::Intake, after, 5_000)).await.expect("a listing");
            let Some(last) = page.last() else { return found };
            after = last.position;
            found.extend(page.into_iter().map(|one| one.position.offset));
        }
    });
    for (extent, found) in extents.iter().zip(join_all(listings).await) {
        let whole: Vec<_> = (extent.first..=extent.last).filter(|offset| *offset > 0).collect();
        assert_eq!(found.len(), whole.len(), "messages of partition {}", extent.partition);
        assert!(found == whole, "in order and without a gap");
    }
}

/// A marker is in every partition once, behind what was appended before it.
pub async fn marks_every_partition(bed: &dyn Bed) {
    let log = log(bed).await;
    let before: Vec<_> = (0..40).map(|n| message(&format!("k{n}"), "before")).collect();
    soon(log.append_all(Topic::Intake, before)).await.expect("appended");
    let marker = message("payfold", "marker");
    let mut positions = soon(log.append_marker(Topic::Intake, marker)).await.expect("marked");
    soon(log.append_all(Topic::Intake, vec![message("k1", "after")])).await.expect("appended");
    let extents = soon(log.extent(Topic::Intake)).await.expect("it reaches");
    let all = read(&*log, Topic::Intake, 40 + extents.len() + 1).await;
    let marked = all.iter().filter(|one| one.value == b"marker").map(|one| one.position);
    let mut marked: Vec<Position> = marked.collect();
    marked.sort();
    positions.sort();
    assert_eq!(marked, positions);
    let partitions: Vec<u32> = marked.iter().map(|position| position.partition).collect();
    let expected: Vec<u32> = extents.iter().map(|extent| extent.partition).collect();
    assert_eq!(partitions, expected, "one in every partition");
    for one in &all {
        let marker = marked.iter().find(|marker| marker.partition == one.position.partition);
        let behind = one.position.offset > marker.expect("one in each").offset;
        assert_eq!(behind, one.value == b"after", "{one:?}");
    }
}
