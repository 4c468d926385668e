//! Owns the bounds of the numbers in a profile. The parser and the JSON schema for editors both use
//! them, so the two can't differ.

use std::fmt;

/// The smallest and the largest allowed number, both inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) min: usize,
    pub(crate) max: usize,
}

impl Bounds {
    pub(crate) const fn new(min: usize, max: usize) -> Self {
        Self { min, max }
    }

    /// Whether a number is within the bounds. A negative number never is.
    pub(crate) fn contain<T: TryInto<usize>>(self, number: T) -> bool {
        number.try_into().is_ok_and(|number| (self.min..=self.max).contains(&number))
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.min, self.max)
    }
}

const DAY_S: usize = 86_400;
const YEAR_S: usize = 365 * DAY_S;

pub(crate) const RETRY_HORIZON_S: Bounds = Bounds::new(0, YEAR_S);

/// `limits` of the default scheme. Its smallest notice has to fit.
pub(crate) const DEFAULT_BODY_BYTES: Bounds = Bounds::new(1_024, 1_048_576);
pub(crate) const DEFAULT_KEYS: Bounds = Bounds::new(10, 1_024);
/// `limits` of a custom scheme.
pub(crate) const BODY_BYTES: Bounds = Bounds::new(64, 1_048_576);
pub(crate) const KEYS: Bounds = Bounds::new(1, 4_096);
pub(crate) const DEPTH: Bounds = Bounds::new(1, 32);

pub(crate) const SKEW_S: Bounds = Bounds::new(1, DAY_S);
pub(crate) const MAX_AGE_S: Bounds = Bounds::new(1, YEAR_S);

/// The exponent of a currency's minor unit (ISO 4217).
pub(crate) const EXPONENT: Bounds = Bounds::new(0, 4);

/// The HTTP status of an answer to a notice.
pub(crate) const ACK_STATUS: Bounds = Bounds::new(200, 599);

/// The timeout of a call to a partner, and the size of its answer.
pub(crate) const TIMEOUT_S: Bounds = Bounds::new(1, 60);
pub(crate) const ANSWER_BYTES: Bounds = Bounds::new(1_024, 1_048_576);

pub(crate) const AT_ONCE: Bounds = Bounds::new(1, 64);
pub(crate) const PER_S: Bounds = Bounds::new(1, 1_000);
/// The HTTP statuses that may mean that the partner knows no such payment.
pub(crate) const NOT_FOUND: Bounds = Bounds::new(400, 499);

pub(crate) const SESSION_TTL_S: Bounds = Bounds::new(60, YEAR_S);
pub(crate) const SESSION_GRACE_S: Bounds = Bounds::new(0, DAY_S);
pub(crate) const MAX_SESSION_S: Bounds = Bounds::new(1, 7 * DAY_S);

pub(crate) const TOKEN_TTL_S: Bounds = Bounds::new(1, DAY_S);

/// `[records]`: the format of the file, and the tolerances of its times.
pub(crate) const COLUMNS: Bounds = Bounds::new(1, 1_000);
pub(crate) const SKIP_HEAD: Bounds = Bounds::new(0, 1_000);
pub(crate) const TAIL_LINES: Bounds = Bounds::new(1, 16);
pub(crate) const RECORDS_GRACE_S: Bounds = Bounds::new(0, 31 * DAY_S);
pub(crate) const TIME_TOLERANCE_S: Bounds = Bounds::new(0, 31 * DAY_S);
pub(crate) const CUT_OFF_S: Bounds = Bounds::new(0, DAY_S / 2);
