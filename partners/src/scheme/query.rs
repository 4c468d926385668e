//! Owns the query call of a partner's own scheme: what a profile says of it, and the request one question becomes.
//! Pure. `answer` judges what comes back.
//!
//! Invariant: a question that names the transaction is not asked while none is known.

mod answer;

use payfold_schemas::ids::ProviderRef;
use payfold_schemas::ipn::Status;
use payfold_schemas::time::Time;

use super::call::{self, AnswerContent, CallRule, Common, Uncallable};
use super::template::Source;
use super::{Condition, MapRule, Places};
use crate::profile::{QueryPace, Word};
use crate::query::Question;

pub(crate) use self::answer::judge;

/// What the templates of a question may name besides what those of every call may.
pub(crate) const VALUES: [&str; 1] = ["ref"];
/// The number of `{ref}`.
pub(crate) const REF: usize = call::COMMON.len();

/// How a payment is asked for.
#[derive(Clone, Debug)]
pub(crate) struct SchemeQuery {
    pub(crate) question: CallRule,
    pub(crate) answer: AnswerRule,
    /// The whole call, from connecting to the last byte of the answer, ms.
    pub(crate) timeout_ms: u64,
    pub(crate) pace: QueryPace,
}

/// One kind of answer: the first whose conditions all hold says what it is.
#[derive(Clone, Debug)]
pub(crate) struct AnswerEvent {
    pub(crate) when: Vec<Condition>,
    pub(crate) word: Word,
    pub(crate) places: Places,
}

/// What is made of an answer.
#[derive(Clone, Debug)]
pub(crate) struct AnswerRule {
    pub(crate) content: AnswerContent,
    /// The statuses that mean: no such payment.
    pub(crate) not_found: Vec<u16>,
    pub(crate) bytes_max: usize,
    pub(crate) map: MapRule,
    pub(crate) events: Vec<AnswerEvent>,
}

impl AnswerEvent {
    /// The status an answer of this kind ends a payment with.
    pub(crate) fn status(&self) -> Option<Status> {
        match self.word {
            Word::Terminal(status) => Some(status),
            Word::Pending | Word::Unknown => None,
        }
    }
}

impl SchemeQuery {
    /// Whether it asks for one transaction, so that the answer must be about that one.
    pub(crate) fn names_ref(&self) -> bool {
        self.question.names(REF)
    }

    /// Whether it can't be asked without one.
    pub(crate) fn needs_ref(&self) -> bool {
        self.question.templates().iter().any(|template| template.needs(&Source::Value(REF)))
    }

    /// What the templates may name, for a question. Errors: `NoRef`.
    pub(crate) fn values(&self, question: &Question, now: Time) -> Result<Vec<String>, Uncallable> {
        let provider_ref = question.provider_ref.as_ref().map_or("", ProviderRef::as_str);
        if provider_ref.is_empty() && self.needs_ref() {
            return Err(Uncallable::NoRef);
        }
        let about = question.order_id.as_str();
        let mut values = Common { about, format: &self.question.now, now }.values();
        values.push(provider_ref.to_owned());
        Ok(values)
    }
}

#[cfg(test)]
mod tests;
