//! Owns the report of `demo pay`: for each set of troubles the expected and the actual result.

use std::collections::BTreeMap;

use payfold_sandbox::expectation::Expectation;
use payfold_schemas::order::{Flag, Order, OrderState, Severity};

use super::shop::CreateAnswer;
use crate::output;

const COLUMNS: [&str; 5] = ["trouble", "payments", "expected", "got", "result"];

/// The result of one payment.
pub(crate) struct PaymentResult {
    /// Its troubles.
    pub troubles: String,
    /// The expected result.
    pub expected: Expectation,
    /// The answer to the shop.
    pub answer: CreateAnswer,
    /// Its order, as last read.
    pub order: Option<Order>,
    /// Number of create calls that the partner received for it.
    pub create_calls: u64,
    /// Number of acknowledged notices.
    pub acked: usize,
}

impl PaymentResult {
    /// The actual result, as text.
    pub(crate) fn got(&self) -> String {
        let create = create(self.answer.status, self.answer.code.as_deref());
        let Some(order) = &self.order else { return format!("{create}, no order") };
        let summary = &order.summary;
        let open = summary.flags.iter().filter(|raised| raised.is_open());
        let flags = open.map(|raised| (raised.flag, raised.severity));
        describe_result(&create, (summary.state, summary.fulfil), flags)
    }

    /// The expected result, as text.
    pub(crate) fn wanted(&self) -> String {
        let expected = &self.expected;
        let create = create(expected.create.status, expected.create.code.as_deref());
        describe_result(&create, (expected.state, expected.fulfil), expected.flags.iter().copied())
    }

    /// The expected result after a query. If all notices of a payment are refused, the payment
    /// stays pending until the reconciler queries the partner. The reconciler does so if the demo
    /// takes longer than a minute.
    fn wanted_after_query(&self) -> Option<String> {
        let expected = &self.expected;
        let waits = expected.state == OrderState::Pending && expected.flags.is_empty();
        let create = create(expected.create.status, expected.create.code.as_deref());
        let flag = (Flag::SettledByQuery, Severity::Info);
        waits.then(|| describe_result(&create, (OrderState::Paid, true), [flag].into_iter()))
    }

    /// Whether result, number of create calls and number of acknowledged notices are as expected.
    pub(crate) fn is_as_expected(&self) -> bool {
        let got = self.got();
        (got == self.wanted() || Some(got) == self.wanted_after_query())
            && self.create_calls == u64::from(self.expected.calls)
            && self.acked == self.expected.acked
    }

    /// The numbers that differ, for the table.
    fn counts(&self) -> String {
        let mut text = String::new();
        if self.create_calls != u64::from(self.expected.calls) {
            text = format!("; {} create calls, not {}", self.create_calls, self.expected.calls);
        }
        if self.acked != self.expected.acked {
            text = format!("{text}; {} acked, not {}", self.acked, self.expected.acked);
        }
        text
    }
}

/// Suffixes of an order that must not be fulfilled, and of one that may be.
const FULFIL: [&str; 2] = ["", " fulfil"];

fn create(status: u16, code: Option<&str>) -> String {
    code.map_or(status.to_string(), |code| format!("{status} {code}"))
}

fn describe_result(
    create: &str,
    (state, fulfil): (OrderState, bool),
    flags: impl Iterator<Item = (Flag, Severity)>,
) -> String {
    let mut flags: Vec<_> =
        flags.map(|(flag, severity)| format!(" {flag}/{}", severity.as_str())).collect();
    flags.sort();
    format!("{create}, {state}{}{}", FULFIL[usize::from(fulfil)], flags.concat())
}

/// Prints the table. Returns how many payments are not as expected.
pub(crate) fn print(all: &[PaymentResult]) -> usize {
    let mut by_troubles: BTreeMap<&str, Vec<&PaymentResult>> = BTreeMap::new();
    for seen in all {
        by_troubles.entry(&seen.troubles).or_default().push(seen);
    }
    let mut differing = 0;
    let mut rows = Vec::new();
    for (troubles, payments) in by_troubles {
        let wrong: Vec<_> = payments.iter().filter(|seen| !seen.is_as_expected()).collect();
        differing += wrong.len();
        // A payment that differs is shown rather than one that doesn't.
        let shown = wrong.first().copied().unwrap_or(&payments[0]);
        let result = match wrong.len() {
            0 => "ok".to_owned(),
            count => format!("{count} DIFFER"),
        };
        let got = format!("{}{}", shown.got(), shown.counts());
        rows.push(vec![
            troubles.to_owned(),
            payments.len().to_string(),
            shown.wanted(),
            got,
            result,
        ]);
    }
    output::line(&output::table(&COLUMNS, &rows));
    differing
}
