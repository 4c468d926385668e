//! Owns which payment or refund of ours each line is about: the one that the line names, else one
//! of its money, the nearest in time first. Each is one line's at most.

use std::collections::BTreeSet;

use payfold_schemas::finding::BookLine;
use payfold_schemas::ipn::Status;
use payfold_schemas::time::Time;

use super::super::day_rules::DayPosition;
use super::super::difference::{is_same_money, time_of};
use super::super::ours::{Money, OurOrder, OurRef};
use super::{Comparison, Item, content};

/// How well a line fits an item; the best comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// Both have the same name of the refund, and the money is the same.
    NameAndMoney,
    /// Both have the same name of the refund.
    Name,
    /// The line names the ref, and the money is the same.
    RefAndMoney,
    /// The line names the ref of the payment.
    Ref,
    /// The line names no ref, and the money is the same.
    Money,
}

/// A line, and an item that it may be about.
struct Pair<'a> {
    /// How well they fit, and whether the line names no refund.
    rank: (Fit, bool),
    distance: (u8, u64),
    /// The place of the line, and the number of the item.
    place: usize,
    number: usize,
    item: Item<'a>,
    at: Option<Time>,
}

impl<'a> Comparison<'a> {
    /// Matches lines with items, the best fit first. A line that names a refund fits fewer items
    /// than one that does not, so it comes first.
    pub(super) fn match_lines(&mut self, lines: &[&'a BookLine]) {
        let Some(ours) = self.ours else { return };
        let (items, first_equal) = (items_of(ours), first_equal(lines));
        let mut pairs = Vec::new();
        for (place, line) in lines.iter().enumerate() {
            // Of more equal lines than there are items the others can have none.
            if place - first_equal[place] >= items.len() {
                continue;
            }
            pairs.extend(items.iter().filter_map(|(number, item, money)| {
                let rank = (fit(line, item, money)?, line.event_ref.is_none());
                let is_named = matches!(rank.0, Fit::NameAndMoney | Fit::Name);
                // What was paid tomorrow can't be on a line of today, but for a clock that differs.
                let is_later = |at| self.rules.is_head_of_tomorrow(at);
                let is_unlike = |at| is_later(at) && !self.rules.agree(at, time_of(line));
                if !is_named && item.refund.is_some() && money.at.is_some_and(is_unlike) {
                    return None;
                }
                let distance = self.distance(*item, money.at, line);
                Some(Pair { rank, distance, place, number: *number, item: *item, at: money.at })
            }));
        }
        pairs.sort_unstable_by_key(|pair| (pair.rank, pair.distance, pair.place, pair.number));
        let (mut taken, mut matched) = (BTreeSet::new(), BTreeSet::new());
        for Pair { rank: (fit, _), place, number, item, at, .. } in pairs {
            let (line, first) = (lines[place], first_equal[place]);
            let is_named = matches!(fit, Fit::NameAndMoney | Fit::Name);
            if taken.contains(&number)
                || self.matches.contains_key(&std::ptr::from_ref(line))
                || (!is_named && matched.contains(&first) && !self.may_be_of_day(item, at, line))
            {
                continue;
            }
            taken.insert(number);
            matched.insert(first);
            self.matches.insert(std::ptr::from_ref(line), item);
        }
    }

    /// Whether this day's records may list an item of this time. What another day's records list
    /// can't be on a second line that equals a matched one: a line that is there twice would hide
    /// behind it.
    pub(super) fn may_be_of_day(&self, item: Item<'_>, at: Option<Time>, line: &BookLine) -> bool {
        let Some(at) = at else { return true };
        match self.rules.day_position(at) {
            DayPosition::Inside | DayPosition::NearEnd => true,
            DayPosition::Neighbour if self.rules.agree(at, time_of(line)) => true,
            DayPosition::Neighbour if self.is_left_over(item) => true,
            DayPosition::Neighbour | DayPosition::OtherDay => !self.rules.lists.has(line.status),
        }
    }

    /// How far an item of this time is from a line: of this day or near it, undated, of another
    /// day, listed by another day's records; then the time between them. Without times, what is of
    /// the day comes before what is near it.
    fn distance(&self, item: Item<'_>, at: Option<Time>, line: &BookLine) -> (u8, u64) {
        let Some(at) = at else { return (2, 0) };
        let class = match self.rules.day_position(at) {
            _ if self.is_listed_on_other_day(item) => 4,
            DayPosition::Inside | DayPosition::NearEnd => 0,
            DayPosition::Neighbour => u8::from(self.rules.time_tolerance_ms.is_none()),
            DayPosition::OtherDay => 3,
        };
        (class, at.nanos_since(time_of(line)).unsigned_abs())
    }

    /// The item that a line is about.
    pub(super) fn item_of(&self, line: &BookLine) -> Option<Item<'a>> {
        self.matches.get(&std::ptr::from_ref(line)).copied()
    }

    /// Our ref that a line is about: the ref that the line names. If the line names no ref: our
    /// only ref, else the one of its item, else our first paid ref.
    pub(super) fn counterpart(&self, line: &BookLine) -> Option<&'a OurRef> {
        let ours = self.ours?;
        match &line.provider_ref {
            Some(provider_ref) => ours.find(provider_ref),
            None => match ours.refs.as_slice() {
                [only] => Some(only),
                refs => {
                    let found = self.item_of(line).map(|item| item.known);
                    found.or_else(|| refs.iter().find(|known| known.is_paid()))
                }
            },
        }
    }

    /// How often we have what a line says, if the line is one too many: nothing is left that it
    /// could be about, and an equal line comes before it or has a match.
    pub(super) fn surplus(&self, line: &BookLine, lines: &[&BookLine]) -> Option<usize> {
        if self.item_of(line).is_some() {
            return None;
        }
        let mut equal = lines.iter().filter(|other| content(other) == content(line)).peekable();
        let is_first = equal.peek().is_none_or(|first| std::ptr::eq(**first, line));
        let matched = equal.filter(|other| self.item_of(other).is_some()).count();
        (matched > 0 || !is_first).then_some(matched)
    }
}

/// For each line the place of the first that equals it. Equal lines are next to each other.
fn first_equal(lines: &[&BookLine]) -> Vec<usize> {
    let mut first = 0;
    let place_of_first = |(place, line): (usize, &&BookLine)| {
        if content(lines[first]) != content(line) {
            first = place;
        }
        first
    };
    lines.iter().enumerate().map(place_of_first).collect()
}

/// The payments and refunds of an order, each with a number and its money. A payment has several
/// moneys if notices and answers state several.
fn items_of(ours: &OurOrder) -> Vec<(usize, Item<'_>, Money)> {
    let mut items = Vec::new();
    for known in &ours.refs {
        let payment = Item { known, refund: None };
        let number = items.len();
        // An undated payment is of the day when the order was first seen.
        let dated = |money: &Money| Money { at: money.at.or(Some(ours.first_seen)), ..*money };
        items.extend(known.paid.iter().map(|money| (number, payment, dated(money))));
        if known.paid.is_empty() {
            items.extend(known.payment().map(|implied| (number, payment, implied)));
        }
        for refund in &known.refunds {
            items.push((items.len(), Item { known, refund: Some(refund) }, refund.money));
        }
    }
    items
}

/// How well a line fits an item; `None` if it is about another one.
fn fit(line: &BookLine, item: &Item<'_>, money: &Money) -> Option<Fit> {
    let names_ref = line.provider_ref.as_ref();
    if names_ref.is_some_and(|named| *named != item.known.provider_ref) {
        return None;
    }
    let is_same_money = is_same_money(money, line);
    match (line.status, item.refund) {
        (Status::Success, None) if names_ref.is_some() => {
            Some(if is_same_money { Fit::RefAndMoney } else { Fit::Ref })
        }
        (Status::Success, None) => is_same_money.then_some(Fit::Money),
        (Status::Refunded, Some(refund)) => match (&refund.event_ref, &line.event_ref) {
            (Some(ours), Some(theirs)) => (ours == theirs).then_some(if is_same_money {
                Fit::NameAndMoney
            } else {
                Fit::Name
            }),
            _ if !is_same_money => None,
            _ if names_ref.is_some() => Some(Fit::RefAndMoney),
            _ => Some(Fit::Money),
        },
        _ => None,
    }
}
