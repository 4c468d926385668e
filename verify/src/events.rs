//! Owns comparing the events in `orders` with the events that `intake` yields when it is folded
//! again.
//!
//! Invariants: once the build that publishes an event has committed the event's record, the event
//! must be stored; an event that is stored before that commit must be the one its record yields; a
//! stored event that no record yields is a difference. Events that retention has removed from
//! `orders` are counted and are no difference. A missing event counts as removed if some partition
//! has lost its beginning, no earlier event of its order was found, and all stored ones are in such
//! partitions. So beside such a partition it is counted, and not a difference, if all events of an
//! order are missing.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Display;

use indicatif::ProgressBar;
use payfold_engines::EngineError;
use payfold_engines::log::walk;
use payfold_engines::log::{Delivered, Message, Topic};
use payfold_kit::search;
use payfold_projector::journal::{Builds, Journal};
use payfold_projector::refold::ExpectedEvent;
use payfold_schemas::digest::Digest;
use payfold_schemas::event::{OrderChanged, REBUILT};
use payfold_schemas::position::Position;
use payfold_schemas::publication::Publication;
use serde_json::{Map, Value};

use crate::chain::partition::{ReadResult, read_next};
use crate::subject::Subject;
use crate::through::{Pass, Through, in_pass};
use crate::verification::Verification;

/// About how many events one pass keeps in memory, some 70 bytes each. The events of an order stay
/// together, so this is an average.
pub(crate) const EVENTS_PER_PASS: u64 = 1_000_000;

/// How far each build of the order store has committed.
pub(crate) struct Committed {
    /// The progress of builds with tables.
    builds: HashMap<u32, Through>,
    /// The progress of the published build.
    pub(crate) live: Through,
    /// Builds with a rule that is broken on purpose.
    pub(crate) drills: Vec<u32>,
}

impl Committed {
    /// Reads the progress of every build. Errors: the engines'.
    pub(crate) async fn read(subject: &Subject, live: Through) -> Result<Self, EngineError> {
        let base = &subject.base;
        let known: Builds = Journal::new(std::sync::Arc::clone(base)).read().await?;
        let mut builds = HashMap::new();
        for (build, record) in known.existing() {
            let progress = match record.made_at {
                None => base.progress().await?,
                Some(_) => base.build(build).await?.progress().await?,
            };
            builds.insert(build, Through::of(progress));
        }
        Ok(Self { builds, live, drills: known.drill_builds().collect() })
    }

    /// Whether an event must be stored by now. A dropped build has no progress to read, but every
    /// event it published was committed by it, so the live build's progress decides.
    fn has(&self, event: &ExpectedEvent) -> bool {
        self.builds.get(&event.build).unwrap_or(&self.live).has(event.position)
    }
}

/// An event of `orders`.
struct StoredEvent {
    epoch: u32,
    version: u64,
    /// The digest of its type, time and data.
    content: Digest,
    position: Position,
    /// Whether a record yields an event with this id.
    is_expected: bool,
}

/// The events of one pass's orders.
pub(crate) struct StoredEvents {
    by_order: HashMap<String, Vec<StoredEvent>>,
    /// Partitions of `orders` that lost their first events to retention.
    trimmed: BTreeSet<u32>,
    /// Events of earlier epochs are not judged, nor are those of this epoch that were published at
    /// the switch to it.
    from: u32,
}

impl StoredEvents {
    /// Reads the events of this pass's orders, up to the topic's present end. Errors: the log's.
    pub(crate) async fn read(
        subject: &Subject,
        (pass, from): (Pass, u32),
        progress: &ProgressBar,
        verification: &mut Verification,
    ) -> Result<Self, EngineError> {
        let extents = subject.log.extent(Topic::Orders).await?;
        // The first record of a partition is 1.
        let is_trimmed = |first: u64| !subject.is_embedded && first > 1;
        let trimmed = extents.iter().filter(|extent| is_trimmed(extent.first));
        let trimmed = trimmed.map(|extent| extent.partition).collect();
        let mut stored = Self { by_order: HashMap::new(), trimmed, from };
        for extent in &extents {
            let mut place = walk::before(extent);
            while place.offset < extent.last {
                let page = match read_next(&*subject.log, (Topic::Orders, place)).await? {
                    ReadResult::Records(page) => page,
                    ReadResult::Gap => {
                        place.offset = place.offset.saturating_add(1);
                        // Reported once, in the first pass.
                        if pass.number == 0 {
                            let gap = format!("{place} is not there");
                            verification.differs(
                                &"-",
                                "orders",
                                &gap,
                                &"an event or a repeat of one",
                            );
                        }
                        continue;
                    }
                };
                let Some(last) = page.last() else { break };
                place = last.position;
                progress.inc(u64::try_from(page.len()).unwrap_or(u64::MAX));
                for message in page.iter().filter(|message| in_pass(&message.key, pass)) {
                    verification.events += 1;
                    stored.add(message, verification);
                }
            }
        }
        Ok(stored)
    }

    fn add(&mut self, message: &Delivered, verification: &mut Verification) {
        let id = message.event.as_ref().map_or("", |event| event.id.as_str());
        let place = format!("orders {}", message.position);
        let mut differs = |why: &dyn Display| {
            verification.differs(&message.key, &format!("event {id}"), &place, &why);
        };
        if let Err(problem) = message.authentic_value() {
            return differs(&problem);
        }
        let Some((epoch, version)) = numbers_of(id, &message.key) else {
            return differs(&"no id of this order");
        };
        let (content, position) = (content_of_stored(message), message.position);
        let event = StoredEvent { epoch, version, content, position, is_expected: false };
        self.by_order.entry(message.key.clone()).or_default().push(event);
    }

    /// Whether an order has stored events that no record has yielded so far.
    pub(crate) fn has_unexpected(&self, order: &str) -> bool {
        self.by_order.get(order).is_some_and(|events| events.iter().any(|one| !one.is_expected))
    }

    /// Compares an event that a record yields with the stored events of the same id. If `committed`
    /// covers the record, the event must be stored.
    pub(crate) async fn expect(
        &mut self,
        subject: &Subject,
        (event, committed): (&ExpectedEvent, &Committed),
        verification: &mut Verification,
    ) -> Result<(), EngineError> {
        let ExpectedEvent { message, position, .. } = event;
        let attributes = message.event.as_ref();
        let id = attributes.map_or("", |event| event.id.as_str());
        let Some((epoch, version)) = numbers_of(id, &message.key) else { return Ok(()) };
        if epoch < self.from {
            return Ok(());
        }
        let content = content_of_message(message);
        let stored = self.by_order.entry(message.key.clone()).or_default();
        let has_earlier = stored.iter().any(|one| one.is_expected);
        let is_trimmed = |one: &StoredEvent| self.trimmed.contains(&one.position.partition);
        let may_be_removed =
            !self.trimmed.is_empty() && !has_earlier && stored.iter().all(is_trimmed);
        let is_same = |one: &&mut StoredEvent| (one.epoch, one.version) == (epoch, version);
        let (mut found, mut other) = (false, Vec::new());
        for one in stored.iter_mut().filter(is_same) {
            (one.is_expected, found) = (true, true);
            if one.content != content {
                other.push(one.position);
            }
        }
        for place in other {
            report_differences(subject, (message, place), verification).await?;
        }
        if !found && committed.has(event) {
            if may_be_removed {
                verification.removed += 1;
            } else {
                let field = format!("event {epoch}/{version}");
                verification.differs(
                    &message.key,
                    &field,
                    &"missing",
                    &format!("intake {position}"),
                );
            }
        }
        Ok(())
    }

    /// Reports the remaining events, which no record yields. Errors: the log's.
    pub(crate) async fn report_unexpected(
        self,
        subject: &Subject,
        verification: &mut Verification,
    ) -> Result<(), EngineError> {
        for (order, events) in self.by_order {
            for event in events.into_iter().filter(|event| !event.is_expected) {
                // Events of the switch to this epoch depend on the rules of the epoch before, which
                // may be another program's: folding again can't yield them.
                let is_first = self.from > FIRST_EPOCH && event.epoch == self.from;
                if event.epoch < self.from
                    || (is_first && is_rebuilt(subject, event.position).await?)
                {
                    verification.of_earlier_rules += 1;
                    continue;
                }
                let field = format!("event {}/{}", event.epoch, event.version);
                let place = format!("orders {}", event.position);
                verification.differs(
                    &order,
                    &field,
                    &place,
                    &"the log has no record that yields it",
                );
            }
        }
        Ok(())
    }
}

/// Epoch and version in an event's id, if it is one of this order.
fn numbers_of(id: &str, order: &str) -> Option<(u32, u64)> {
    let (epoch, version) = id.strip_prefix(order)?.strip_prefix('/')?.split_once('/')?;
    let numbers = (epoch.parse().ok()?, version.parse().ok()?);
    (format!("{}/{}", numbers.0, numbers.1) == format!("{epoch}/{version}")).then_some(numbers)
}

fn content_of_stored(message: &Delivered) -> Digest {
    let (kind, time) =
        message.event.as_ref().map_or(("", ""), |event| (event.kind.as_str(), event.time.as_str()));
    content(kind, time, &message.value)
}

fn content_of_message(message: &Message) -> Digest {
    let time = message.event.as_ref().map(|event| event.time.to_string()).unwrap_or_default();
    content(message.event.as_ref().map_or("", |event| event.kind), &time, &message.value)
}

/// The digest of an event's type, time and data. Type and time have no line break, so the parts
/// can't be confused.
fn content(kind: &str, time: &str, value: &[u8]) -> Digest {
    Digest::of_bytes(&[kind.as_bytes(), b"\n", time.as_bytes(), b"\n", value].concat())
}

/// Reports how a stored event differs, field by field.
async fn report_differences(
    subject: &Subject,
    (message, place): (&Message, Position),
    verification: &mut Verification,
) -> Result<(), EngineError> {
    let Some(stored) = search::message_at(&*subject.log, Topic::Orders, place).await? else {
        return Ok(());
    };
    let expected = message.event.as_ref();
    let id = expected.map_or("", |event| event.id.as_str());
    let name = id.strip_prefix(message.key.as_str()).unwrap_or(id).trim_start_matches('/');
    let (before, place) = (verification.differences.len(), format!("orders {place}"));
    if let (Some(stored), Some(expected)) = (&stored.event, expected) {
        for (field, stored, folded) in [
            ("type", stored.kind.clone(), expected.kind.to_owned()),
            ("time", stored.time.clone(), expected.time.to_string()),
        ] {
            if stored != folded {
                verification.differs(
                    &message.key,
                    &format!("event {name} {field}"),
                    &stored,
                    &folded,
                );
            }
        }
    }
    let folded = object(&message.value).unwrap_or_default();
    let Some(stored) = object(&stored.value) else {
        verification.differs(
            &message.key,
            &format!("event {name}"),
            &place,
            &"it is no JSON object",
        );
        return Ok(());
    };
    let fields: BTreeSet<&String> = stored.keys().chain(folded.keys()).collect();
    let shown = |value: Option<&Value>| value.map_or("not there".to_owned(), Value::to_string);
    for field in fields.into_iter().filter(|field| stored.get(*field) != folded.get(*field)) {
        let (stored, folded) = (shown(stored.get(field)), shown(folded.get(field)));
        verification.differs(&message.key, &format!("event {name} {field}"), &stored, &folded);
    }
    if verification.differences.len() == before {
        verification.differs(
            &message.key,
            &format!("event {name} bytes"),
            &place,
            &"spelt otherwise",
        );
    }
    Ok(())
}

fn object(value: &[u8]) -> Option<Map<String, Value>> {
    serde_json::from_slice(value).ok()
}

async fn is_rebuilt(subject: &Subject, place: Position) -> Result<bool, EngineError> {
    let message = search::message_at(&*subject.log, Topic::Orders, place).await?;
    let change = message.and_then(|one| serde_json::from_slice::<OrderChanged>(&one.value).ok());
    Ok(change.is_some_and(|change| change.cause.kind == REBUILT))
}

/// The first publication epoch.
pub const FIRST_EPOCH: u32 = Publication::FIRST.epoch;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_of_its_order_and_spelt_in_one_way() {
        for (id, numbers) in [
            ("p/M/a/1/2", Some((1, 2))),
            ("p/M/a/1/02", None),
            ("p/M/a/+1/2", None),
            ("p/M/b/1/2", None),
            ("p/M/a/1", None),
            ("", None),
        ] {
            assert_eq!(numbers_of(id, "p/M/a"), numbers, "{id}");
        }
    }
}
