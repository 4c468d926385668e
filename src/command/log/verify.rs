//! `payfold log verify`: checks that orders and events follow from the log, that the log is
//! unchanged (`--chain`), and that partners signed its notices (`--signatures`).

use std::sync::Arc;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_ingest::audit::Auditor;
use payfold_verify::signatures::{SignatureReport, SignatureRow, Unjudged};
use payfold_verify::{
    FIRST_EPOCH, StoredDifference, Subject, Verification, chain, signatures, state,
};

use super::anchor::Anchor;
use super::profiles;
use crate::args::{ChainArgs, OutputArgs, OutputFormat, VerifyArgs};
use crate::error::DifferencesFound;
use crate::listing::{self, Row, Shown};
use crate::settings::Loaded;
use crate::wiring::Engines;
use crate::{output, vault};

impl Row for Shown<&StoredDifference> {
    const COLUMNS: &'static str = "order field stored folded";
}

impl Row for Shown<&SignatureRow> {
    const COLUMNS: &'static str = "result notices position order request_id detail";
}

/// Runs the verification that the arguments choose. Errors: `DifferencesFound`; the engines'; a
/// file that can't be read.
pub(super) async fn run(
    engines: &Engines,
    loaded: &Loaded,
    args: &VerifyArgs,
) -> anyhow::Result<()> {
    let output = &args.output;
    if args.state {
        print_state(engines, output).await
    } else if args.chain {
        verify_chain(engines, &args.heads, output).await
    } else if args.signatures {
        verify_signatures(engines, loaded, args).await
    } else {
        orders(engines, args.from_epoch.unwrap_or(FIRST_EPOCH), output).await
    }
}

/// Checks that orders and events follow from the log. Errors: `DifferencesFound`; the engines'.
pub(super) async fn orders(
    engines: &Engines,
    from: u32,
    output: &OutputArgs,
) -> anyhow::Result<()> {
    if engines.record_keys.load().is_empty() {
        output::error_line(
            "who wrote the records is not checked: the vault has no record keys, or can't be read \
             here",
        );
    }
    let bar = output::progress_bar(output.output, 0, "records and events");
    let verification = payfold_verify::orders::verify(&subject(engines)?, from, &bar).await?;
    bar.finish_and_clear();
    print(&verification, output)
}

fn subject(engines: &Engines) -> anyhow::Result<Subject> {
    Ok(Subject {
        log: Arc::clone(&engines.log),
        store: Arc::clone(engines.store()?),
        base: Arc::clone(engines.base()?),
        is_embedded: engines.embedded,
    })
}

fn print(verification: &Verification, output: &OutputArgs) -> anyhow::Result<()> {
    if !verification.differences.is_empty() || output.output != OutputFormat::Table {
        listing::print(output.output, verification.differences.iter().map(Shown))?;
    }
    let Verification { records, orders, events, differences, .. } = verification;
    let mut beside = String::new();
    for (count, what) in [
        (verification.parked, "parked"),
        (verification.removed, "events not compared: retention has removed them from `orders`"),
        (verification.of_earlier_rules, "events not compared: of epochs before --from-epoch"),
    ] {
        if count > 0 {
            beside += &format!("; {count} {what}");
        }
    }
    output::error_line(&format!(
        "verified {records} records, {orders} orders, {events} events: {} differences{beside}",
        differences.len()
    ));
    if differences.is_empty() { Ok(()) } else { Err(DifferencesFound.into()) }
}

async fn print_state(engines: &Engines, output: &OutputArgs) -> anyhow::Result<()> {
    let state = state::read(&**engines.store()?).await?;
    match output.output {
        OutputFormat::Table => {
            output::line(&format!("stateDigest  {}", state.state_digest));
            output::line(&format!("orders       {}", state.orders));
            output::line(&format!("folded       {}", state.folded.join(" ")));
        }
        format => output::object(format, &state)?,
    }
    if state.moved {
        output::error_line(
            "orders changed while they were read, so this digest belongs to no single moment; \
             repeat the command while the projector is idle",
        );
    }
    Ok(())
}

async fn verify_chain(
    engines: &Engines,
    files: &ChainArgs,
    output: &OutputArgs,
) -> anyhow::Result<()> {
    let log_id = engines.log.id();
    let remembered = files.against.as_deref().map(|path| Anchor::read(path, log_id)).transpose()?;
    let remembered = remembered.map_or_else(Vec::new, |anchor| anchor.heads);
    let bar = output::progress_bar(output.output, 0, "records");
    let chain = chain::verify(&subject(engines)?, &remembered, &bar).await?;
    bar.finish_and_clear();
    let is_whole = chain.verification.differences.is_empty();
    if let Some(path) = files.anchor.as_deref().filter(|_| is_whole) {
        let (at, heads) = (SystemClock.now(), chain.heads.clone());
        Anchor { log_id: hex::encode(log_id), at, heads }.write(path)?;
    }
    for one in chain.heads.iter().filter(|_| is_whole) {
        output::error_line(&format!("chain head at {}: {}", one.position(), one.head));
    }
    print(&chain.verification, output)
}

async fn verify_signatures(
    engines: &Engines,
    loaded: &Loaded,
    args: &VerifyArgs,
) -> anyhow::Result<()> {
    let texts = profiles::texts(loaded, &args.profile)?;
    let public_url = loaded.settings.public_url.trim_end_matches('/').to_owned();
    let mut auditor = Auditor::new(texts, vault::read(&loaded.settings)?, public_url);
    let bar = output::progress_bar(args.output.output, 0, "records");
    let found = signatures::verify(&*engines.log, &mut auditor, &bar).await?;
    bar.finish_and_clear();
    print_signatures(&found, &args.accept_unjudged, &args.output)
}

fn print_signatures(
    found: &SignatureReport,
    accepted: &[String],
    output: &OutputArgs,
) -> anyhow::Result<()> {
    let rows = found.rows();
    if !rows.is_empty() || output.output != OutputFormat::Table {
        listing::print(output.output, rows.iter().map(Shown))?;
    }
    let Unjudged { erased, accepted, open } = found.unjudged(accepted);
    let (fails, unjudged) = (found.failures(), accepted.saturating_add(open));
    let accepted =
        if accepted > 0 { format!(" ({accepted} of them accepted)") } else { String::new() };
    output::error_line(&format!(
        "{} notices: {} verified, {} of schemes that sign nothing, {erased} erased by retention, \
         {unjudged} not verifiable{accepted}, {fails} not what was signed",
        found.notices, found.verified, found.unsigned
    ));
    if open > 0 {
        output::error_line(&format!(
            "{open} notices can't be verified, so this log is not proven: for \"no key\" restore \
             the keys (use an older copy of the vault: PAYFOLD_VAULT=file:…), for \"no profile\" \
             give the profiles with --profile FILE, for \"unusable\" correct the profile. Accept \
             what is lost for good with --accept-unjudged and the text of its last column"
        ));
    }
    if fails == 0 && open == 0 { Ok(()) } else { Err(DifferencesFound.into()) }
}
