//! Owns what `demo pay` says at its end: trouble by trouble what was expected and what came.

use std::collections::BTreeMap;

use payfold_sandbox::expected::Expectation;
use payfold_schemas::order::{Flag, Order, OrderState, Severity};

use super::shop::Asked;
use crate::output;

const COLUMNS: [&str; 5] = ["trouble", "payments", "expected", "got", "result"];

/// One payment, at its end.
pub struct Seen {
    /// The words it was asked for with.
    pub words: String,
    /// What must come of it.
    pub expected: Expectation,
    /// What the shop was answered.
    pub asked: Asked,
    /// Its order, as it was folded last.
    pub order: Option<Order>,
    /// How many create calls the partner saw for it.
    pub create_calls: u64,
    /// How many notices were acknowledged.
    pub acked: usize,
}

impl Seen {
    /// What came, in the words of `wanted`.
    pub fn got(&self) -> String {
        let create = create(self.asked.status, self.asked.code.as_deref());
        let Some(order) = &self.order else { return format!("{create}, no order") };
        let summary = &order.summary;
        let open = summary.flags.iter().filter(|raised| raised.is_open());
        let flags = open.map(|raised| (raised.flag, raised.severity));
        words(&create, (summary.state, summary.fulfil), flags)
    }

    /// What must come.
    pub fn wanted(&self) -> String {
        let expected = &self.expected;
        let create = create(expected.create.status, expected.create.code.as_deref());
        words(&create, (expected.state, expected.fulfil), expected.flags.iter().copied())
    }

    /// What comes of it where the demo takes longer than a minute: a payment whose notices are all refused waits for
    /// good, until the partner is asked for it.
    fn wanted_once_asked(&self) -> Option<String> {
        let expected = &self.expected;
        let waits = expected.state == OrderState::Pending && expected.flags.is_empty();
        let create = create(expected.create.status, expected.create.code.as_deref());
        let flag = (Flag::SettledByQuery, Severity::Info);
        waits.then(|| words(&create, (OrderState::Paid, true), [flag].into_iter()))
    }

    /// Whether that is the same, the partner was called as often as it should be, and nothing is missing.
    pub fn is_as_expected(&self) -> bool {
        let got = self.got();
        (got == self.wanted() || Some(got) == self.wanted_once_asked())
            && self.create_calls == u64::from(self.expected.calls)
            && self.acked == self.expected.acked
    }

    /// What differs beside the words, for the table.
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

/// Said of an order that may not be delivered, and of one that may.
const FULFIL: [&str; 2] = ["", " fulfil"];

fn create(status: u16, code: Option<&str>) -> String {
    code.map_or(status.to_string(), |code| format!("{status} {code}"))
}

fn words(
    create: &str,
    (state, fulfil): (OrderState, bool),
    flags: impl Iterator<Item = (Flag, Severity)>,
) -> String {
    let mut flags: Vec<_> =
        flags.map(|(flag, severity)| format!(" {flag}/{}", severity.as_str())).collect();
    flags.sort();
    format!("{create}, {state}{}{}", FULFIL[usize::from(fulfil)], flags.concat())
}

/// Prints the table; how many payments are not as expected.
pub fn print(all: &[Seen]) -> usize {
    let mut by_words: BTreeMap<&str, Vec<&Seen>> = BTreeMap::new();
    for seen in all {
        by_words.entry(&seen.words).or_default().push(seen);
    }
    let mut differing = 0;
    let mut rows = Vec::new();
    for (words, payments) in by_words {
        let wrong: Vec<_> = payments.iter().filter(|seen| !seen.is_as_expected()).collect();
        differing += wrong.len();
        // One of those that differ tells more than all that don't.
        let shown = wrong.first().copied().unwrap_or(&payments[0]);
        let result = match wrong.len() {
            0 => "ok".to_owned(),
            count => format!("{count} DIFFER"),
        };
        let got = format!("{}{}", shown.got(), shown.counts());
        rows.push(vec![words.to_owned(), payments.len().to_string(), shown.wanted(), got, result]);
    }
    output::line(&output::table(&COLUMNS, &rows));
    differing
}
