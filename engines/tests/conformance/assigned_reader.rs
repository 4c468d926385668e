//! The guarantees of `AssignedReader` that one reader can observe; rebalances are in `kafka`.

use std::collections::BTreeSet;

use futures_util::FutureExt;
use payfold_engines::EngineError;
use payfold_engines::log::{AssignedReader, EventLog, ReaderOutput, Rebalance, Topic};
use payfold_schemas::position::Position;

use crate::bed::{Bed, append_each, log, soon, texts};

/// Handles rebalances until every partition of intake is assigned.
pub async fn given(log: &dyn EventLog, reader: &mut dyn AssignedReader) -> BTreeSet<u32> {
    let extents = soon(log.extent(Topic::Intake)).await.expect("an extent");
    let all: BTreeSet<u32> = extents.iter().map(|extent| extent.partition).collect();
    let mut given = BTreeSet::new();
    while given != all {
        match soon(reader.next(10)).await.expect("the reader's next output") {
            ReaderOutput::Rebalance(Rebalance::Assigned(partitions)) => given.extend(partitions),
            other => panic!("nothing is delivered before it begins: {other:?}"),
        }
    }
    given
}

/// Returns the reader's next messages.
pub async fn messages(
    reader: &mut dyn AssignedReader,
    limit: usize,
) -> Vec<payfold_engines::log::Delivered> {
    match soon(reader.next(limit)).await.expect("the reader's next output") {
        ReaderOutput::Messages(messages) => {
            assert!((1..=limit).contains(&messages.len()));
            messages
        }
        other => panic!("expected messages, got {other:?}"),
    }
}

async fn open(log: &dyn EventLog) -> Box<dyn AssignedReader> {
    soon(log.join_group(Topic::Intake, "assigned-reader")).await.expect("a reader")
}

/// Assigned partitions deliver nothing until reading starts: after the named position, or at the
/// first message.
pub async fn starts_after_the_named_position(bed: &dyn Bed) {
    let log = log(bed).await;
    let positions = append_each(&*log, &["1", "2", "3"]).await;
    for (after, expected) in [(vec![positions[0]], vec!["2", "3"]), (vec![], vec!["1", "2", "3"])] {
        let mut reader = open(&*log).await;
        given(&*log, &mut *reader).await;
        assert!(reader.next(10).now_or_never().is_none(), "it stands still");
        soon(reader.start_after(after)).await.expect("begun");
        let mut found = Vec::new();
        while found.len() < expected.len() {
            found.extend(messages(&mut *reader, 2).await);
        }
        assert_eq!(texts(&found), expected);
        soon(reader.ack(vec![positions[2]])).await.expect("acked");
        drop(reader);
    }
}

/// Later appends are delivered in order and once.
pub async fn delivers_later_appends(bed: &dyn Bed) {
    let log = log(bed).await;
    let mut reader = open(&*log).await;
    given(&*log, &mut *reader).await;
    soon(reader.start_after(Vec::new())).await.expect("begun");
    for n in 0..10 {
        let text = n.to_string();
        append_each(&*log, &[text.as_str()]).await;
        assert_eq!(texts(&messages(&mut *reader, 10).await), [text]);
    }
}

/// A start past the end is refused.
pub async fn refuses_to_start_past_the_end(bed: &dyn Bed) {
    let log = log(bed).await;
    let positions = append_each(&*log, &["1"]).await;
    let mut reader = open(&*log).await;
    given(&*log, &mut *reader).await;
    let beyond = Position { offset: positions[0].offset + 5, ..positions[0] };
    let refused = soon(reader.start_after(vec![beyond])).await;
    assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
}
