//! The log of people's actions when several processes write the topic: what was refused is none,
//! and what two of them found is one.

use payfold_engines::log::{EventLog, Message, Topic};
use payfold_schemas::digest::Digest;
use payfold_schemas::event::EventAttributes;
use payfold_schemas::finding::FindingChanged;
use payfold_schemas::ids::Author;
use payfold_schemas::time::Time;
use payfold_schemas::token::{TOKEN_RECORDED_TYPE, TokenChange, TokenRecorded, TokenRole};

use super::testbed::{TestBed, records};
use crate::findings_store::ActionFilter;
use crate::ledger::Ledger;
use crate::publish::{finding_event, message};

const CONTESTED: &str = include_str!("../../../schemas/fixtures/finding-changed-contested.json");

fn at(minute: i64) -> Time {
    Time::from_unix_ms(minute * 60_000)
}

fn of_token(minute: i64, change: TokenChange) -> Message {
    let owner = Author::parse("ann").unwrap();
    let token = Digest::of_bytes(b"token");
    let recorded = TokenRecorded { owner, token, role: TokenRole::Admin, change, at: at(minute) };
    let (id, kind, time) = (recorded.event_id(), TOKEN_RECORDED_TYPE, recorded.at);
    message("ann".to_owned(), EventAttributes { id, kind, time }, &recorded)
}

#[tokio::test]
async fn a_refused_decision_and_a_change_that_two_found_are_no_further_actions() {
    let bed = TestBed::new(&records("UTC", "order"));
    let first: FindingChanged = serde_json::from_str(CONTESTED).unwrap();
    let mut second = first.clone();
    second.decision.as_mut().unwrap().author = Author::parse("mai").unwrap();
    let found = [
        finding_event(&first, at(1)),
        finding_event(&second, at(2)),
        of_token(3, TokenChange::Added),
        of_token(4, TokenChange::Added),
        of_token(5, TokenChange::Removed),
        of_token(5, TokenChange::Added),
        of_token(6, TokenChange::Added),
    ];
    bed.log.append_all(Topic::Findings, found.to_vec()).await.unwrap();
    let mut ledger = Ledger::in_memory().unwrap();
    ledger.catch_up(&*bed.log).await.unwrap();
    let all = ActionFilter { author: None, before: None, limit: 100 };
    let actions = ledger.actions(all).unwrap();
    let by_mai = Author::parse("mai").unwrap();
    assert!(actions.iter().all(|action| action.author.as_ref() != Some(&by_mai)), "{actions:?}");
    let of_tokens = actions.iter().filter(|action| action.on == "ann");
    let of_tokens: Vec<_> = of_tokens
        .map(|action| (action.at.unix_ms() / 60_000, format!("{:?}", action.done)))
        .collect();
    let expected = [(5, "Added"), (5, "Removed"), (3, "Added")];
    assert_eq!(of_tokens, expected.map(|(at, done)| (at, done.to_owned())), "the newest first");
}
