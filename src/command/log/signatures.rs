//! `payfold log verify --signatures`: whether every stored notice is what a partner signed, by the key and under the
//! profile that were recorded with it. What can't be judged is counted by what is missing, and is never taken for right: it is a
//! failure unless a person has listed it as lost, or its bytes were erased by retention.

mod profiles;

use std::collections::BTreeMap;

use payfold_engines::log::{Delivered, Topic};
use payfold_ingest::audit::{Auditor, Outcome, Stored};
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::KeyId;
use payfold_schemas::record::{FactRecord, Parts, Record};
use payfold_schemas::release::Quarantined;
use serde_json::json;

use super::left_out::LeftOut;
use crate::args::{OutputArgs, VerifyArgs};
use crate::error::DifferencesFound;
use crate::output::{self, Listing};
use crate::settings::Loaded;
use crate::vault;
use crate::walk::Walk;
use crate::wiring::Engines;

const COLUMNS: [&str; 6] = ["result", "notices", "position", "order", "request_id", "detail"];
const PAGE: usize = 2_000;
/// The result of what retention has erased.
const ERASED: &str = "erased";

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
pub async fn verify(engines: &Engines, loaded: &Loaded, args: &VerifyArgs) -> anyhow::Result<()> {
    let output = &args.output;
    let texts = profiles::texts(loaded, &args.profile)?;
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
    found.print(&args.accept_unjudged, output)
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
            Outcome::Erased(id) => (ERASED, format!("key {id} of {account}")),
            Outcome::NoBodyKey(id) => {
                ("no key", format!("key {id} of {account}, which seals bodies"))
            }
            Outcome::Unusable(why) => ("unusable", format!("{account}: {why}")),
        };
        *self.unjudged.entry((result, missing)).or_default() += 1;
    }

    /// How many could not be judged because retention erased them, how many others that `accepted` lists, and how many more.
    fn unjudged(&self, accepted: &[String]) -> [u64; 3] {
        let mut counts = [0_u64; 3];
        for ((result, missing), notices) in &self.unjudged {
            let is_accepted =
                accepted.iter().any(|one| *one == result.replace(' ', "-") || one == missing);
            let [erased, listed, others] = &mut counts;
            let count = match (*result == ERASED, is_accepted) {
                (true, _) => erased,
                (false, true) => listed,
                (false, false) => others,
            };
            *count = count.saturating_add(*notices);
        }
        counts
    }

    fn print(&self, accepted: &[String], output: &OutputArgs) -> anyhow::Result<()> {
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
        let (fails, [erased, listed, others]) = (self.failures.len(), self.unjudged(accepted));
        let unjudged = listed.saturating_add(others);
        let listed =
            if listed > 0 { format!(" ({listed} of them accepted)") } else { String::new() };
        output::error_line(&format!(
            "{} notices: {} verified, {} of schemes that sign nothing, {erased} erased by retention, {unjudged} not \
             judged{listed}, {fails} not what was signed",
            self.notices, self.verified, self.unsigned
        ));
        if others > 0 {
            output::error_line(&format!(
                "{others} notices can't be judged, so this log is not proven: put the keys of \"no key\" back into the vault \
                 (an older copy of it: PAYFOLD_VAULT=file:…), name the profiles of \"no profile\" with --profile FILE, mend \
                 \"unusable\". What is lost for good is accepted with --accept-unjudged and the text of its last column"
            ));
        }
        if fails == 0 && others == 0 { Ok(()) } else { Err(DifferencesFound.into()) }
    }
}
