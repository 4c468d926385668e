//! Owns the comparison of the events in `orders` with those that `intake` yields when it is folded again.
//!
//! Invariants: an event has to be there once the build that publishes it has committed its record; what is stored beyond
//! that has to be what its record yields; a stored event that no record yields is a difference. What retention has removed
//! from `orders` is counted and no difference: it is the beginning of a partition, never a gap.

use std::collections::{BTreeSet, HashMap};

use indicatif::ProgressBar;
use payfold_engines::generations::{Generations, Journal};
use payfold_engines::log::{Delivered, Message, Topic};
use payfold_projector::refold::ExpectedEvent;
use payfold_schemas::digest::Digest;
use payfold_schemas::event::{OrderChanged, REBUILT};
use payfold_schemas::publication::Publication;
use payfold_schemas::record::Position;
use serde_json::{Map, Value};

use super::chain::{Next, next};
use super::{Through, Verdict, in_pass};
use crate::search;
use crate::walk;
use crate::wiring::Engines;

/// Events that are kept at once, some 70 bytes each: bounds memory whatever the number of events.
pub const EVENTS_PER_PASS: u64 = 1_000_000;

/// How far each build of the order store has committed.
pub struct Committed {
    /// Builds whose tables are there.
    builds: HashMap<u32, Through>,
    /// The build that is read.
    pub live: Through,
    /// Builds with a rule that is broken on purpose.
    pub drills: Vec<u32>,
}

impl Committed {
    /// Reads it. Errors: the engines'.
    pub async fn read(engines: &Engines, live: Through) -> anyhow::Result<Self> {
        let base = engines.base()?;
        let known: Generations = Journal::new(std::sync::Arc::clone(base)).read().await?;
        let mut builds = HashMap::new();
        for (tables, generation) in known.existing() {
            let progress = match generation.made_at {
                None => base.progress().await?,
                Some(_) => base.generation(tables).await?.progress().await?,
            };
            builds.insert(tables, Through::of(progress));
        }
        Ok(Self { builds, live, drills: known.drills().collect() })
    }

    /// Whether an event has to be there by now. Tables that were dropped were folded to the end of their time.
    fn has(&self, event: &ExpectedEvent) -> bool {
        self.builds.get(&event.tables).unwrap_or(&self.live).has(event.position)
    }
}

/// An event of `orders`.
struct StoredEvent {
    generation: u32,
    version: u64,
    /// Of all its content.
    content: Digest,
    position: Position,
    /// A record yields an event of this id.
    is_expected: bool,
}

/// The events of one pass's orders.
pub struct StoredEvents {
    by_order: HashMap<String, Vec<StoredEvent>>,
    /// Partitions of `orders` whose first events retention has removed.
    trimmed: BTreeSet<u32>,
    /// Earlier generations are not judged.
    from: u32,
}

impl StoredEvents {
    /// Reads those of this pass's orders, to the topic's end as it is now. Errors: the log's.
    pub async fn read(
        engines: &Engines,
        (pass, from): ((u64, u64), u32),
        progress: &ProgressBar,
        verdict: &mut Verdict,
    ) -> anyhow::Result<Self> {
        let extents = engines.log.extent(Topic::Orders).await?;
        let is_trimmed = |first: u64| !engines.embedded && first > 1;
        let trimmed = extents.iter().filter(|extent| is_trimmed(extent.first));
        let trimmed = trimmed.map(|extent| extent.partition).collect();
        let mut stored = Self { by_order: HashMap::new(), trimmed, from };
        for extent in &extents {
            let mut place = walk::before(extent);
            while place.offset < extent.last {
                let page = match next(&*engines.log, (Topic::Orders, place)).await? {
                    Next::Records(page) => page,
                    Next::Gap => {
                        place.offset = place.offset.saturating_add(1);
                        // Once, whatever the number of passes.
                        if pass.0 == 0 {
                            let gap = format!("{place} is not there");
                            verdict.differs(&"-", "orders", &gap, &"an event or a repeat of one");
                        }
                        continue;
                    }
                };
                let Some(last) = page.last() else { break };
                place = last.position;
                progress.inc(u64::try_from(page.len())?);
                for message in page.iter().filter(|message| in_pass(&message.key, pass)) {
                    verdict.events += 1;
                    stored.add(message, verdict);
                }
            }
        }
        Ok(stored)
    }

    fn add(&mut self, message: &Delivered, verdict: &mut Verdict) {
        let id = message.event.as_ref().map_or("", |event| event.id.as_str());
        let Some((generation, version)) = numbers_of(id, &message.key) else {
            let place = format!("orders {}", message.position);
            verdict.differs(&message.key, &format!("event {id}"), &place, &"no id of this order");
            return;
        };
        let (content, position) = (content_of_stored(message), message.position);
        let event = StoredEvent { generation, version, content, position, is_expected: false };
        self.by_order.entry(message.key.clone()).or_default().push(event);
    }

    /// Whether an order has events that no record has yielded so far.
    pub fn has_unexpected(&self, order: &str) -> bool {
        self.by_order.get(order).is_some_and(|events| events.iter().any(|one| !one.is_expected))
    }

    /// Compares an event that a record yields with what is stored under its id; it has to be there if `committed` says so.
    pub async fn expect(
        &mut self,
        engines: &Engines,
        (event, committed): (&ExpectedEvent, &Committed),
        verdict: &mut Verdict,
    ) -> anyhow::Result<()> {
        let ExpectedEvent { message, position, .. } = event;
        let attributes = message.event.as_ref();
        let id = attributes.map_or("", |event| event.id.as_str());
        let Some((generation, version)) = numbers_of(id, &message.key) else { return Ok(()) };
        if generation < self.from {
            return Ok(());
        }
        let content = content_of_message(message);
        let stored = self.by_order.entry(message.key.clone()).or_default();
        let has_earlier = stored.iter().any(|one| one.is_expected);
        let is_trimmed = |one: &StoredEvent| self.trimmed.contains(&one.position.partition);
        let may_be_removed =
            !self.trimmed.is_empty() && !has_earlier && stored.iter().all(is_trimmed);
        let is_same =
            |one: &&mut StoredEvent| (one.generation, one.version) == (generation, version);
        let (mut found, mut other) = (false, Vec::new());
        for one in stored.iter_mut().filter(is_same) {
            (one.is_expected, found) = (true, true);
            if one.content != content {
                other.push(one.position);
            }
        }
        for place in other {
            name_differences(engines, (message, place), verdict).await?;
        }
        if !found && committed.has(event) {
            if may_be_removed {
                verdict.removed += 1;
            } else {
                let field = format!("event {generation}/{version}");
                verdict.differs(&message.key, &field, &"missing", &format!("intake {position}"));
            }
        }
        Ok(())
    }

    /// What is left over: events that no record yields. Errors: the log's.
    pub async fn name_the_rest(
        self,
        engines: &Engines,
        verdict: &mut Verdict,
    ) -> anyhow::Result<()> {
        for (order, events) in self.by_order {
            for event in events.into_iter().filter(|event| !event.is_expected) {
                let is_first = self.from > FIRST_GENERATION && event.generation == self.from;
                if event.generation < self.from
                    || (is_first && is_rebuilt(engines, event.position).await?)
                {
                    verdict.of_earlier_rules += 1;
                    continue;
                }
                let field = format!("event {}/{}", event.generation, event.version);
                let place = format!("orders {}", event.position);
                verdict.differs(&order, &field, &place, &"the log has no record that yields it");
            }
        }
        Ok(())
    }
}

/// Generation and version in an event's id, if it is one of this order.
fn numbers_of(id: &str, order: &str) -> Option<(u32, u64)> {
    let (generation, version) = id.strip_prefix(order)?.strip_prefix('/')?.split_once('/')?;
    let numbers = (generation.parse().ok()?, version.parse().ok()?);
    (format!("{}/{}", numbers.0, numbers.1) == format!("{generation}/{version}")).then_some(numbers)
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

/// Type and time have no line break.
fn content(kind: &str, time: &str, value: &[u8]) -> Digest {
    Digest::of_bytes(&[kind.as_bytes(), b"\n", time.as_bytes(), b"\n", value].concat())
}

/// Names in what a stored event differs, field by field.
async fn name_differences(
    engines: &Engines,
    (message, place): (&Message, Position),
    verdict: &mut Verdict,
) -> anyhow::Result<()> {
    let Some(stored) = search::message_at(&*engines.log, Topic::Orders, place).await? else {
        return Ok(());
    };
    let expected = message.event.as_ref();
    let id = expected.map_or("", |event| event.id.as_str());
    let name = id.strip_prefix(message.key.as_str()).unwrap_or(id).trim_start_matches('/');
    let (before, place) = (verdict.differences.len(), format!("orders {place}"));
    if let (Some(stored), Some(expected)) = (&stored.event, expected) {
        for (field, stored, folded) in [
            ("type", stored.kind.clone(), expected.kind.to_owned()),
            ("time", stored.time.clone(), expected.time.to_string()),
        ] {
            if stored != folded {
                verdict.differs(&message.key, &format!("event {name} {field}"), &stored, &folded);
            }
        }
    }
    let folded = object(&message.value).unwrap_or_default();
    let Some(stored) = object(&stored.value) else {
        verdict.differs(&message.key, &format!("event {name}"), &place, &"it is no JSON object");
        return Ok(());
    };
    let fields: BTreeSet<&String> = stored.keys().chain(folded.keys()).collect();
    let shown = |value: Option<&Value>| value.map_or("not there".to_owned(), Value::to_string);
    for field in fields.into_iter().filter(|field| stored.get(*field) != folded.get(*field)) {
        let (stored, folded) = (shown(stored.get(field)), shown(folded.get(field)));
        verdict.differs(&message.key, &format!("event {name} {field}"), &stored, &folded);
    }
    if verdict.differences.len() == before {
        verdict.differs(&message.key, &format!("event {name} bytes"), &place, &"spelt otherwise");
    }
    Ok(())
}

fn object(value: &[u8]) -> Option<Map<String, Value>> {
    serde_json::from_slice(value).ok()
}

async fn is_rebuilt(engines: &Engines, place: Position) -> anyhow::Result<bool> {
    let message = search::message_at(&*engines.log, Topic::Orders, place).await?;
    let change = message.and_then(|one| serde_json::from_slice::<OrderChanged>(&one.value).ok());
    Ok(change.is_some_and(|change| change.cause.kind == REBUILT))
}

/// Generations before the first are not there.
pub const FIRST_GENERATION: u32 = Publication::FIRST.number;

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
