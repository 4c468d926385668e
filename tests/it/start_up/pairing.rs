//! The order stores a start refuses because they don't belong to the log, or are not as far as they
//! must be.

use payfold_engines::log::{EventLog, Message, Topic};
use payfold_engines::orders::cql::CqlOrders;
use payfold_engines::orders::{Commit, Folded, OrderStore};
use payfold_schemas::digest::Digest;
use payfold_schemas::position::Position;
use payfold_schemas::record_mac::Writer;

use super::{Start, settle};
use crate::support::pair::{create_request, runtime, with_log};

const CORRUPT: &str = "docs/how-to/corrupt.md";
const RESTORE: &str = "restore the log that the order store was folded from";

/// A start with topics and tables that are made.
fn made() -> Option<Start> {
    let start = Start::new()?;
    start.make_topics();
    start.make_tables();
    Some(start)
}

/// Appends a record to intake. Returns its position and the log's id.
fn append(start: &Start) -> (Position, [u8; 16]) {
    with_log(&start.home, Writer::Checkout, async |log: &dyn EventLog| {
        let message =
            Message { key: "a/b/c".to_owned(), event: None, value: b"1".to_vec(), mac: None };
        (log.append(Topic::Intake, message).await.expect("it is appended"), log.id())
    })
}

/// Says in the store that the log of this id was folded up to a record of these bytes.
fn fold(start: &Start, log_id: [u8; 16], (position, bytes): (Position, &[u8])) {
    runtime().block_on(async {
        let store = CqlOrders::open(start.names.cql()).await.expect("the tables are there");
        let folded = vec![Folded::new(position, Digest::of_bytes(bytes))];
        let commit = Commit { folded, log_id, ..Commit::default() };
        store.commit(commit).await.expect("it is committed");
    });
}

#[test]
#[ignore = "nightly: servers"]
fn orders_of_another_log_are_refused() {
    let Some(start) = made() else { return };
    let (position, _) = append(&start);
    fold(&start, [9; 16], (position, b"1"));
    let words = ["the order store was folded from another log than this one", RESTORE, CORRUPT];
    settle(&start.differs(&words));
}

#[test]
#[ignore = "nightly: servers"]
fn a_log_that_lost_its_end_is_refused() {
    let Some(start) = made() else { return };
    let (position, log_id) = append(&start);
    let later = Position { offset: position.offset + 5, ..position };
    fold(&start, log_id, (later, b"1"));
    let said = format!("was folded up to {later}, but the log ends at {position}");
    settle(&start.differs(&[&said, RESTORE, CORRUPT]));
}

#[test]
#[ignore = "nightly: servers"]
fn a_log_with_other_records_is_refused() {
    let Some(start) = made() else { return };
    let (position, log_id) = append(&start);
    fold(&start, log_id, (position, b"2"));
    let said = format!("the log's record at {position} is not the one that was folded");
    settle(&start.differs(&[&said, RESTORE, CORRUPT]));
}

#[test]
#[ignore = "nightly: servers"]
fn a_table_of_claims_that_lost_all_is_refused() {
    let Some(start) = made() else { return };
    with_log(&start.home, Writer::Checkout, async |log: &dyn EventLog| {
        let create = create_request("acme/SHOP/o-1", b"{}");
        log.append(Topic::Intake, create).await.expect("it is appended")
    });
    let words = ["the table of claims is empty", "acme/SHOP/o-1", "second payment", CORRUPT];
    settle(&start.differs(&words));
}

/// No process would ever fold what the old epoch still holds.
#[test]
#[ignore = "nightly: servers"]
fn an_epoch_that_was_opened_too_early_is_refused() {
    let Some(start) = made() else { return };
    append(&start);
    let epoch = [("PAYFOLD_KAFKA__EPOCH", "1")];
    start.home.ends(&["topics", "apply"], &epoch, super::REFUSED_MAX).ok();
    let words = [
        "intake has grown to epoch 1, but what came before is not folded to its end",
        "docs/how-to/grow-intake.md, \"Growing intake\"",
        "kafka.epoch = 0",
    ];
    settle(&start.is_refused(&epoch, &words));
}
