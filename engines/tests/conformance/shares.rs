//! The promises of `Share`, as far as one reader can see them; how partitions change hands is in `kafka`.

use std::collections::BTreeSet;

use futures_util::FutureExt;
use payfold_engines::EngineError;
use payfold_engines::log::{EventLog, Share, Topic, Turn};
use payfold_schemas::record::Position;

use crate::bed::{Bed, append_each, log, soon, texts};

/// Takes turns until every partition of intake is given.
pub async fn given(log: &dyn EventLog, share: &mut dyn Share) -> BTreeSet<u32> {
    let extents = soon(log.extent(Topic::Intake)).await.expect("an extent");
    let all: BTreeSet<u32> = extents.iter().map(|extent| extent.partition).collect();
    let mut given = BTreeSet::new();
    while given != all {
        match soon(share.next(10)).await.expect("a turn") {
            Turn::Given(partitions) => given.extend(partitions),
            other => panic!("nothing is delivered before it begins: {other:?}"),
        }
    }
    given
}

/// The next messages.
pub async fn messages(share: &mut dyn Share, limit: usize) -> Vec<payfold_engines::log::Delivered> {
    match soon(share.next(limit)).await.expect("a turn") {
        Turn::Messages(messages) => {
            assert!((1..=limit).contains(&messages.len()));
            messages
        }
        other => panic!("expected messages, got {other:?}"),
    }
}

async fn open(log: &dyn EventLog) -> Box<dyn Share> {
    soon(log.share(Topic::Intake, "keeper")).await.expect("a share")
}

/// What was given stands still until it begins: after the position that is named, or at the first message.
pub async fn begins_where_it_is_told(bed: &dyn Bed) {
    let log = log(bed).await;
    let told = append_each(&*log, &["1", "2", "3"]).await;
    for (after, expected) in [(vec![told[0]], vec!["2", "3"]), (vec![], vec!["1", "2", "3"])] {
        let mut share = open(&*log).await;
        given(&*log, &mut *share).await;
        assert!(share.next(10).now_or_never().is_none(), "it stands still");
        soon(share.begin(after)).await.expect("begun");
        let mut found = Vec::new();
        while found.len() < expected.len() {
            found.extend(messages(&mut *share, 2).await);
        }
        assert_eq!(texts(&found), expected);
        soon(share.ack(vec![told[2]])).await.expect("acked");
        drop(share);
    }
}

/// What is appended later comes, in order and once.
pub async fn goes_on(bed: &dyn Bed) {
    let log = log(bed).await;
    let mut share = open(&*log).await;
    given(&*log, &mut *share).await;
    soon(share.begin(Vec::new())).await.expect("begun");
    for n in 0..10 {
        let text = n.to_string();
        append_each(&*log, &[text.as_str()]).await;
        assert_eq!(texts(&messages(&mut *share, 10).await), [text]);
    }
}

/// Nothing begins past the end.
pub async fn refuses_to_begin_past_the_end(bed: &dyn Bed) {
    let log = log(bed).await;
    let told = append_each(&*log, &["1"]).await;
    let mut share = open(&*log).await;
    given(&*log, &mut *share).await;
    let beyond = Position { offset: told[0].offset + 5, ..told[0] };
    let refused = soon(share.begin(vec![beyond])).await;
    assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
}
