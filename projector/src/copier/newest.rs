//! Owns the rule which events of a partition of `orders` are news to its compacted copy. There the
//! last message of a key hides the messages before it.
//!
//! The events of one partition of intake come in log order. So an event is the newest of its order
//! if its cause has a higher position than every cause seen so far. Any other event is a repeat (a
//! projector resumed after a crash), fills a gap (an append that failed in part was repeated as a
//! whole) or is late (a projector was frozen). The recent events decide which of these it is. If
//! they hold an event of the order, the higher (epoch, version) is the newer one. If they hold
//! none, the order's last event is older than the recent events, and so is the cause of every event
//! that was taken before.
//!
//! Pure. Invariant: of two events of an order the lower (epoch, version) is never news after the
//! higher one, as long as gaps are filled before `REACH` further events.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use payfold_engines::EngineError;
use payfold_schemas::position::Position;

/// The fewest messages of a partition that count as recent: two of a projector's largest batches.
pub(super) const REACH: u64 = 50_000;

/// The longest note a broker stores with an offset, bytes.
const NOTE_MAX: usize = 4_096;

/// The parts of an event that decide what is newest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// The key of the order.
    pub(super) key: String,
    /// The epoch and version.
    pub(super) number: (u32, u64),
    /// The record of intake behind the event.
    pub(super) cause: Position,
    /// Whether the event was published at a switch, because the order differs in the new build.
    /// Many such events have one cause, a marker.
    pub(super) is_rebuilt: bool,
}

/// Whether an event is news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Novelty {
    /// It is the newest event of its order.
    News,
    /// It, or a newer event of its order, was taken before.
    Old,
    /// The recent events decide: `remember` them, then judge the event anew.
    NeedsRecent,
}

/// How far a partition of `orders` was read, by the causes of its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Marks {
    /// The offset in `orders` at which the recent events begin.
    from: u64,
    /// The highest cause before `from`, by partition of intake. A partition without one is missing.
    low: BTreeMap<u32, u64>,
    /// The highest cause so far, by partition of intake.
    high: BTreeMap<u32, u64>,
    /// The next values of `from` and `low`.
    next: (u64, BTreeMap<u32, u64>),
    /// The (epoch, version) of each order's newest event since `from`, while it is needed.
    recent: Option<HashMap<String, (u32, u64)>>,
    /// Whether the recent events were needed since the last call of `rest`.
    was_needed: bool,
}

impl Marks {
    /// The marks of a partition of which nothing was read; its first message has the offset `from`.
    pub(super) fn new(from: u64) -> Self {
        let (low, high, next) = (BTreeMap::new(), BTreeMap::new(), (from, BTreeMap::new()));
        Self { from, low, high, next, recent: None, was_needed: false }
    }

    /// The offset at which the recent events begin.
    pub(super) fn from(&self) -> u64 {
        self.from
    }

    /// Judges the next event.
    pub(super) fn judge(&mut self, event: &Event) -> Novelty {
        let Position { partition, offset } = event.cause;
        let is_first = match self.high.get(&partition) {
            None => true,
            // A switch publishes many orders at one marker, and before any later record.
            Some(high) => offset > *high || (event.is_rebuilt && offset == *high),
        };
        if is_first {
            self.high.insert(partition, offset);
        }
        self.was_needed |= !is_first;
        let Some(recent) = &mut self.recent else {
            return if is_first { Novelty::News } else { Novelty::NeedsRecent };
        };
        let is_news = is_first
            || match recent.get(&event.key) {
                Some(known) => event.number > *known,
                None => self.low.get(&partition).is_none_or(|low| offset > *low),
            };
        if !is_news {
            return Novelty::Old;
        }
        note(recent, event);
        Novelty::News
    }

    /// Takes the recent events, in order, up to the event to be judged. `held_from` is the offset
    /// of the first message that `orders` still holds; events it no longer holds count as taken.
    pub(super) fn remember(&mut self, held_from: u64, events: &[Event]) {
        let mut recent = HashMap::new();
        let mut low = self.low.clone();
        if held_from > self.from {
            low = self.high.clone();
            for event in events.iter().rev() {
                let Position { partition, offset } = event.cause;
                let high = self.high.get(&partition).copied().unwrap_or_default();
                low.insert(partition, offset.saturating_sub(1).min(high));
            }
        }
        events.iter().for_each(|event| note(&mut recent, event));
        (self.low, self.recent) = (low, Some(recent));
    }

    /// Forgets the recent events if they were not needed since the last call.
    pub(super) fn rest(&mut self) {
        if !std::mem::take(&mut self.was_needed) {
            self.recent = None;
        }
    }

    /// Moves the begin of the recent events on, once all messages before this offset were read. It
    /// also forgets the remembered events: a projector that repeats a whole log would fill the
    /// memory otherwise.
    pub(super) fn passed(&mut self, offset: u64) {
        if offset.saturating_sub(self.next.0) >= REACH {
            let next = (offset, self.high.clone());
            (self.from, self.low) = std::mem::replace(&mut self.next, next);
            self.recent = None;
        }
    }

    /// The note that is stored with the offset. Partitions that don't fit are left out, those of
    /// the oldest epochs first: nothing is appended to them any more.
    pub(super) fn encode(&self) -> String {
        let mut text = format!("1 {}", self.from);
        for (partition, high) in self.high.iter().rev() {
            let before = text.len();
            let back = self.low.get(partition).map(|low| high.saturating_sub(*low).to_string());
            write!(text, " {partition}:{high}:{}", back.unwrap_or_default())
                .expect("a text takes what is written");
            if text.len() > NOTE_MAX {
                text.truncate(before);
                break;
            }
        }
        text
    }

    /// Decodes a note; every message before `next` was read. Errors: `Corrupt` for any other text.
    pub(super) fn decode(text: &str, next: u64) -> Result<Self, EngineError> {
        let unreadable = || {
            EngineError::Corrupt(format!(
                "what is kept with the place of orders.latest reads {text:?}"
            ))
        };
        let number = |text: &str| text.parse::<u64>().map_err(|_| unreadable());
        let mut words = text.split(' ');
        let (Some("1"), Some(from)) = (words.next(), words.next()) else {
            return Err(unreadable());
        };
        let mut marks = Self::new(number(from)?);
        for word in words {
            let [partition, high, back] = word.splitn(3, ':').collect::<Vec<_>>()[..] else {
                return Err(unreadable());
            };
            let partition = partition.parse::<u32>().map_err(|_| unreadable())?;
            let high = number(high)?;
            marks.high.insert(partition, high);
            if !back.is_empty() {
                marks.low.insert(partition, high.saturating_sub(number(back)?));
            }
        }
        marks.next = (next, marks.high.clone());
        Ok(marks)
    }
}

/// Keeps the higher (epoch, version) of the event's order.
fn note(recent: &mut HashMap<String, (u32, u64)>, event: &Event) {
    let newest = recent.entry(event.key.clone()).or_insert(event.number);
    *newest = event.number.max(*newest);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses `key epoch.version@partition-offset`, with `!` at the end for a rebuilt order.
    fn event(text: &str) -> Event {
        let is_rebuilt = text.ends_with('!');
        let (key, rest) = text.trim_end_matches('!').split_once(' ').unwrap();
        let (number, cause) = rest.split_once('@').unwrap();
        let (epoch, version) = number.split_once('.').unwrap();
        let number = (epoch.parse().unwrap(), version.parse().unwrap());
        Event { key: key.to_owned(), number, cause: cause.parse().unwrap(), is_rebuilt }
    }

    /// A reader of a partition of `orders`. After each event it encodes the marks and decodes them,
    /// as another process does.
    #[derive(Default)]
    struct PartitionReader {
        all: Vec<Event>,
        newest: BTreeMap<String, (u32, u64)>,
        recent_reads: usize,
    }

    impl PartitionReader {
        fn run(events: &str, held_from: u64) -> Self {
            let mut read = Self::default();
            let mut marks = Marks::new(1);
            for (at, text) in (1_u64..).zip(events.split(", ")) {
                let event = event(text);
                let mut novelty = marks.judge(&event);
                if novelty == Novelty::NeedsRecent {
                    read.recent_reads += 1;
                    let first = usize::try_from(marks.from().max(held_from)).unwrap() - 1;
                    marks.remember(held_from, &read.all[first.min(read.all.len())..]);
                    novelty = marks.judge(&event);
                }
                if novelty == Novelty::News {
                    read.newest.insert(event.key.clone(), event.number);
                }
                read.all.push(event);
                marks.passed(at + 1);
                marks = Marks::decode(&marks.encode(), at + 1).unwrap();
            }
            read
        }

        fn shown(&self) -> String {
            let line = |(key, (epoch, version)): (&String, &(u32, u64))| {
                format!("{key} {epoch}.{version}")
            };
            self.newest.iter().map(line).collect::<Vec<_>>().join(", ")
        }
    }

    #[test]
    fn the_last_news_of_an_order_is_its_newest_event() {
        for (what, events, newest, recent_reads) in [
            ("in order", "a 1.1@0-1, b 1.1@0-2, a 1.2@0-3", "a 1.2, b 1.1", 0),
            ("two partitions", "a 1.1@0-9, b 1.1@1-1, a 1.2@0-10, b 1.2@1-2", "a 1.2, b 1.2", 0),
            ("late", "a 1.1@0-1, a 1.2@0-2, b 1.1@0-3, a 1.1@0-1", "a 1.2, b 1.1", 1),
            (
                "late, and its newest is not committed",
                "a 1.1@0-1, a 1.7@0-9, a 1.2@0-2",
                "a 1.7",
                1,
            ),
            ("a repeat", "a 1.1@0-1, b 1.1@0-2, a 1.1@0-1, b 1.1@0-2", "a 1.1, b 1.1", 2),
            ("a gap is filled", "a 1.1@0-1, b 1.1@0-3, c 1.1@0-2", "a 1.1, b 1.1, c 1.1", 1),
            ("a gap of one order", "a 1.2@0-3, a 1.1@0-2, a 1.2@0-3", "a 1.2", 2),
            (
                "rebuilt orders have one cause",
                "a 1.3@0-1, b 1.1@0-2, a 2.2@0-5!, b 2.4@0-5!, a 2.3@0-6",
                "a 2.3, b 2.4",
                0,
            ),
            (
                "a switch published twice, then a late event",
                "a 1.1@0-1, a 2.1@0-5!, b 2.1@0-5!, a 2.1@0-5!, b 2.1@0-5!, a 2.2@0-6, a 2.1@0-5!",
                "a 2.2, b 2.1",
                1,
            ),
            ("a late event of an old epoch", "a 1.9@0-3, a 2.2@0-5!, a 1.9@0-3", "a 2.2", 1),
            ("back to the old build", "a 1.9@0-3, a 2.2@0-5!, a 3.9@0-7!, a 2.2@0-5!", "a 3.9", 1),
            ("another epoch", "a 1.1@0-9, a 1.2@65536-1, a 1.1@0-9", "a 1.2", 1),
        ] {
            let read = PartitionReader::run(events, 1);
            let shown = (read.shown(), read.recent_reads);
            assert_eq!(shown, (newest.to_owned(), recent_reads), "{what}");
        }
    }

    /// An event that was taken before the recent events is not taken a second time.
    #[test]
    fn an_event_older_than_all_recent_events_is_old() {
        let mut marks = Marks::new(1);
        assert_eq!(marks.judge(&event("a 1.2@0-7")), Novelty::News);
        marks.passed(2);
        marks.passed(2 + REACH);
        assert_eq!(marks.from(), 1);
        assert_eq!(marks.judge(&event("b 1.1@0-9")), Novelty::News);
        marks.passed(3 + 2 * REACH);
        assert_eq!(marks.from(), 2 + REACH, "the recent events move on, and reach far enough");
        marks.remember(1, &[event("b 1.1@0-9")]);
        for (text, novelty) in
            [("a 1.1@0-6", Novelty::Old), ("c 1.1@0-8", Novelty::News), ("c 1.1@0-8", Novelty::Old)]
        {
            assert_eq!(marks.judge(&event(text)), novelty, "{text}");
        }
    }

    #[test]
    fn events_that_orders_no_longer_holds_count_as_taken() {
        let events = "a 1.1@0-1, a 1.2@0-4, b 1.1@0-6, a 1.1@0-1, c 1.1@0-5, b 1.1@0-6";
        assert_eq!(PartitionReader::run(events, 3).shown(), "a 1.2, b 1.1");
        assert_eq!(PartitionReader::run(events, 1).shown(), "a 1.2, b 1.1, c 1.1");
    }

    #[test]
    fn a_note_is_never_longer_than_a_broker_takes() {
        let mut marks = Marks::new(7);
        for partition in 0..1_000 {
            let text = format!("a 1.1@{partition}-{}", u64::MAX / 2);
            assert_eq!(marks.judge(&event(&text)), Novelty::News);
        }
        let note = marks.encode();
        assert!(note.len() <= NOTE_MAX, "{}", note.len());
        let read = Marks::decode(&note, 9).unwrap();
        assert!(read.high.len() > 100 && read.high.keys().all(|kept| *kept > 500));
        assert!(matches!(Marks::decode("2 x", 9), Err(EngineError::Corrupt(_))));
    }
}
