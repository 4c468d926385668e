//! Owns the query to a partner with a custom scheme: the values of the question. `rule` holds what
//! a profile says, `answer` judges the answer. Pure.
//!
//! Invariant: a question that must name the transaction is not asked while none is known.

mod answer;
pub(crate) mod rule;

use payfold_schemas::ids::ProviderRef;
use payfold_schemas::time::Time;

pub(crate) use self::answer::find_event;
use super::call::{CallBuildError, CommonValues};
use super::template::{Template, TokenSource};
use crate::query::PaymentQuery;
use crate::scheme::query::rule::{ORDER_WITHOUT_REF, REF, SchemeQuery};

impl SchemeQuery {
    /// Whether it names a transaction, so that the answer must be about that transaction.
    pub(crate) fn names_ref(&self) -> bool {
        self.question.names(REF)
    }

    /// Whether it can't be asked without a transaction: a template requires one, and none uses the
    /// order instead.
    pub(crate) fn needs_ref(&self) -> bool {
        let needs = |template: &&Template| template.needs(&TokenSource::Value(REF));
        !self.question.names(ORDER_WITHOUT_REF) && self.question.templates().iter().any(needs)
    }

    /// The values that the templates may name, for a question. Errors: `NoRef`.
    pub(crate) fn values(
        &self,
        question: &PaymentQuery,
        now: Time,
    ) -> Result<Vec<String>, CallBuildError> {
        let mut provider_ref = question.provider_ref.as_ref().map_or("", ProviderRef::as_str);
        if self.needs_ref() {
            if provider_ref.is_empty() {
                return Err(CallBuildError::NoRef);
            }
        } else if matches!(provider_ref, "." | "..") {
            // `.` and `..` are resolved in a path, so the order is asked for instead.
            provider_ref = "";
        }
        let subject = question.order_id.as_str();
        let order_without_ref = if provider_ref.is_empty() { subject } else { "" };
        let mut values = CommonValues { subject, format: &self.question.now, now }.values();
        values.extend([provider_ref, order_without_ref].map(str::to_owned));
        Ok(values)
    }
}

#[cfg(test)]
mod tests;
