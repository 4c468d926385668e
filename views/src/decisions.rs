//! Owns people's decisions as rows: on findings, flags and quarantined notices, with those that no
//! longer hold.

use payfold_reconcile::findings_store::FindingFilter;
use payfold_reconcile::ledger::Ledger;
use payfold_schemas::decision::FlagDecided;
use payfold_schemas::digest::Digest;
use payfold_schemas::finding::{
    DecisionEnd, EarlierDecision, FindingChanged, FindingDecision, FindingStatus,
};
use payfold_schemas::ids::{Author, OrderKey, PartnerCode};
use payfold_schemas::order::Severity;
use payfold_schemas::release::NoticeDecided;
use payfold_schemas::released::Because;
use payfold_schemas::time::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::ReadError;
use crate::listing::{Cells, Row};
use crate::order_name;
use crate::reader::Reader;

/// The most decisions of one page, unless more were made at its last instant.
pub const DECISIONS_MAX: usize = 1_000;

/// A decision of a person or two.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionRow {
    /// When it was made; of a flag or notice: when it was made, completed or withdrawn.
    pub at: Time,
    /// The kind of thing it is on.
    pub kind: DecidedKind,
    /// The id of the finding, the key of the order, or the position of the notice in quarantine.
    pub on: String,
    /// The partner.
    pub partner: String,
    /// The day of the finding; null for flags and notices.
    pub day: Option<String>,
    /// The code of the finding or notice, or the flag.
    pub code: String,
    /// The side taken as right (`ours`, `partner`, `write-off`), or `release` or `dismiss`.
    pub verdict: String,
    /// Why a notice is released; null for the others.
    pub because: Option<Because>,
    /// How far it has come.
    pub status: DecisionStatus,
    /// Who ended a decision on a finding; `payfold` if the finding opened again.
    pub ended_by: Option<Author>,
    /// When it ended.
    pub ended_at: Option<Time>,
    /// Why its author withdrew a decision on a finding.
    pub ended_reason: Option<String>,
    /// Who decided first.
    pub author: Author,
    /// The second person.
    pub seconded_by: Option<Author>,
    /// Why the second person agreed; null in decisions of earlier versions.
    pub second_reason: Option<String>,
    /// Why it was decided so.
    pub reason: String,
    /// The digest of what was decided on; null for decisions on findings that have ended.
    pub evidence: Option<Digest>,
}

impl Row for DecisionRow {
    const COLUMNS: &'static str =
        "at on code verdict author seconded_by reason second_reason evidence";

    fn shown(&self, column: &str, _cells: Cells) -> Option<Value> {
        Some(match column {
            "on" if self.kind == DecidedKind::Notice => format!("quarantine {}", self.on).into(),
            "verdict" => verdict_in_words(self).into(),
            // The first digits distinguish digests.
            "evidence" => {
                json!(self.evidence.map(|it| it.to_string().chars().take(12).collect::<String>()))
            }
            _ => return None,
        })
    }
}

/// The verdict, and what became of a decision that does not hold.
fn verdict_in_words(row: &DecisionRow) -> String {
    let verdict = row.because.map_or(row.verdict.as_str(), |because| because.as_str());
    match (row.status, &row.ended_by) {
        (DecisionStatus::Superseded | DecisionStatus::Final, _) => verdict.to_owned(),
        (DecisionStatus::Waiting, _) => format!("{verdict} (needs a second person)"),
        (DecisionStatus::Withdrawn, _) => format!("{verdict} (withdrawn)"),
        (DecisionStatus::Replaced, Some(by)) => format!("{verdict} (replaced by {by})"),
        (DecisionStatus::Replaced, None) => format!("{verdict} (replaced)"),
        (DecisionStatus::Reopened, _) => format!("{verdict} (opened again)"),
    }
}

/// The kind of thing that people decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DecidedKind {
    /// A finding.
    Finding,
    /// A flag of an order.
    Flag,
    /// A quarantined notice.
    Notice,
}

/// How far a decision has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DecisionStatus {
    /// It waits for a second person.
    Waiting,
    /// It waited for a second person, until a later row completed or replaced it.
    Superseded,
    /// It is final.
    Final,
    /// Its author took it back.
    Withdrawn,
    /// Another decision took its place.
    Replaced,
    /// The finding opened again.
    Reopened,
}

/// Which decisions to list, oldest first.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListDecisions {
    /// Only decisions about this partner.
    pub partner: Option<PartnerCode>,
    /// Only decisions on findings of this day, such as 2026-01-31.
    pub day: Option<String>,
    /// Only decisions on the flags and uncleared findings of this order,
    /// `partner/merchantCode/orderId`.
    #[serde(default, with = "order_name")]
    #[schemars(with = "Option<String>")]
    pub order: Option<OrderKey>,
    /// `next` of the previous page.
    pub after: Option<Time>,
}

/// A page of decisions.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct DecisionPage {
    /// The decisions.
    pub decisions: Vec<DecisionRow>,
    /// Where the next page starts; absent at the end.
    pub next: Option<Time>,
}

impl Reader {
    /// Lists decisions by time: for each finding the last one and those that ended; for flags and
    /// notices each that was made, completed or withdrawn. Errors: the log's.
    pub async fn decisions(&self, asked: &ListDecisions) -> Result<DecisionPage, ReadError> {
        let mut decisions = self.ledger(|ledger| select(ledger, asked)).await?;
        decisions.sort_by_key(|decision| decision.at);
        let mut next = None;
        if decisions.len() > DECISIONS_MAX {
            let last = decisions[DECISIONS_MAX - 1].at;
            let end = decisions.partition_point(|decision| decision.at <= last);
            next = (end < decisions.len()).then_some(last);
            decisions.truncate(end);
        }
        Ok(DecisionPage { decisions, next })
    }
}

fn select(ledger: &Ledger, asked: &ListDecisions) -> Result<Vec<DecisionRow>, ReadError> {
    let mut rows = Vec::new();
    for finding in ledger.findings(FindingFilter {
        partner: asked.partner.as_ref(),
        day: asked.day.as_deref(),
        order: asked.order.as_ref(),
        with_decisions: true,
        ..FindingFilter::default()
    }) {
        let finding = finding?;
        // The decisions on the finding's flag are listed as such, unless a day is given.
        if finding.flag.is_some() && asked.day.is_none() {
            continue;
        }
        rows.extend(finding.earlier_decisions.iter().map(|earlier| of_earlier(&finding, earlier)));
        rows.extend(finding.decision.iter().map(|decision| of_finding(&finding, decision)));
    }
    // Flags and quarantined notices belong to no day of the partner's records.
    if asked.day.is_none() {
        let partner = asked.partner.as_ref().map(PartnerCode::as_str);
        let mut others: Vec<_> = match &asked.order {
            Some(order) => {
                ledger.flags_of(order).iter().map(|said| of_flag(ledger, said)).collect()
            }
            None => {
                let flags = ledger.flags().map(|said| of_flag(ledger, said));
                flags.chain(ledger.notices().map(|said| of_notice(ledger, said))).collect()
            }
        };
        others.retain(|row| partner.is_none_or(|only| row.partner == only));
        rows.extend(others);
    }
    rows.retain(|row| asked.after.is_none_or(|after| row.at > after));
    Ok(rows)
}

/// The last decision on a finding.
fn of_finding(finding: &FindingChanged, decision: &FindingDecision) -> DecisionRow {
    DecisionRow {
        at: decision.at,
        kind: DecidedKind::Finding,
        on: finding.finding_id.clone(),
        partner: finding.partner.to_string(),
        day: Some(finding.day.clone()),
        code: finding.code.to_string(),
        verdict: decision.accept.as_str().to_owned(),
        because: None,
        status: match finding.status {
            FindingStatus::Open => DecisionStatus::Waiting,
            FindingStatus::Cleared
                if finding.severity == Severity::Critical && decision.seconded_by.is_none() =>
            {
                DecisionStatus::Waiting
            }
            FindingStatus::Decided | FindingStatus::Cleared => DecisionStatus::Final,
        },
        ended_by: None,
        ended_at: None,
        ended_reason: None,
        author: decision.author.clone(),
        seconded_by: decision.seconded_by.clone(),
        second_reason: decision.second_reason.clone(),
        reason: decision.reason.clone(),
        evidence: Some(decision.evidence),
    }
}

/// A decision on a finding that no longer holds.
fn of_earlier(finding: &FindingChanged, earlier: &EarlierDecision) -> DecisionRow {
    DecisionRow {
        at: earlier.at,
        kind: DecidedKind::Finding,
        on: finding.finding_id.clone(),
        partner: finding.partner.to_string(),
        day: Some(finding.day.clone()),
        code: finding.code.to_string(),
        verdict: earlier.accept.as_str().to_owned(),
        because: None,
        status: match earlier.ended {
            DecisionEnd::Withdrawn => DecisionStatus::Withdrawn,
            DecisionEnd::Replaced => DecisionStatus::Replaced,
            DecisionEnd::Reopened => DecisionStatus::Reopened,
        },
        ended_by: Some(earlier.ended_by.clone()),
        ended_at: Some(earlier.ended_at),
        ended_reason: earlier.ended_reason.clone(),
        author: earlier.author.clone(),
        seconded_by: earlier.seconded_by.clone(),
        second_reason: earlier.second_reason.clone(),
        reason: earlier.reason.clone(),
        evidence: None,
    }
}

fn of_flag(ledger: &Ledger, said: &FlagDecided) -> DecisionRow {
    let waiting = ledger.waiting_flag_decision((&said.order, said.flag), said.evidence);
    DecisionRow {
        at: said.at,
        kind: DecidedKind::Flag,
        on: said.order.to_string(),
        partner: said.order.partner.to_string(),
        day: None,
        code: said.flag.to_string(),
        verdict: said.accept.as_str().to_owned(),
        because: None,
        status: match said.decision_id {
            Some(_) => DecisionStatus::Final,
            None if said.withdrawn => DecisionStatus::Withdrawn,
            None if waiting == Some(said) => DecisionStatus::Waiting,
            None => DecisionStatus::Superseded,
        },
        ended_by: None,
        ended_at: None,
        ended_reason: None,
        author: said.author.clone(),
        seconded_by: said.seconded_by.clone(),
        second_reason: said.second_reason.clone(),
        reason: said.reason.clone(),
        evidence: Some(said.evidence),
    }
}

fn of_notice(ledger: &Ledger, said: &NoticeDecided) -> DecisionRow {
    let waiting = ledger.waiting_notice(said.position, said.evidence);
    DecisionRow {
        at: said.at,
        kind: DecidedKind::Notice,
        on: said.position.to_string(),
        partner: said.account.split('/').next().unwrap_or_default().to_owned(),
        day: None,
        code: said.code.clone(),
        verdict: said.verdict.as_str().to_owned(),
        because: said.because,
        status: match said.decided {
            true => DecisionStatus::Final,
            false if said.withdrawn => DecisionStatus::Withdrawn,
            false if waiting == Some(said) => DecisionStatus::Waiting,
            false => DecisionStatus::Superseded,
        },
        ended_by: None,
        ended_at: None,
        ended_reason: None,
        author: said.author.clone(),
        seconded_by: said.seconded_by.clone(),
        second_reason: said.second_reason.clone(),
        reason: said.reason.clone(),
        evidence: Some(said.evidence),
    }
}

#[cfg(test)]
mod tests {
    use payfold_engines::log::Topic;
    use payfold_schemas::decision::FLAG_DECIDED_TYPE;
    use payfold_schemas::fact::Verdict;
    use payfold_schemas::order::Flag;

    use super::*;
    use crate::testbed::{Testbed, event};

    #[tokio::test]
    async fn a_page_of_decisions_ends_behind_its_last_instant() {
        let decided = |n: usize| FlagDecided {
            order: OrderKey::parse(&format!("p/M/{n}")).unwrap(),
            flag: Flag::AmountMismatch,
            evidence: Digest::of_bytes(b"evidence"),
            accept: Verdict::Ours,
            author: Author::parse("ann").unwrap(),
            reason: "asked".to_owned(),
            // The 1,000th and the one behind it are made at once.
            at: Time::from_unix_ms(
                i64::try_from(if n == DECISIONS_MAX { n - 1 } else { n }).unwrap(),
            ),
            seconded_by: None,
            second_reason: None,
            decision_id: None,
            decisions_before: 0,
            withdrawn: false,
        };
        let bed = Testbed::new();
        let all = (0..=DECISIONS_MAX + 1).map(decided);
        let events = all.map(|one| event(FLAG_DECIDED_TYPE, one.event_id(), &one)).collect();
        bed.append(Topic::Findings, events).await;
        let first = bed.reader.decisions(&ListDecisions::default()).await.unwrap();
        assert_eq!(first.decisions.len(), DECISIONS_MAX + 1);
        let next = ListDecisions { after: first.next, ..Default::default() };
        let second = bed.reader.decisions(&next).await.unwrap();
        let last = &second.decisions[..];
        assert_eq!((last.len(), last[0].on.as_str(), second.next), (1, "p/M/1001", None));
        assert_eq!((last[0].status, last[0].kind), (DecisionStatus::Waiting, DecidedKind::Flag));
        let other = ListDecisions { partner: PartnerCode::parse("q").ok(), ..Default::default() };
        assert!(bed.reader.decisions(&other).await.unwrap().decisions.is_empty());
        let order = OrderKey::parse("p/M/7").ok();
        let of_order = ListDecisions { order, ..Default::default() };
        let found = bed.reader.decisions(&of_order).await.unwrap().decisions;
        assert_eq!(found.iter().map(|row| &*row.on).collect::<Vec<_>>(), ["p/M/7"]);
    }
}
