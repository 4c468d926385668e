//! Owns verifying the signature of every stored notice again, with the key and the profile that
//! were recorded with it. A notice that can't be verified is counted by what is missing, and never
//! counts as verified: it is a failure, unless a person has listed the missing part as lost, or
//! retention erased the notice's bytes.

use std::collections::BTreeMap;

use indicatif::ProgressBar;
use payfold_engines::EngineError;
use payfold_engines::log::walk::Walk;
use payfold_engines::log::{Delivered, EventLog, Topic};
use payfold_ingest::audit::{AuditOutcome, Auditor, StoredNotice};
use payfold_kit::parked::ParkedRecords;
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::KeyId;
use payfold_schemas::record::{FactRecord, Parts, Record, RecordError};
use payfold_schemas::release::Quarantined;
use serde::Serialize;

const PAGE: usize = 2_000;
/// The result for notices that lost their bytes to retention.
const ERASED: &str = "erased";

/// A notice that is not what was signed, or a number of notices that can't be verified for the same
/// reason.
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SignatureRow {
    /// `fails`, or why the notices can't be verified.
    pub result: &'static str,
    /// The number of notices.
    pub notices: u64,
    /// Topic and position of a notice that fails.
    pub position: Option<String>,
    /// The notice's order, or its account.
    pub order: Option<String>,
    /// The id of the request that brought the notice.
    pub request_id: Option<String>,
    /// What is wrong, or missing.
    pub detail: String,
}

/// A fact from the log, with the raw bytes of its notice.
struct StoredFact<'a> {
    record: &'a FactRecord,
    raw: &'a [u8],
    raw_key_id: Option<&'a KeyId>,
}

impl SignatureRow {
    /// A record that is not what was signed.
    fn fails(place: String, of: String, request_id: String, why: &str) -> Self {
        Self {
            result: "fails",
            notices: 1,
            position: Some(place),
            order: Some(of),
            request_id: Some(request_id),
            detail: why.to_owned(),
        }
    }
}

/// Numbers of notices that could not be verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unjudged {
    /// Notices that lost their bytes to retention.
    pub erased: u64,
    /// Notices with a missing part that a person has listed as lost.
    pub accepted: u64,
    /// The other notices; they leave the log unproven.
    pub open: u64,
}

/// The result of verifying all signatures.
#[derive(Default)]
pub struct SignatureReport {
    /// The number of notices.
    pub notices: u64,
    /// The notices that partners signed.
    pub verified: u64,
    /// The notices of schemes without signatures.
    pub unsigned: u64,
    /// The numbers of notices that could not be verified, by result and missing part.
    unjudged: BTreeMap<(&'static str, String), u64>,
    failures: Vec<SignatureRow>,
}

/// Verifies every notice in `intake` and `quarantine`. Errors: the log's.
pub async fn verify(
    log: &dyn EventLog,
    auditor: &mut Auditor,
    progress: &ProgressBar,
) -> Result<SignatureReport, EngineError> {
    let mut report = SignatureReport::default();
    let mut left_out = ParkedRecords::default();
    for topic in [Topic::Intake, Topic::Quarantine] {
        let extents = log.extent(topic).await?;
        progress.set_position(0);
        let held = extents.iter().map(|one| (one.last + 1).saturating_sub(one.first.max(1)));
        progress.set_length(held.sum());
        let mut walk = Walk::to_the_end(log, topic).await?;
        while let Some(page) = walk.next(PAGE).await? {
            for message in &page {
                // A damaged record that a person has parked is not folded, so it needs no proof.
                let is_damaged = topic == Topic::Intake && message.record().is_err();
                if !is_damaged || !left_out.contain(log, message).await? {
                    // The partner's signature proves a record also if its MAC can't be checked.
                    let record = Record::decode(&message.value);
                    report.add_message(auditor, (topic, message), record);
                }
            }
            progress.inc(u64::try_from(page.len()).unwrap_or(u64::MAX));
        }
    }
    Ok(report)
}

impl SignatureReport {
    /// Verifies one more message.
    fn add_message(
        &mut self,
        auditor: &mut Auditor,
        (topic, message): (Topic, &Delivered),
        record: Result<Record, RecordError>,
    ) {
        let place = format!("{} {}", topic.name(), message.position);
        match record {
            Ok(Record { parts: Parts::Fact(record), raw, raw_key_id }) => {
                let raw_key_id = raw_key_id.as_ref();
                self.verify_fact(
                    auditor,
                    place,
                    &StoredFact { record: &record, raw: &raw, raw_key_id },
                );
            }
            Ok(Record { parts: Parts::Quarantine(record), raw, raw_key_id }) => {
                let kept = Quarantined {
                    position: message.position,
                    evidence: Digest::of_bytes(&message.value),
                    record,
                    raw,
                    raw_key_id,
                };
                self.verify_quarantined(auditor, place, &kept);
            }
            Ok(Record {
                parts: Parts::Switch(_) | Parts::Parked(_) | Parts::ParkingProposed(_),
                ..
            }) => {}
            Err(error) => {
                let (of, request_id) = (message.key.clone(), String::new());
                self.failures.push(SignatureRow::fails(place, of, request_id, &error.to_string()));
            }
        }
    }

    fn verify_fact(&mut self, auditor: &mut Auditor, place: String, kept: &StoredFact<'_>) {
        let StoredFact { record, raw, raw_key_id } = *kept;
        let (of, request_id) = (record.order.to_string(), record.request_id.to_string());
        let failed = |why: &str| SignatureRow::fails(place, of, request_id, why);
        let (source, ipn) = match (&record.source, &record.fact) {
            (Some(source), Fact::Ipn(ipn)) => (source, ipn),
            // Payfold's own facts have no signature.
            (None, fact) if !matches!(fact, Fact::Ipn(_)) => return,
            _ => {
                self.notices += 1;
                self.failures.push(failed(
                    "the fact comes from a partner, and no source is recorded with it",
                ));
                return;
            }
        };
        let order = &record.order;
        let account = order.account_name();
        let stored = StoredNotice {
            account: &account,
            source,
            raw,
            raw_key_id,
            delivery: record.delivery(),
            received_at: record.delivered_at(),
            recorded: Some((order, ipn)),
        };
        let outcome = auditor.audit_notice(stored);
        self.count((&account, stored), outcome, failed);
    }

    fn verify_quarantined(&mut self, auditor: &mut Auditor, place: String, kept: &Quarantined) {
        let record = &kept.record;
        let (account, source) = (record.account.as_str(), &record.source);
        let stored = StoredNotice {
            account,
            source,
            raw: &kept.raw,
            raw_key_id: kept.raw_key_id.as_ref(),
            delivery: kept.delivery(),
            received_at: record.received_at,
            recorded: None,
        };
        let outcome = auditor.audit_notice(stored);
        let (of, request_id) = (account.to_owned(), record.request_id.to_string());
        let failed = |why: &str| SignatureRow::fails(place, of, request_id, why);
        self.count((account, stored), outcome, failed);
    }

    fn count(
        &mut self,
        (account, stored): (&str, StoredNotice<'_>),
        outcome: AuditOutcome,
        failed: impl FnOnce(&str) -> SignatureRow,
    ) {
        self.notices += 1;
        let (result, missing) = match outcome {
            AuditOutcome::Verified => return self.verified += 1,
            AuditOutcome::Unsigned => return self.unsigned += 1,
            AuditOutcome::Fails(failure) => {
                return self.failures.push(failed(&failure.to_string()));
            }
            AuditOutcome::NoKey => ("no key", format!("key {} of {account}", stored.source.key_id)),
            AuditOutcome::NoProfile => {
                let stamp = &stored.source.profile;
                let (partner, version, digest) = (&stamp.partner, stamp.version, stamp.digest);
                ("no profile", format!("{partner} version {version}, digest {digest}"))
            }
            AuditOutcome::Erased(id) => (ERASED, format!("key {id} of {account}")),
            AuditOutcome::NoBodyKey(id) => {
                ("no key", format!("key {id} of {account}, which seals bodies"))
            }
            AuditOutcome::Unusable(why) => ("unusable", format!("{account}: {why}")),
        };
        *self.unjudged.entry((result, missing)).or_default() += 1;
    }

    /// Counts the notices that could not be verified. `accepted` lists results or missing parts
    /// that a person has accepted.
    pub fn unjudged(&self, accepted: &[String]) -> Unjudged {
        let mut counts = Unjudged::default();
        for ((result, missing), notices) in &self.unjudged {
            let is_accepted =
                accepted.iter().any(|one| *one == result.replace(' ', "-") || one == missing);
            let count = match (*result == ERASED, is_accepted) {
                (true, _) => &mut counts.erased,
                (false, true) => &mut counts.accepted,
                (false, false) => &mut counts.open,
            };
            *count = count.saturating_add(*notices);
        }
        counts
    }

    /// The notices that are not what was signed, then those that can't be verified, by missing
    /// part.
    pub fn rows(&self) -> Vec<SignatureRow> {
        let unjudged = self.unjudged.iter().map(|((result, missing), notices)| SignatureRow {
            result,
            notices: *notices,
            position: None,
            order: None,
            request_id: None,
            detail: missing.clone(),
        });
        self.failures.iter().cloned().chain(unjudged).collect()
    }

    /// The number of notices that are not what was signed.
    pub fn failures(&self) -> usize {
        self.failures.len()
    }
}
