//! Owns the actions of people, as the `findings` topic has them: who did what, when and why. Pure.
//! An action that several events repeat has the same id in each of them.

use payfold_schemas::decision::FlagDecided;
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Verdict;
use payfold_schemas::finding::{DecisionEnd, EarlierDecision, FindingChanged, FindingDecision};
use payfold_schemas::ids::Author;
use payfold_schemas::raw_read::RawRead;
use payfold_schemas::release::NoticeDecided;
use payfold_schemas::run::{PeriodClosed, RunEnded};
use payfold_schemas::time::Time;
use payfold_schemas::token::{TokenChange, TokenRecorded};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a person did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PersonAction {
    /// The id of the action.
    pub id: String,
    /// When it was done; of tokens: when the system found the change.
    pub at: Time,
    /// Who did it; null for tokens, which a person with the vault adds and removes.
    pub author: Option<Author>,
    /// What was done.
    pub done: Done,
    /// The kind of thing it was done to.
    pub kind: ActionKind,
    /// The id of the finding, the key of the order, the position in quarantine, `partner/day`,
    /// `topic/position`, the owner of the token, or the number of the build.
    pub on: String,
    /// The flag or the code, the side or the verdict, the role, the name of the file.
    pub detail: Option<String>,
    /// Why, in the author's words; null of comparisons, closed days, tokens, and second people who
    /// agreed in an earlier version.
    pub reason: Option<String>,
}

/// What is done to a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Done {
    /// It was decided, by a person alone or as the first of two.
    Decided,
    /// A second person agreed with the first.
    Agreed,
    /// A first decision was taken back.
    Withdrawn,
    /// Records of the day were compared.
    Compared,
    /// The day was closed.
    Closed,
    /// The bytes of the notice were read.
    Read,
    /// The token was added, or has another role.
    Added,
    /// The token was removed.
    Removed,
    /// The build was started.
    Started,
    /// The build was paused, resumed, or given another speed.
    Paced,
    /// The build was made the published one.
    Published,
    /// The build was dropped.
    Dropped,
}

/// The kind of thing that people act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActionKind {
    /// A finding.
    Finding,
    /// A flag of an order.
    Flag,
    /// A quarantined notice.
    Notice,
    /// A day of a partner.
    Day,
    /// The bytes of a notice.
    Bytes,
    /// A token of a person.
    Token,
    /// A build.
    Build,
}

impl PersonAction {
    /// The decisions on a finding that this change of it, made at this time, has. The decisions on
    /// a flag's finding are the flag's.
    pub(crate) fn on_finding(changed: &FindingChanged, at: &str) -> Vec<Self> {
        if changed.flag.is_some() {
            return Vec::new();
        }
        let earlier = changed.earlier_decisions.iter().flat_map(|one| of_earlier(changed, one));
        let last = changed.decision.iter().flat_map(|one| of_decision(changed, one, at));
        earlier.chain(last).collect()
    }

    /// A decision on a flag.
    pub(crate) fn on_flag(said: &FlagDecided) -> Self {
        let alone = if said.withdrawn { Done::Withdrawn } else { Done::Decided };
        let agreed = said.seconded_by.as_ref().map(|second| (second, Done::Agreed));
        let (author, done) = agreed.unwrap_or((&said.author, alone));
        Self {
            id: said.event_id(),
            at: said.at,
            author: Some(author.clone()),
            done,
            kind: ActionKind::Flag,
            on: said.order.to_string(),
            detail: Some(format!("{}: {}", said.flag, said.accept.as_str())),
            reason: own_reason(done, &said.reason, said.second_reason.as_deref()),
        }
    }

    /// A decision on a quarantined notice.
    pub(crate) fn on_notice(said: &NoticeDecided) -> Self {
        let alone = if said.withdrawn { Done::Withdrawn } else { Done::Decided };
        let agreed = said.seconded_by.as_ref().map(|second| (second, Done::Agreed));
        let (author, done) = agreed.unwrap_or((&said.author, alone));
        Self {
            id: said.event_id(),
            at: said.at,
            author: Some(author.clone()),
            done,
            kind: ActionKind::Notice,
            on: said.position.to_string(),
            detail: Some(format!("{}: {}", said.code, said.verdict.as_str())),
            reason: own_reason(done, &said.reason, said.second_reason.as_deref()),
        }
    }

    /// A comparison; `None` if no person asked for it.
    pub(crate) fn on_run(ended: &RunEnded) -> Option<Self> {
        let asked = ended.asked.as_ref()?;
        Some(Self {
            id: ended.event_id(),
            at: asked.at,
            author: Some(asked.by.clone()),
            done: Done::Compared,
            kind: ActionKind::Day,
            on: format!("{}/{}", ended.partner, ended.day),
            detail: Some(ended.records.name.clone()),
            reason: None,
        })
    }

    /// The close of a day.
    pub(crate) fn on_day(closed: &PeriodClosed) -> Self {
        Self {
            id: closed.event_id(),
            at: closed.at,
            author: Some(closed.author.clone()),
            done: Done::Closed,
            kind: ActionKind::Day,
            on: format!("{}/{}", closed.partner, closed.day),
            detail: None,
            reason: None,
        }
    }

    /// A look at the bytes of a notice.
    pub(crate) fn on_bytes(read: &RawRead) -> Self {
        Self {
            id: read.event_id(),
            at: read.at,
            author: Some(read.author.clone()),
            done: Done::Read,
            kind: ActionKind::Bytes,
            on: format!("{}/{}", read.topic, read.position),
            detail: Some(read.account.clone()),
            reason: Some(read.reason.clone()),
        }
    }

    /// A change of a token.
    pub(crate) fn on_token(recorded: &TokenRecorded) -> Self {
        Self {
            // Of two changes at one time the removal was first.
            id: format!(
                "{}/{}",
                u8::from(recorded.change == TokenChange::Added),
                recorded.event_id()
            ),
            at: recorded.at,
            author: None,
            done: match recorded.change {
                TokenChange::Added => Done::Added,
                TokenChange::Removed => Done::Removed,
            },
            kind: ActionKind::Token,
            on: recorded.owner.to_string(),
            detail: Some(recorded.role.as_str().to_owned()),
            reason: None,
        }
    }
}

/// The reason that the author of an action gave.
fn own_reason(done: Done, first: &str, second: Option<&str>) -> Option<String> {
    if done == Done::Agreed { second } else { Some(first) }.map(str::to_owned)
}

/// The last decision on a finding: the first person's action, and the second's, who agreed with
/// this change.
fn of_decision(
    changed: &FindingChanged,
    decision: &FindingDecision,
    at: &str,
) -> impl Iterator<Item = PersonAction> {
    let FindingDecision { accept, author, reason, at: decided_at, .. } = decision;
    let first = decided(changed, *accept, Made { author, reason, at: *decided_at });
    let second = decision.seconded_by.as_ref().map(|second| PersonAction {
        id: id_of(&[&changed.finding_id, "agreed", second.as_str(), &first.id]),
        // Every event that the program publishes has a time.
        at: Time::parse(at).unwrap_or(first.at),
        author: Some(second.clone()),
        done: Done::Agreed,
        reason: decision.second_reason.clone(),
        ..first.clone()
    });
    std::iter::once(first).chain(second)
}

/// A decision on a finding that no longer holds, and its withdrawal.
fn of_earlier(
    changed: &FindingChanged,
    earlier: &EarlierDecision,
) -> impl Iterator<Item = PersonAction> {
    let EarlierDecision { accept, author, reason, at, ended, .. } = earlier;
    let first = decided(changed, *accept, Made { author, reason, at: *at });
    let withdrawal = (*ended == DecisionEnd::Withdrawn).then(|| PersonAction {
        id: id_of(&[&changed.finding_id, "withdrawn", &first.id]),
        at: earlier.ended_at,
        author: Some(earlier.ended_by.clone()),
        done: Done::Withdrawn,
        reason: earlier.ended_reason.clone(),
        ..first.clone()
    });
    std::iter::once(first).chain(withdrawal)
}

/// By whom, why and when a decision was made.
struct Made<'d> {
    author: &'d Author,
    reason: &'d str,
    at: Time,
}

/// The decision of one person on a finding.
fn decided(changed: &FindingChanged, accept: Verdict, made: Made<'_>) -> PersonAction {
    let Made { author, reason, at } = made;
    let nanos = at.unix_nanos().to_string();
    PersonAction {
        id: id_of(&[&changed.finding_id, "decided", author.as_str(), &nanos]),
        at,
        author: Some(author.clone()),
        done: Done::Decided,
        kind: ActionKind::Finding,
        on: changed.finding_id.clone(),
        detail: Some(format!("{}: {}", changed.code, accept.as_str())),
        reason: Some(reason.to_owned()),
    }
}

fn id_of(parts: &[&str]) -> String {
    format!("finding/{}", Digest::of_bytes(parts.join(" ").as_bytes()))
}

#[cfg(test)]
mod tests {
    use payfold_schemas::order::Flag;

    use super::*;
    use crate::findings_store::{ActionFilter, FindingsStore};

    const CONTESTED: &str = include_str!("../../schemas/fixtures/finding-changed-contested.json");

    /// What each action says, in the order they were done.
    fn in_words(actions: &[PersonAction]) -> Vec<String> {
        let text = |action: &PersonAction| {
            let author = action.author.as_ref().map_or("", Author::as_str);
            let (at, reason) = (action.at.to_rfc3339(), action.reason.as_deref().unwrap_or("-"));
            format!("{} {author} {:?} {reason}", &at[11..16], action.done)
        };
        actions.iter().rev().map(text).collect()
    }

    #[test]
    fn an_action_that_later_versions_repeat_is_one_action() {
        let mut changed: FindingChanged = serde_json::from_str(CONTESTED).unwrap();
        let store = FindingsStore::in_memory().unwrap();
        let read = |changed: &FindingChanged, at: &str| {
            let at = format!("2026-02-01T{at}:00Z");
            store.add_actions(&PersonAction::on_finding(changed, &at)).unwrap();
            let all = ActionFilter { author: None, before: None, limit: 100 };
            in_words(&store.actions(all).unwrap())
        };
        let mut expected = vec![
            "08:00 finance-2 Decided their file is late",
            "08:30 finance-1 Withdrawn a slip",
            "09:00 finance-1 Decided their fee",
        ];
        assert_eq!(read(&changed, "09:00"), expected);
        let decision = changed.decision.as_mut().unwrap();
        decision.seconded_by = Author::parse("finance-3").ok();
        decision.second_reason = Some("I have seen it".to_owned());
        expected.push("10:00 finance-3 Agreed I have seen it");
        assert_eq!(read(&changed, "10:00"), expected);
        assert_eq!(read(&changed, "11:00"), expected, "its records were cited anew");
        changed.flag = Some(Flag::DoublePayment);
        assert_eq!(PersonAction::on_finding(&changed, ""), [], "they are the flag's");
    }

    #[test]
    fn each_event_of_a_person_is_an_action() {
        let fixture = |name: &str| {
            let path = format!("{}/../schemas/fixtures/{name}.json", env!("CARGO_MANIFEST_DIR"));
            std::fs::read(path).unwrap()
        };
        fn read<T: serde::de::DeserializeOwned>(text: &[u8]) -> T {
            serde_json::from_slice(text).unwrap()
        }
        let actions = [
            PersonAction::on_flag(&read(&fixture("flag-decided"))),
            PersonAction::on_flag(&read(&fixture("flag-decided-waiting"))),
            PersonAction::on_flag(&read(&fixture("flag-decided-withdrawn"))),
            PersonAction::on_notice(&read(&fixture("notice-decided"))),
            PersonAction::on_notice(&read(&fixture("notice-decided-withdrawn"))),
            PersonAction::on_run(&read(&fixture("run-ended-asked"))).unwrap(),
            PersonAction::on_day(&read(&fixture("period-closed"))),
            PersonAction::on_bytes(&read(&fixture("raw-read"))),
            PersonAction::on_token(&read(&fixture("token-recorded"))),
        ];
        assert_eq!(PersonAction::on_run(&read(&fixture("run-ended"))), None);
        let text = |one: &PersonAction| {
            let author = one.author.as_ref().map_or("", Author::as_str);
            let detail = one.detail.as_deref().unwrap_or("-");
            format!("{author} {:?} {:?} {} {detail}", one.done, one.kind, one.on)
        };
        let expected = [
            "finance-2 Agreed Flag default/SHOP-1/ord-1 AMOUNT_MISMATCH: write-off",
            "finance-1 Decided Flag default/SHOP-1/ord-1 AMOUNT_MISMATCH: write-off",
            "finance-1 Withdrawn Flag default/SHOP-1/ord-1 AMOUNT_MISMATCH: write-off",
            "ops-2 Agreed Notice 0-12 timestamp_out_of_window: release",
            "ops-1 Withdrawn Notice 0-12 timestamp_out_of_window: release",
            "ann Compared Day default/2026-01-31 day.csv",
            "finance-1 Closed Day default/2026-01-31 -",
            "ops-1 Read Bytes intake/0-12 default/SHOP-1",
            " Added Token ann finance",
        ];
        assert_eq!(actions.iter().map(text).collect::<Vec<_>>(), expected);
    }
}
