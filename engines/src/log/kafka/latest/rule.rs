//! Owns which events of a partition of `orders` are news to its compacted twin, where the last message of a key hides
//! all before it.
//!
//! Events of one partition of intake come in log order, so one whose cause stands above every cause seen so far is the
//! newest of its order. One that does not is a repeat (a projector goes on after a crash), fills a gap (an append that
//! failed in part is done again whole) or is late (a projector that was frozen). Which of these, what came lately tells:
//! the order's last event if it is there; if not, its last event is older than what came lately, and so is the cause of
//! anything that was taken before.
//! Pure. Invariant: of two events of an order the lower (generation, version) is never news after the higher one, as long
//! as gaps are filled before `REACH` further events.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use payfold_schemas::record::Position;

use crate::EngineError;

/// How many messages of a partition `Marks` reach back at least: two of the largest batches of a projector.
pub(super) const REACH: u64 = 50_000;

/// The longest note a broker takes with an offset, bytes.
const NOTE_MAX: usize = 4_096;

/// Of an event what counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// The order.
    pub(super) key: String,
    /// Generation and version.
    pub(super) number: (u32, u64),
    /// The record of intake that made it.
    pub(super) cause: Position,
    /// Nothing changed: a rebuild sees the order in another way. Many such events have one cause, a marker.
    pub(super) is_rebuilt: bool,
}

/// What an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The newest of its order.
    News,
    /// Something newer of its order is there, or itself.
    Old,
    /// Nobody can tell without what came lately: `remember` it, then ask again.
    Look,
}

/// How far a partition of `orders` was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Marks {
    /// The offset in `orders` that what came lately begins at.
    from: u64,
    /// By partition of intake, the highest cause before `from`; one that is not here had none.
    low: BTreeMap<u32, u64>,
    /// The highest cause so far.
    high: BTreeMap<u32, u64>,
    /// What `from` and `low` are next.
    next: (u64, BTreeMap<u32, u64>),
    /// The number of each order's newest event since `from`, while somebody asks.
    lately: Option<HashMap<String, (u32, u64)>>,
    /// Somebody has asked since `rest`.
    asked: bool,
}

impl Marks {
    /// Nothing was seen; the first message stands at `from`.
    pub(super) fn new(from: u64) -> Self {
        let (low, high, next) = (BTreeMap::new(), BTreeMap::new(), (from, BTreeMap::new()));
        Self { from, low, high, next, lately: None, asked: false }
    }

    /// Where what came lately begins.
    pub(super) fn from(&self) -> u64 {
        self.from
    }

    /// What the next event is.
    pub(super) fn judge(&mut self, event: &Event) -> Verdict {
        let Position { partition, offset } = event.cause;
        let is_first = match self.high.get(&partition) {
            None => true,
            // A rebuild tells of many orders at one marker, and before anything that comes after it.
            Some(high) => offset > *high || (event.is_rebuilt && offset == *high),
        };
        if is_first {
            self.high.insert(partition, offset);
        }
        self.asked |= !is_first;
        let Some(lately) = &mut self.lately else {
            return if is_first { Verdict::News } else { Verdict::Look };
        };
        let is_news = is_first
            || match lately.get(&event.key) {
                Some(known) => event.number > *known,
                None => self.low.get(&partition).is_none_or(|low| offset > *low),
            };
        if !is_news {
            return Verdict::Old;
        }
        note(lately, event);
        Verdict::News
    }

    /// What came lately, in order, up to the event that is asked about; the first message that is still held stands at
    /// `held_from`. What is held no longer counts as known.
    pub(super) fn remember(&mut self, held_from: u64, events: &[Event]) {
        let mut lately = HashMap::new();
        let mut low = self.low.clone();
        if held_from > self.from {
            low = self.high.clone();
            for event in events.iter().rev() {
                let Position { partition, offset } = event.cause;
                let high = self.high.get(&partition).copied().unwrap_or_default();
                low.insert(partition, offset.saturating_sub(1).min(high));
            }
        }
        events.iter().for_each(|event| note(&mut lately, event));
        (self.low, self.lately) = (low, Some(lately));
    }

    /// Forgets what came lately if nobody has asked since this was called last.
    pub(super) fn rest(&mut self) {
        if !std::mem::take(&mut self.asked) {
            self.lately = None;
        }
    }

    /// All before this offset was seen: moves on what counts as lately. What is remembered of it is forgotten then, or a
    /// projector that goes over a whole log once more would fill the memory.
    pub(super) fn passed(&mut self, offset: u64) {
        if offset.saturating_sub(self.next.0) >= REACH {
            let next = (offset, self.high.clone());
            (self.from, self.low) = std::mem::replace(&mut self.next, next);
            self.lately = None;
        }
    }

    /// As it is kept beside the place. What is too long for that is left out, the oldest epochs' partitions first:
    /// nothing is appended to them any more.
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

    /// As it was kept; everything before `next` was seen. Errors: `Corrupt`, it says something else.
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

fn note(lately: &mut HashMap<String, (u32, u64)>, event: &Event) {
    let newest = lately.entry(event.key.clone()).or_insert(event.number);
    *newest = event.number.max(*newest);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `key generation.version@partition-offset`, with `!` behind it for one that is rebuilt.
    fn event(text: &str) -> Event {
        let is_rebuilt = text.ends_with('!');
        let (key, rest) = text.trim_end_matches('!').split_once(' ').unwrap();
        let (number, cause) = rest.split_once('@').unwrap();
        let (generation, version) = number.split_once('.').unwrap();
        let number = (generation.parse().unwrap(), version.parse().unwrap());
        Event { key: key.to_owned(), number, cause: cause.parse().unwrap(), is_rebuilt }
    }

    /// A partition of `orders` as it is read: where reading began, and what stands there. After each event the marks are
    /// kept and read again, as in another process.
    #[derive(Default)]
    struct Read {
        all: Vec<Event>,
        newest: BTreeMap<String, (u32, u64)>,
        looks: usize,
    }

    impl Read {
        fn run(events: &str, held_from: u64) -> Self {
            let mut read = Self::default();
            let mut marks = Marks::new(1);
            for (at, text) in (1_u64..).zip(events.split(", ")) {
                let event = event(text);
                let mut verdict = marks.judge(&event);
                if verdict == Verdict::Look {
                    read.looks += 1;
                    let first = usize::try_from(marks.from().max(held_from)).unwrap() - 1;
                    marks.remember(held_from, &read.all[first.min(read.all.len())..]);
                    verdict = marks.judge(&event);
                }
                if verdict == Verdict::News {
                    read.newest.insert(event.key.clone(), event.number);
                }
                read.all.push(event);
                marks.passed(at + 1);
                marks = Marks::decode(&marks.encode(), at + 1).unwrap();
            }
            read
        }

        fn shown(&self) -> String {
            let of = |(key, (generation, version)): (&String, &(u32, u64))| {
                format!("{key} {generation}.{version}")
            };
            self.newest.iter().map(of).collect::<Vec<_>>().join(", ")
        }
    }

    #[test]
    fn the_last_that_is_news_of_an_order_is_its_newest() {
        for (what, events, newest, looks) in [
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
                "a switch told twice, then one late",
                "a 1.1@0-1, a 2.1@0-5!, b 2.1@0-5!, a 2.1@0-5!, b 2.1@0-5!, a 2.2@0-6, a 2.1@0-5!",
                "a 2.2, b 2.1",
                1,
            ),
            ("an old generation's, late", "a 1.9@0-3, a 2.2@0-5!, a 1.9@0-3", "a 2.2", 1),
            ("back to the old tables", "a 1.9@0-3, a 2.2@0-5!, a 3.9@0-7!, a 2.2@0-5!", "a 3.9", 1),
            ("another epoch", "a 1.1@0-9, a 1.2@65536-1, a 1.1@0-9", "a 1.2", 1),
        ] {
            let read = Read::run(events, 1);
            assert_eq!((read.shown().as_str(), read.looks), (newest, looks), "{what}");
        }
    }

    /// What was taken before what is remembered is not taken again, however old it is.
    #[test]
    fn what_is_older_than_all_that_came_lately_is_old() {
        let mut marks = Marks::new(1);
        assert_eq!(marks.judge(&event("a 1.2@0-7")), Verdict::News);
        marks.passed(2);
        marks.passed(2 + REACH);
        assert_eq!(marks.from(), 1);
        assert_eq!(marks.judge(&event("b 1.1@0-9")), Verdict::News);
        marks.passed(3 + 2 * REACH);
        assert_eq!(marks.from(), 2 + REACH, "what came lately moves on, and reaches far enough");
        marks.remember(1, &[event("b 1.1@0-9")]);
        for (text, verdict) in
            [("a 1.1@0-6", Verdict::Old), ("c 1.1@0-8", Verdict::News), ("c 1.1@0-8", Verdict::Old)]
        {
            assert_eq!(marks.judge(&event(text)), verdict, "{text}");
        }
    }

    #[test]
    fn what_is_held_no_longer_counts_as_known() {
        let events = "a 1.1@0-1, a 1.2@0-4, b 1.1@0-6, a 1.1@0-1, c 1.1@0-5, b 1.1@0-6";
        assert_eq!(Read::run(events, 3).shown(), "a 1.2, b 1.1");
        assert_eq!(Read::run(events, 1).shown(), "a 1.2, b 1.1, c 1.1");
    }

    #[test]
    fn a_note_is_never_longer_than_a_broker_takes() {
        let mut marks = Marks::new(7);
        for partition in 0..1_000 {
            let text = format!("a 1.1@{partition}-{}", u64::MAX / 2);
            assert_eq!(marks.judge(&event(&text)), Verdict::News);
        }
        let note = marks.encode();
        assert!(note.len() <= NOTE_MAX, "{}", note.len());
        let read = Marks::decode(&note, 9).unwrap();
        assert!(read.high.len() > 100 && read.high.keys().all(|kept| *kept > 500));
        assert!(matches!(Marks::decode("2 x", 9), Err(EngineError::Corrupt(_))));
    }
}
