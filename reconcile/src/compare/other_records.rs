//! Owns what other days' records mean for the comparison of one: what another day lists, too, is a
//! double; what no day lists is missing on its own day.

use chrono::NaiveDate;
use payfold_schemas::finding::{BookLine, Code};
use payfold_schemas::time::Time;

use super::super::day_rules::{DayPosition, day_of};
use super::super::difference::{Difference, DoubledItem, difference};
use super::super::other_days::{ItemIds, ListedItem, OtherRecords, OwnListing};
use super::{Comparison, Item, listed_item};

impl<'a> Comparison<'a> {
    /// When a payment or refund of ours was made: an undated payment when its order was first seen.
    pub(super) fn time_of_item(&self, item: Item<'_>) -> Option<Time> {
        match item.refund {
            Some(refund) => refund.money.at,
            None => self.ours.map(|order| item.known.paid_at(order)),
        }
    }

    /// The ids of an item, and its day. `None` for most items: those of this day that are not near
    /// its ends, in an order without findings.
    fn apart(&self, item: Item<'_>) -> Option<(&OtherRecords<'a>, ItemIds, NaiveDate)> {
        let others = self.others.as_ref()?;
        let at = self.time_of_item(item)?;
        let is_within =
            self.rules.day_position(at) == DayPosition::Inside && !self.rules.is_head_of_today(at);
        if is_within && !others.is_watched {
            return None;
        }
        let listed = listed_item(item);
        let is_listed = self.rules.lists.has(listed.status);
        is_listed.then(|| (others, (others.ids)(&listed), day_of(at, self.rules.zone)))
    }

    /// Whether the run of a day reads this order without a line, so that it says what its records
    /// lack of it.
    fn is_read_for(&self, day: NaiveDate) -> bool {
        let oldest = self.rules.oldest_order(day);
        self.ours.is_some_and(|order| order.first_seen >= oldest)
    }

    /// Whether the records of an item's own day, which is another one, are known to list it.
    fn is_listed_by_own_day(
        &self,
        others: &OtherRecords<'_>,
        own_day: NaiveDate,
        ids: ItemIds,
    ) -> bool {
        others.own_listing(own_day, ids) == OwnListing::Listed && self.is_read_for(own_day)
    }

    /// Whether the records of another day list an item, so that a line of this day is rather about
    /// another item.
    pub(super) fn is_listed_on_other_day(&self, item: Item<'_>) -> bool {
        self.apart(item).is_some_and(|(others, ids, own_day)| {
            others.lister(ids).is_some() || self.is_listed_by_own_day(others, own_day, ids)
        })
    }

    /// Whether the records of an item's own day, which is another one, are known not to list it.
    pub(super) fn is_left_over(&self, item: Item<'_>) -> bool {
        self.apart(item).is_some_and(|(others, ids, own_day)| {
            others.own_listing(own_day, ids) == OwnListing::Unlisted
        })
    }

    /// Adds a double if the records of another day list the item of this line, too; else the
    /// difference that the line is otherwise.
    pub(super) fn add_double(
        &mut self,
        item: Item<'_>,
        line: &BookLine,
        otherwise: Option<Difference>,
    ) {
        let today = self.rules.day;
        let other = self.apart(item).and_then(|(others, ids, own_day)| {
            let lister = others.lister(ids);
            match own_day == today {
                // The finding is of the day that is not the item's own.
                true => lister.filter(|_| self.is_read_for(today)).map(|day| (day, today, None)),
                false if self.is_listed_by_own_day(others, own_day, ids) => {
                    Some((today, own_day, Some(own_day)))
                }
                false => lister.map(|day| (today.max(day), today.min(day), None)),
            }
        });
        let refunded = item.refund.map(|refund| refund.money);
        let Some(money) = refunded.or_else(|| item.known.paid.first().copied()) else { return };
        let Some((day, other_day, inferred_from)) = other else {
            self.outcome.differences.extend(otherwise);
            return;
        };
        let ListedItem { provider_ref, part, .. } = listed_item(item);
        let found = Difference {
            provider_ref: Some(provider_ref),
            part,
            ours: "once".to_owned(),
            partners: format!("2 times, also in the records of {other_day}"),
            line: (day == today).then_some(line.line),
            at_risk: money.amount.minor(),
            currency: money.currency,
            ..difference(Code::DuplicatedThere, "providerRef", line)
        };
        let refunded_by = item.refund.map(|refund| refund.position);
        let counts_since = refunded_by.or(item.known.counts_since);
        let doubled = DoubledItem { counts_since, day, inferred_from, found, otherwise };
        self.outcome.doubled.push(doubled);
    }

    /// What an item that these records don't list is: nothing if another day's list it; missing,
    /// now or on its own day; or left to tomorrow's records.
    pub(super) fn fate_of_unlisted(&self, item: Item<'_>, at: Time) -> Fate {
        let position = self.rules.day_position(at);
        let own_day = matches!(position, DayPosition::Inside | DayPosition::NearEnd);
        let Some(others) = &self.others else {
            return match position {
                DayPosition::Inside => Fate::Missing,
                DayPosition::NearEnd => Fate::WaitsForTomorrow,
                _ if self.rules.is_tail_of_yesterday(at) => Fate::MissingOn(self.rules.yesterday()),
                _ => Fate::Nothing,
            };
        };
        let is_near = position == DayPosition::Neighbour;
        if !own_day && !is_near && !others.is_watched {
            return Fate::Nothing;
        }
        let ids = (others.ids)(&listed_item(item));
        if others.lister(ids).is_some() {
            return Fate::Nothing;
        }
        if own_day {
            let is_settled = position == DayPosition::Inside
                || others.has_said(self.rules.tomorrow())
                || others.is_missed(ids);
            return if is_settled { Fate::Missing } else { Fate::WaitsForTomorrow };
        }
        let day = day_of(at, self.rules.zone);
        let was_expected = self.rules.is_tail_of_yesterday(at) || others.was_listed_before(ids);
        match others.own_listing(day, ids) {
            OwnListing::Unlisted if was_expected => Fate::MissingOn(day),
            OwnListing::Unlisted | OwnListing::Listed | OwnListing::Unknown => Fate::Nothing,
        }
    }
}

/// What an item that these records don't list is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Nothing,
    Missing,
    WaitsForTomorrow,
    MissingOn(NaiveDate),
}
