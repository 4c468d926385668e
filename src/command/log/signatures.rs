//! `payfold log verify --signatures`: whether every stored notice is what a partner signed, by the key and under the
//! profile that were recorded with it. What can't be judged is counted by what is missing, and is never taken for right.

mod profiles;

use std::collections::BTreeMap;
use std::path::PathBuf;

use payfold_engines::log::{Delivered, Topic};
use payfold_ingest::audit::{Auditor, Outcome, Stored};
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::KeyId;
use payfold_schemas::record::{FactRecord, Parts, Record};
use payfold_schemas::release::Quarantined;
use serde_json::json;

use super::left_out::LeftOut;
use crate::args::OutputArgs;
use crate::error::DifferencesFound;
use crate::output::{self, Listing};
use crate::settings::Loaded;
use crate::vault;
use crate::walk::Walk;
use crate::wiring::Engines;

const COLUMNS: [&str; 6] = ["result", "notices", "position", "order", "request_id", "detail"];
const PAGE: usize = 2_000;

/// What was found so far.
#[derive(Default)]
struct Found {
    notices: u64,
    verified: u64,
    unsigned: u64,
    /// What could not be judged: result and what is missing, and how many.
    unjudged: BTreeMap<(&'static str, String), u64>,
    failures: Vec<Failed>,
}

/// A record that is not what was signed.
struct Failed {
    place: String,
    /// The order, or the account.
    of: String,
    request_id: String,
    why: String,
}

/// Judges every notice in `intake` and `quarantine`. Errors: `DifferencesFound`; a profile that can't be read.
pub async fn verify(
    engines: &Engines,
    (loaded, more): (&Loaded, &[PathBuf]),
    output: &OutputArgs,
) -> anyhow::Result<()> {
    let texts = profiles::texts(loaded, more)?;
    let public_url = loaded.settings.public_url.trim_end_matches('/').to_owned();
    let mut auditor = Auditor::new(texts, vault::read(&loaded.settings)?, public_url);
    let mut found = Found::default();
    let mut left_out = LeftOut::default();
    for topic in [Topic::Intake, Topic::Quarantine] {
        let extents = engines.log.extent(topic).await?;
        let records = extents.iter().map(|extent| extent.last.saturating_sub(extent.first)).sum();
        let bar = output::progress_bar(output.output, records, "records");
        let mut walk = Walk::to_the_end(&*engines.log, topic).await?;
        while let Some(page) = walk.next(PAGE).await? {
            for message in &page {
                // What is left out proves nothing, and nobody counts on it.
                let is_damaged = topic == Topic::Intake && Record::decode(&message.value).is_err();
                if !is_damaged || !left_out.has(&*engines.log, message).await? {
                    found.take(&mut auditor, topic, message);
                }
            }
            bar.inc(u64::try_from(page.len())?);
        }
        bar.finish_and_clear();
    }
    found.print(output)
}

impl Found {
    fn take(&mut self, auditor: &mut Auditor, topic: Topic, message: &Delivered) {
        let place = format!("{} {}", topic.name(), message.position);
        match Record::decode(&message.value) {
            Ok(Record { parts: Parts::Fact(record), raw, raw_key_id }) => {
                self.take_fact(auditor, place, (&record, &raw, raw_key_id.as_ref()));
            }
            Ok(Record { parts: Parts::Quarantine(record), raw, raw_key_id }) => {
                let kept = Quarantined {
                    position: message.position,
                    evidence: Digest::of_bytes(&message.value),
                    record,
                    raw,
                    raw_key_id,
                };
                self.take_quarantined(auditor, place, &kept);
            }
            Ok(Record { parts: Parts::Switch(_) | Parts::Parked(_), .. }) => {}
            Err(error) => {
                let (of, request_id) = (message.key.clone(), String::new());
                self.failures.push(Failed { place, of, request_id, why: error.to_string() });
            }
        }
    }

    fn take_fact(
        &mut self,
        auditor: &mut Auditor,
        place: String,
        (record, raw, raw_key_id): (&FactRecord, &[u8], Option<&KeyId>),
    ) {
        let (of, request_id) = (record.order.to_string(), record.request_id.to_string());
        let failed = |why: &str| Failed { place, of, request_id, why: why.to_owned() };
        let (source, ipn) = match (&record.source, &record.fact) {
            (Some(source), Fact::Ipn(ipn)) => (source, ipn),
            // Facts of our own are nobody's to sign.
            (None, fact) if !matches!(fact, Fact::Ipn(_)) => return,
            _ => {
                self.notices += 1;
                self.failures.push(failed("it is a partner's word, and no source is recorded"));
                return;
            }
        };
        let order = &record.order;
        let account = order.account_name();
        let stored = Stored {
            account: &account,
            source,
            raw,
            raw_key_id,
            delivery: record.delivery(),
            received_at: record.delivered_at(),
            says: Some((order, ipn)),
        };
        let outcome = auditor.judge(stored);
        self.count((&account, stored), outcome, failed);
    }

    fn take_quarantined(&mut self, auditor: &mut Auditor, place: String, kept: &Quarantined) {
        let record = &kept.record;
        let (account, source) = (record.account.as_str(), &record.source);
        let stored = Stored {
            account,
            source,
            raw: &kept.raw,
            raw_key_id: kept.raw_key_id.as_ref(),
            delivery: kept.delivery(),
            received_at: record.received_at,
            says: None,
        };
        let outcome = auditor.judge(stored);
        let (of, request_id) = (account.to_owned(), record.request_id.to_string());
        let failed = |why: &str| Failed { place, of, request_id, why: why.to_owned() };
        self.count((account, stored), outcome, failed);
    }

    fn count(
        &mut self,
        (account, stored): (&str, Stored<'_>),
        outcome: Outcome,
        failed: impl FnOnce(&str) -> Failed,
    ) {
        self.notices += 1;
        let (result, missing) = match outcome {
            Outcome::Verified => return self.verified += 1,
            Outcome::Unsigned => return self.unsigned += 1,
            Outcome::Fails(failure) => return self.failures.push(failed(&failure.to_string())),
            Outcome::NoKey => ("no key", format!("key {} of {account}", stored.source.key_id)),
            Outcome::NoProfile => {
                let stamp = &stored.source.profile;
                let (partner, version, digest) = (&stamp.partner, stamp.version, stamp.digest);
                ("no profile", format!("{partner} version {version}, digest {digest}"))
            }
            Outcome::Erased(id) => ("erased", format!("key {id} of {account}")),
            Outcome::NoBodyKey(id) => {
                ("no key", format!("key {id} of {account}, which seals bodies"))
            }
            Outcome::Unusable(why) => ("unusable", format!("{account}: {why}")),
        };
        *self.unjudged.entry((result, missing)).or_default() += 1;
    }

    fn print(&self, output: &OutputArgs) -> anyhow::Result<()> {
        let mut listing = Listing::new(output.output, &COLUMNS);
        for Failed { place, of, request_id, why } in &self.failures {
            let cells = ["fails", "1", place, of, request_id, why].map(str::to_owned);
            let object = json!({
                "result": "fails", "notices": 1, "position": place, "order": of,
                "requestId": request_id, "detail": why,
            });
            listing.row(cells.to_vec(), &object)?;
        }
        for ((result, missing), notices) in &self.unjudged {
            let cells = [result, &*notices.to_string(), "", "", "", missing].map(str::to_owned);
            let object = json!({
                "result": result, "notices": notices, "position": null, "order": null,
                "requestId": null, "detail": missing,
            });
            listing.row(cells.to_vec(), &object)?;
        }
        if !(self.failures.is_empty() && self.unjudged.is_empty())
            || output.output != crate::args::Form::Table
        {
            listing.print()?;
        }
        let (fails, unjudged) = (self.failures.len(), self.unjudged.values().sum::<u64>());
        output::error_line(&format!(
            "{} notices: {} verified, {} of schemes that sign nothing, {unjudged} not judged, {fails} not what was signed",
            self.notices, self.verified, self.unsigned
        ));
        if unjudged > 0 {
            output::error_line(
                "to judge the others: put their keys back into the vault, name the profiles of their time with --profile FILE",
            );
        }
        if fails == 0 { Ok(()) } else { Err(DifferencesFound.into()) }
    }
}
