//! Owns the keys that a process proves and checks the writers of messages with, and the baselines:
//! up to where each log may have messages from before there were keys. Pure.
//!
//! Invariant: a MAC by a known key always counts. Without a baseline of any log nothing requires a
//! MAC, so that processes can learn their keys one after the other. As soon as there is one, every
//! message behind it needs a MAC by a known key, and so does every message of other logs. A key
//! that was ended counts for what the log had by then.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::position::Position;
use crate::record_mac::{MacContent, NotAuthentic, RecordKey, RecordKeyId, RecordMac, Writer};
use crate::time::Time;

/// The place of a message in the log, written `topic partition-offset`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TopicPosition {
    /// The topic's name.
    pub topic: String,
    /// Its position in the topic.
    pub position: Position,
}

/// A text that is not `topic partition-offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a place in the log is written `topic partition-offset`, such as `intake 0-1234`")]
pub struct TopicPositionError;

impl fmt::Display for TopicPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.topic, self.position)
    }
}

impl FromStr for TopicPosition {
    type Err = TopicPositionError;

    fn from_str(text: &str) -> Result<Self, TopicPositionError> {
        let (topic, position) = text.split_once(' ').ok_or(TopicPositionError)?;
        let position = position.parse().map_err(|_| TopicPositionError)?;
        Ok(Self { topic: topic.to_owned(), position })
    }
}

impl TryFrom<String> for TopicPosition {
    type Error = TopicPositionError;

    fn try_from(text: String) -> Result<Self, TopicPositionError> {
        text.parse()
    }
}

impl From<TopicPosition> for String {
    fn from(place: TopicPosition) -> Self {
        place.to_string()
    }
}

/// Up to where a log may have messages without a MAC, or with one by a key that is lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordBaseline {
    /// The log's id, 32 hex digits.
    pub log: String,
    /// When it was set.
    pub at: Time,
    /// The end of each partition then; one that is not named was empty.
    #[serde(default)]
    pub through: Vec<TopicPosition>,
    /// Messages up to there that stay refused: a person has parked them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<TopicPosition>,
}

/// Up to where a record key counts in a log: it leaked, and what is behind may be somebody else's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordKeyEnd {
    /// The key.
    pub key: RecordKeyId,
    /// The log's id, 32 hex digits.
    pub log: String,
    /// When it was ended.
    pub at: Time,
    /// The end of each partition then; one that is not named was empty.
    #[serde(default)]
    pub through: Vec<TopicPosition>,
    /// Messages up to there that don't count, either: somebody else wrote them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<TopicPosition>,
}

/// A baseline or the end of a key, for look-ups by topic.
#[derive(Clone, Debug, Default)]
struct PlaceIndex {
    /// The offset per partition.
    ends: BTreeMap<String, BTreeMap<u32, u64>>,
    refused: BTreeMap<String, BTreeSet<Position>>,
}

impl PlaceIndex {
    fn new(through: &[TopicPosition], refused: &[TopicPosition]) -> Self {
        let mut index = Self::default();
        for TopicPosition { topic, position } in through {
            let ends = index.ends.entry(topic.clone()).or_default();
            ends.insert(position.partition, position.offset);
        }
        for TopicPosition { topic, position } in refused {
            index.refused.entry(topic.clone()).or_default().insert(*position);
        }
        index
    }

    fn covers(&self, topic: &str, position: Position) -> bool {
        let end = self.ends.get(topic).and_then(|ends| ends.get(&position.partition));
        let is_refused = || self.refused.get(topic).is_some_and(|all| all.contains(&position));
        end.is_some_and(|end| position.offset <= *end) && !is_refused()
    }
}

/// A record key, and from when on its role writes with it.
#[derive(Clone, Debug)]
pub struct DatedKey {
    /// The key.
    pub key: RecordKey,
    /// From when on its role writes with it. Until then every reader has to learn it.
    pub valid_from: Time,
}

/// The record keys and baselines of a process.
#[derive(Clone, Debug, Default)]
pub struct RecordKeys {
    keys: Vec<DatedKey>,
    /// The newest baseline of each log.
    baselines: BTreeMap<String, PlaceIndex>,
    /// The keys that were ended, with the ends in each log: what all of them cover counts.
    ended: BTreeMap<RecordKeyId, BTreeMap<String, Vec<PlaceIndex>>>,
}

impl RecordKeys {
    /// Keys in any order, and baselines, the oldest first.
    pub fn new(keys: Vec<DatedKey>, baselines: &[RecordBaseline]) -> Self {
        let baselines = baselines.iter().map(|one| {
            let index = PlaceIndex::new(&one.through, &one.refused);
            (one.log.clone(), index)
        });
        Self { keys, baselines: baselines.collect(), ended: BTreeMap::new() }
    }

    /// The same, with keys that were ended.
    pub fn with_ends(mut self, ends: &[RecordKeyEnd]) -> Self {
        for end in ends {
            let logs = self.ended.entry(end.key).or_default();
            let ends = logs.entry(end.log.clone()).or_default();
            ends.push(PlaceIndex::new(&end.through, &end.refused));
        }
        self
    }

    /// The key that a role writes with now: the newest that is valid. If none is valid yet, or the
    /// clock is wrong, the oldest: a MAC too early is better than none.
    pub fn writes_with(&self, writer: Writer, now: Time) -> Option<&RecordKey> {
        let own = self.keys.iter().filter(|dated| self.can_write(dated, writer));
        let valid = own.clone().filter(|dated| dated.valid_from <= now);
        let newest = valid.max_by_key(|dated| dated.valid_from);
        newest.or_else(|| own.min_by_key(|dated| dated.valid_from)).map(|dated| &dated.key)
    }

    /// Whether a role has no key to write with.
    pub fn lacks(&self, writer: Writer) -> bool {
        !self.keys.iter().any(|dated| self.can_write(dated, writer))
    }

    fn can_write(&self, dated: &DatedKey, writer: Writer) -> bool {
        dated.key.writer() == writer && !self.ended.contains_key(&dated.key.id())
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether this log has a baseline.
    pub fn has_baseline_of(&self, log: &str) -> bool {
        self.baselines.contains_key(log)
    }

    /// Whether messages without a MAC are refused somewhere.
    pub fn has_baseline(&self) -> bool {
        !self.baselines.is_empty()
    }

    /// Checks who wrote a message at this position of the log with this id: the writer, or `None`
    /// if that is not known and need not be. Errors: `NotAuthentic`.
    pub fn check(
        &self,
        (log, position): (&str, Position),
        content: &MacContent<'_>,
        stored: Option<RecordMac>,
    ) -> Result<Option<Writer>, NotAuthentic> {
        let (problem, writer) = match stored {
            None => (NotAuthentic::NoMac, None),
            Some(stored) => match self.keys.iter().find(|dated| dated.key.id() == stored.key_id) {
                Some(DatedKey { key, .. }) if key.verifies(content, &stored) => {
                    if !self.has_ended(key.id(), log, (content.topic, position)) {
                        return Ok(Some(key.writer()));
                    }
                    (NotAuthentic::EndedKey(key.id()), Some(key.writer()))
                }
                Some(DatedKey { key, .. }) => return Err(NotAuthentic::Changed(key.writer())),
                None => (NotAuthentic::UnknownKey(stored.key_id), None),
            },
        };
        if self.needs_mac(log, content.topic, position) { Err(problem) } else { Ok(writer) }
    }

    fn has_ended(&self, key: RecordKeyId, log: &str, (topic, at): (&str, Position)) -> bool {
        let Some(logs) = self.ended.get(&key) else { return false };
        !logs.get(log).is_some_and(|ends| ends.iter().all(|end| end.covers(topic, at)))
    }

    fn needs_mac(&self, log: &str, topic: &str, position: Position) -> bool {
        let is_covered = || self.baselines.get(log).is_some_and(|one| one.covers(topic, position));
        self.has_baseline() && !is_covered()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Time {
        Time::from_unix_ms(seconds * 1_000)
    }

    fn dated(writer: Writer, secret: &str, seconds: i64) -> DatedKey {
        DatedKey { key: RecordKey::new(writer, secret.as_bytes()), valid_from: at(seconds) }
    }

    fn content(value: &[u8]) -> MacContent<'_> {
        MacContent { topic: "intake", key: "p/M/1", event: None, value }
    }

    fn place(log: &str, offset: u64) -> (&str, Position) {
        (log, Position { partition: 0, offset })
    }

    #[test]
    fn a_role_writes_with_its_newest_valid_key() {
        let of = |names: &[(&str, i64)]| {
            let keys = names.iter().map(|(name, from)| dated(Writer::Ingest, name, *from));
            RecordKeys::new(keys.collect(), &[])
        };
        let keys = of(&[("b", 20), ("a", 10), ("later", 40)]);
        let id = |now| keys.writes_with(Writer::Ingest, at(now)).map(RecordKey::id);
        let known = |name: &str| Some(RecordKey::new(Writer::Ingest, name.as_bytes()).id());
        assert_eq!((id(9), id(10), id(39)), (known("a"), known("a"), known("b")));
        assert_eq!(id(40), known("later"));
        assert!(keys.writes_with(Writer::Checkout, at(40)).is_none());
    }

    #[test]
    fn behind_the_baseline_every_message_needs_a_mac_by_a_known_key() {
        let keys = |baselines: &[RecordBaseline]| {
            RecordKeys::new(vec![dated(Writer::Ingest, "a", 0)], baselines)
        };
        let through = vec!["intake 0-5".parse().unwrap()];
        let baseline = RecordBaseline { log: "aa".to_owned(), at: at(1), through, refused: vec![] };
        let based = keys(std::slice::from_ref(&baseline));
        let lost = RecordKey::new(Writer::Ingest, b"lost");
        let one = content(b"one");
        let stranger = Some(lost.mac(&one));
        let unknown = Err(NotAuthentic::UnknownKey(lost.id()));
        let no_mac = Err(NotAuthentic::NoMac);
        for (log, offset, stored, expected) in [
            ("aa", 5, None, Ok(None)),
            ("aa", 5, stranger, Ok(None)),
            ("aa", 6, None, no_mac),
            ("aa", 6, stranger, unknown),
            // Another log than the based one was made with the keys there.
            ("bb", 1, None, no_mac),
        ] {
            assert_eq!(based.check(place(log, offset), &one, stored), expected, "{log} {offset}");
            assert_eq!(keys(&[]).check(place(log, offset), &one, stored), Ok(None));
        }
        let refused = vec!["intake 0-4".parse().unwrap()];
        let parked = keys(&[RecordBaseline { refused, ..baseline.clone() }]);
        assert_eq!(parked.check(place("aa", 4), &one, None), no_mac);
        assert_eq!(parked.check(place("aa", 3), &one, None), Ok(None));
        // The newest baseline of a log counts.
        let later =
            RecordBaseline { through: vec!["intake 0-6".parse().unwrap()], ..baseline.clone() };
        assert_eq!(keys(&[baseline, later]).check(place("aa", 6), &one, None), Ok(None));
    }

    #[test]
    fn a_mac_by_a_known_key_counts_on_both_sides_of_the_baseline() {
        let through = vec!["intake 0-5".parse().unwrap()];
        let baseline = RecordBaseline { log: "aa".to_owned(), at: at(1), through, refused: vec![] };
        let keys = RecordKeys::new(vec![dated(Writer::Ingest, "a", 0)], &[baseline]);
        let mac = keys.writes_with(Writer::Ingest, at(0)).unwrap().mac(&content(b"one"));
        for offset in [1, 9] {
            let check = |value| keys.check(place("aa", offset), &content(value), Some(mac));
            assert_eq!(check(b"one"), Ok(Some(Writer::Ingest)));
            assert_eq!(check(b"two"), Err(NotAuthentic::Changed(Writer::Ingest)));
        }
    }

    #[test]
    fn a_key_that_was_ended_counts_for_what_the_log_had_by_then() {
        let (leaked, next) = (dated(Writer::Ingest, "a", 0), dated(Writer::Ingest, "b", 10));
        let (id, one) = (leaked.key.id(), content(b"one"));
        let mac = Some(leaked.key.mac(&one));
        let end = |offset, refused: &[&str]| RecordKeyEnd {
            key: id,
            log: "aa".to_owned(),
            at: at(20),
            through: vec![format!("intake 0-{offset}").parse().unwrap()],
            refused: refused.iter().map(|place| place.parse().unwrap()).collect(),
        };
        // The second end moves nothing forward, and has a message that somebody else wrote.
        let ends = [end(5, &[]), end(9, &["intake 0-4"])];
        let baseline = |log: &str, offset| RecordBaseline {
            log: log.to_owned(),
            at: at(1),
            through: vec![format!("intake 0-{offset}").parse().unwrap()],
            refused: vec![],
        };
        let keys = |baseline| {
            RecordKeys::new(vec![leaked.clone(), next.clone()], &[baseline]).with_ends(&ends)
        };
        let based = keys(baseline("aa", 2));
        let ended = Err(NotAuthentic::EndedKey(id));
        for (log, offset, expected) in [
            ("aa", 5, Ok(Some(Writer::Ingest))),
            ("aa", 6, ended),
            ("aa", 4, ended),
            ("bb", 1, ended),
        ] {
            assert_eq!(based.check(place(log, offset), &one, mac), expected, "{log} {offset}");
        }
        // Its role writes with the other one, although that begins later, or not at all.
        let writes_with = |keys: &RecordKeys| keys.writes_with(Writer::Ingest, at(5)).cloned();
        assert_eq!(writes_with(&based).map(|key| key.id()), Some(next.key.id()));
        let alone = RecordKeys::new(vec![leaked.clone()], &[]).with_ends(&ends);
        assert!(alone.lacks(Writer::Ingest) && writes_with(&alone).is_none());
        // A person who moves the baseline has seen what counts then, each as of the role it is of.
        let moved = keys(baseline("aa", 6)).check(place("aa", 6), &one, mac);
        assert_eq!(moved, Ok(Some(Writer::Ingest)));
    }

    #[test]
    fn a_place_is_read_as_it_is_written() {
        let place: TopicPosition = serde_json::from_str("\"intake 1-7\"").unwrap();
        assert_eq!(serde_json::to_string(&place).unwrap(), "\"intake 1-7\"");
        for wrong in ["intake", "1-7", "intake x", "intake 1-"] {
            assert_eq!(wrong.parse::<TopicPosition>(), Err(TopicPositionError), "{wrong}");
        }
    }
}
