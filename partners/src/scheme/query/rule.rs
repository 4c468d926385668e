//! Owns the rule of a query: its call, and the meaning of its answers.

use payfold_schemas::ipn::Status;

use crate::profile::query::{QueryPace, StatusMeaning};
use crate::scheme::call::rule::{AnswerContent, CallRule};
use crate::scheme::rules::{MapRule, MatchCondition, ValuePlaces};

/// The values that a query's templates may name after those of `COMMON`. `order_without_ref` is the
/// order while no transaction is known, and empty afterwards.
pub(crate) const VALUES: [&str; 2] = ["ref", "order_without_ref"];

/// The index of `{ref}`.
pub(crate) const REF: usize = crate::scheme::call::rule::COMMON.len();

/// The index of `{order_without_ref}`.
pub(crate) const ORDER_WITHOUT_REF: usize = REF + 1;

/// The compiled `[query]`.
#[derive(Clone, Debug)]
pub(crate) struct SchemeQuery {
    pub(crate) question: CallRule,
    pub(crate) answer: AnswerRule,
    /// Timeout of the whole call, from connecting to the last byte of the answer, ms.
    pub(crate) timeout_ms: u64,
    pub(crate) pace: QueryPace,
}

/// `[[query.event]]`: the first event with conditions that all hold gives the meaning of an answer.
#[derive(Clone, Debug)]
pub(crate) struct AnswerEvent {
    pub(crate) when: Vec<MatchCondition>,
    pub(crate) meaning: StatusMeaning,
    pub(crate) places: ValuePlaces,
}

/// How an answer is read.
#[derive(Clone, Debug)]
pub(crate) struct AnswerRule {
    pub(crate) content: AnswerContent,
    /// Texts must be JSON strings and the amount a JSON number.
    pub(crate) is_strict: bool,
    /// The HTTP statuses that mean: no such payment.
    pub(crate) not_found: Vec<u16>,
    pub(crate) bytes_max: usize,
    pub(crate) map: MapRule,
    pub(crate) events: Vec<AnswerEvent>,
}

impl AnswerEvent {
    /// The status that this event ends a payment with. `None` if it does not end it.
    pub(crate) fn status(&self) -> Option<Status> {
        match self.meaning {
            StatusMeaning::Terminal(status) => Some(status),
            StatusMeaning::Pending | StatusMeaning::Unknown => None,
        }
    }
}
