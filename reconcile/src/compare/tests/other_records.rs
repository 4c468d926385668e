//! What a payment at the end of the day is, by what the run of the day after says.

use std::collections::HashSet;

use payfold_schemas::run::RunEnded;
use serde_json::json;

use super::super::super::other_days::{IdHash, ItemIds, ListedItem, OtherDays, OtherRecords};
use super::*;

const MISSING: &str = "11111111111111111111111111111111";
const CUT_OFF: &str = "22222222222222222222222222222222";

/// A complete run of the day after; `lists` are the members of its event that say what it lists.
fn run_of_tomorrow(lists: serde_json::Value) -> RunEnded {
    let mut run = json!({
        "run": MISSING, "partner": "p", "day": "2026-02-01", "from": at("+1 00:00"),
        "until": at("+2 00:00"), "zone": "UTC", "startedAt": at("+2 06:00"), "result": "complete",
        "problems": [], "records": {"name": "f", "sha256": "00".repeat(32), "lines": 1,
        "entries": 0, "ignored": 1, "bad": 0, "badLines": []},
        "compared": {"orders": 0, "matched": 0, "pending": 0, "cutOff": 0},
        "findings": {"opened": 0, "open": 0, "decided": 0, "cleared": 0}, "totals": [],
    });
    run.as_object_mut().unwrap().extend(lists.as_object().unwrap().clone());
    serde_json::from_value(run).unwrap()
}

/// The codes of a payment at the end of the day that no line of the day lists.
fn codes(runs: &[RunEnded], waiting: &[&str]) -> Vec<Code> {
    codes_with("", runs, waiting)
}

fn codes_with(listed: &str, runs: &[RunEnded], waiting: &[&str]) -> Vec<Code> {
    let waiting: HashSet<IdHash> = waiting.iter().map(|id| IdHash::of(id)).collect();
    let rules = rules("+2 12:00");
    let mut days = OtherDays::default();
    runs.iter().for_each(|run| days.set_run(run));
    let ids =
        |_: &ListedItem| ItemIds { missing: IdHash::of(MISSING), cut_off: IdHash::of(CUT_OFF) };
    let others = OtherRecords {
        day: rules.day,
        days: &days,
        waiting: &waiting,
        ids: &ids,
        is_watched: true,
    };
    let order = ours("PAID r1 paid 100 VND 23:50");
    let outcome = super::super::compare(order.as_ref(), &lines(listed), &rules, Some(others));
    outcome.differences.iter().map(|found| found.code).collect()
}

#[test]
fn a_payment_at_the_end_waits_until_the_day_after_has_said_what_it_lists() {
    let lists = |lists| [run_of_tomorrow(lists)];
    assert_eq!(codes(&[], &[]), [Code::CutOff], "it was not compared");
    assert_eq!(codes(&lists(json!({"listedApart": []})), &[]), [Code::MissingThere]);
    assert_eq!(codes(&lists(json!({"listedApart": [MISSING]})), &[]), []);
    // A run of an earlier version, or one with too many to say, says only what it lists early.
    assert_eq!(codes(&lists(json!({})), &[]), [Code::CutOff]);
    assert_eq!(codes(&lists(json!({"listedEarly": [MISSING]})), &[]), []);
    assert_eq!(codes(&lists(json!({})), &[MISSING]), [Code::MissingThere], "it was found before");
}

/// A line with an unknown ref is about a payment of the order, unless another day lists that.
#[test]
fn what_the_day_after_lists_is_on_no_line_with_another_ref() {
    let line = "SUCCESS r2 100 VND 23:50";
    assert_eq!(codes_with(line, &[], &[]), [Code::RefDiffers]);
    let runs = [run_of_tomorrow(json!({"listedApart": [MISSING]}))];
    assert_eq!(codes_with(line, &runs, &[]), [Code::StatusDiffers]);
}
