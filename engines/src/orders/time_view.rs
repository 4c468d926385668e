//! Owns the views that are sorted by time, and the walks along them. Invariant: a walk starts right
//! behind the entry that its cursor names, whatever was added meanwhile, and stays in its window.

use payfold_schemas::time::Time;

use super::cursor::{after_time, before_time};
use super::{Cursor, Scan, ViewEntry};
use crate::EngineError;

/// The views that are sorted by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum TimeView {
    Created,
    Deadline,
}

impl TimeView {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Deadline => "deadline",
        }
    }

    pub(super) fn entry(self, nanos: i64) -> ViewEntry {
        let time = Time::from_unix_nanos(nanos);
        match self {
            Self::Created => ViewEntry::Created(time),
            Self::Deadline => ViewEntry::Deadline(time),
        }
    }
}

/// The end of a view that a walk begins at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    OldestFirst,
    NewestFirst,
}

/// A walk along a time view.
pub(super) struct TimeWalk<'a> {
    pub(super) view: TimeView,
    pub(super) direction: Direction,
    /// The (unix nanoseconds, key) that it starts behind. No key is empty, so the empty key is
    /// before every entry of its instant.
    pub(super) start: (i64, &'a str),
    /// The other end of the window, in unix nanoseconds. Forwards it is not part of the window,
    /// backwards it is.
    pub(super) end: i64,
}

impl<'a> TimeWalk<'a> {
    /// The walk of a scan after a cursor; `None` for a scan by name. Errors: `Invalid`.
    pub(super) fn of(scan: &Scan, after: Option<&'a Cursor>) -> Result<Option<Self>, EngineError> {
        let forwards = |view: TimeView, from, until: Time| {
            let start = after_time(view.name(), after, from)?;
            let (direction, end) = (Direction::OldestFirst, until.unix_nanos());
            Ok(Some(Self { view, direction, start, end }))
        };
        match *scan {
            Scan::Created { from, until } => forwards(TimeView::Created, from, until),
            Scan::Deadline { from, until } => forwards(TimeView::Deadline, from, until),
            Scan::Newest { from, until } => {
                let (view, direction) = (TimeView::Created, Direction::NewestFirst);
                let start = before_time(after, until)?;
                Ok(Some(Self { view, direction, start, end: from.unix_nanos() }))
            }
            Scan::Reference(..) | Scan::ProviderRef(..) | Scan::Nonce(..) => Ok(None),
        }
    }
}
