//! The MACs of messages: kept by the log, checked by every way to read it.

use std::sync::Arc;

use arc_swap::ArcSwap;
use payfold_engines::EngineError;
use payfold_engines::clock::SystemClock;
use payfold_engines::log::authenticated::AuthenticatedLog;
use payfold_engines::log::{Authenticity, Delivered, EventLog, Topic};
use payfold_schemas::event::{EventAttributes, ORDER_CHANGED_TYPE};
use payfold_schemas::position::Position;
use payfold_schemas::record_keys::{DatedKey, RecordBaseline, RecordKeys};
use payfold_schemas::record_mac::{NotAuthentic, RecordKey, Writer};
use payfold_schemas::time::Time;

use crate::assigned_reader::{given, messages};
use crate::bed::{Bed, log, message, read, soon};

const BEGINNING: Time = Time::from_unix_ms(0);

fn authenticities(messages: &[Delivered]) -> Vec<Authenticity> {
    messages.iter().map(|one| one.authenticity).collect()
}

/// What a role appended is authentic however it is read, and what another program appended is
/// refused. A role without a key appends nothing.
pub async fn checks_who_wrote(bed: &dyn Bed) {
    let raw = log(bed).await;
    let key = RecordKey::new(Writer::Checkout, b"test key, worth nothing");
    let (log, through) = (hex::encode(raw.id()), vec![]);
    let baseline = RecordBaseline { log, at: BEGINNING, through, refused: vec![] };
    let keys = RecordKeys::new(vec![DatedKey { key, valid_from: BEGINNING }], &[baseline]);
    let keys = Arc::new(ArcSwap::from_pointee(keys));
    let of = |writer| {
        let (log, keys) = (Arc::clone(&raw), Arc::clone(&keys));
        AuthenticatedLog::new(log, keys, writer, Arc::new(SystemClock))
    };
    let role = of(Writer::Checkout);
    let refused = soon(of(Writer::Ingest).append(Topic::Intake, message("k", "none"))).await;
    assert!(matches!(refused, Err(EngineError::Unavailable(_))), "{refused:?}");

    let mut event = message("p/M/o", "{}");
    let (id, kind) = ("p/M/o/1/1".to_owned(), ORDER_CHANGED_TYPE);
    event.event = Some(EventAttributes { id, kind, time: Time::from_unix_ms(1_769_853_600_250) });
    for topic in [Topic::Findings, Topic::Orders] {
        soon(role.append(topic, event.clone())).await.expect("appended");
    }
    soon(role.append(Topic::Intake, message("k", "one"))).await.expect("appended");
    soon(role.append_all(Topic::Intake, vec![message("k", "two")])).await.expect("appended");
    soon(role.append_marker(Topic::Intake, message("k", "all"))).await.expect("appended");
    soon(raw.append(Topic::Intake, message("k", "forged"))).await.expect("appended");

    let authentic = Authenticity::Authentic(Writer::Checkout);
    assert_eq!(authenticities(&read(&role, Topic::Findings, 1).await), [authentic]);
    assert_eq!(authenticities(&read(&role, Topic::Orders, 1).await), [authentic]);
    let is_as_it_must = |found: &[Delivered]| {
        let forged = Authenticity::Refused(NotAuthentic::NoMac);
        let expected = |one: &Delivered| if one.value == b"forged" { forged } else { authentic };
        assert_eq!(authenticities(found), found.iter().map(expected).collect::<Vec<_>>());
    };
    let extents = soon(role.extent(Topic::Intake)).await.expect("extents");
    let held = extents.iter().map(|one| (one.last + 1).saturating_sub(one.first.max(1)));
    let count = usize::try_from(held.sum::<u64>()).expect("a few");
    is_as_it_must(&read(&role, Topic::Intake, count).await);
    let mut reader = soon(role.join_group(Topic::Intake, "checks")).await.expect("a reader");
    given(&role, &mut *reader).await;
    soon(reader.start_after(Vec::new())).await.expect("begun");
    let mut found = Vec::new();
    while found.len() < count {
        found.extend(messages(&mut *reader, 10).await);
    }
    is_as_it_must(&found);
    for Position { partition, .. } in extents.iter().map(payfold_engines::log::Extent::end) {
        let after = Position { partition, offset: 0 };
        is_as_it_must(&soon(role.read_after(Topic::Intake, after, 10)).await.expect("a page"));
    }
}
