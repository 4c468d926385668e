//! `payfold check`: checks configuration, vault, disk, clock and stores, and prints a row with
//! result and fix for each. Exit 3 if nothing can be stored (a full disk, files that can't be
//! written, a process that is not ready), or stored data is damaged or does not belong together;
//! else 1 if a check failed. Changes nothing. With `--ready` or `--live` it only asks the running
//! process.

mod builds;
mod row;
mod storage;
mod vault;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::Topic;
use payfold_engines::log::walk;
use payfold_ingest::browser_return::ReturnTargets;
use payfold_kit::search;
use payfold_partners::profile::{Profile, Stage};
use payfold_schemas::time::Time;

use self::row::CheckRow;
use super::block_on::block_on;
use super::reach;
use crate::args::{CheckArgs, Global};
use crate::data_dir::DataDir;
use crate::error::{DifferencesFound, is_there};
use crate::settings::{self, Loaded, Settings};
use crate::wiring::explain::refuse_newer;
use crate::wiring::{self, ChosenEngines, Engines, Paths};
use crate::{admin_client, keys, listing, output, queries};

/// A clock that is behind the newest record by more than this was set back.
const CLOCK_BEHIND_MS: i64 = 1_000;

/// Runs every check.
pub(crate) fn run(global: &Global, args: &CheckArgs) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    let data = DataDir::of(&loaded.settings);
    if args.ready {
        let url = admin_client::assert_ready(global, &data)?;
        output::line(&format!("ready: {url}"));
        return Ok(());
    }
    if args.live {
        let url = admin_client::assert_live(global, &data)?;
        output::line(&format!("live: {url}"));
        return Ok(());
    }
    let mut rows = vec![configuration(&loaded), data_folder(&data)];
    rows.extend(storage::rows(&loaded, &data));
    rows.push(profiles(&loaded));
    rows.extend(vault::rows(&loaded));
    rows.push(payments(&loaded));
    rows.push(queries(&loaded));
    rows.push(engines(&loaded));
    if args.connect {
        rows.extend(connect(&loaded));
    }
    listing::print(args.output.output, &rows)?;
    let failed = rows.iter().filter(|row| row.result == "failed").count();
    if rows.iter().any(|row| row.is_grave) {
        output::error_line(&format!(
            "{failed} of {} checks failed: nothing can be stored, or stored data is damaged or \
             does not belong together",
            rows.len()
        ));
        return Err(DifferencesFound.into());
    }
    anyhow::ensure!(failed == 0, "{failed} of {} checks failed", rows.len());
    Ok(())
}

fn configuration(loaded: &Loaded) -> CheckRow {
    let file = match &loaded.file {
        Some(file) => file.display().to_string(),
        None => "no payfold.toml: demo, loopback only".to_owned(),
    };
    if loaded.ignored_variables.is_empty() {
        return CheckRow::ok("configuration", file);
    }
    let names = loaded.ignored_variables.join(" ");
    CheckRow::warn(
        "configuration",
        format!("{file}; ignored: {names}"),
        "unset these variables, which match no setting; payfold init lists all settings",
    )
}

fn data_folder(data: &DataDir) -> CheckRow {
    use std::os::unix::fs::PermissionsExt;
    let path = data.path();
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => CheckRow::ok(
            "data folder",
            format!("{} will be created by the first run", path.display()),
        ),
        Err(error) => CheckRow::failed(
            "data folder",
            format!("{} can't be read: {error}", path.display()),
            "run as its owner, or give another with --data DIR",
        ),
        Ok(found) if !found.is_dir() => CheckRow::failed(
            "data folder",
            format!("{} is not a folder", path.display()),
            "give another with --data DIR",
        ),
        Ok(found) if found.permissions().mode() & 0o077 != 0 => CheckRow::warn(
            "data folder",
            format!("{} can be read by other users", path.display()),
            format!("chmod 700 {}", path.display()),
        ),
        Ok(_) if rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_err() => {
            CheckRow::failed(
                "data folder",
                format!("{} can't be written", path.display()),
                "run as its owner, or give another with --data DIR",
            )
        }
        Ok(_) => CheckRow::ok("data folder", path.display().to_string()),
    }
}

fn profiles(loaded: &Loaded) -> CheckRow {
    let profiles = match keys::profiles(&loaded.settings) {
        Ok(profiles) => profiles,
        Err(error) => {
            return CheckRow::of_error("profiles", &error, "correct the profile, or payfold.toml");
        }
    };
    let count = format!("{} partners configured", profiles.len());
    let is_early = |profile: &&Profile| matches!(profile.stage(), Stage::Draft | Stage::Sandbox);
    let early: Vec<_> = (profiles.iter().filter(is_early))
        .map(|profile| format!("{} ({})", profile.partner(), profile.stage().as_str()))
        .collect();
    if early.is_empty() || loaded.settings.dev || loaded.is_demo() {
        return CheckRow::ok("profiles", count);
    }
    CheckRow::warn(
        "profiles",
        format!("{count}; not agreed with the partner yet: {}", early.join(", ")),
        "their notices count all the same; before real money certify and freeze the profiles: \
         docs/how-to/add-a-partner.md, \"Stages\"",
    )
}

/// Checks the addresses that creating payments needs: the partner's for our calls, ours for its
/// notices and for payers' returns.
fn payments(loaded: &Loaded) -> CheckRow {
    let settings = &loaded.settings;
    let Ok(profiles) = keys::profiles(settings) else {
        return CheckRow::warn("payments", "not checked", "correct the profiles first");
    };
    let called = settings.partners.values().filter(|partner| !partner.api_url.is_empty()).count();
    let unreachable = reach::unreachable(settings, &profiles);
    if !unreachable.is_empty() {
        return CheckRow::failed("payments", unreachable.join("; "), reach::FIX);
    }
    let checkout = &settings.checkout;
    if let Err((name, problem)) = ReturnTargets::parse(&checkout.shop_url, &checkout.return_to) {
        let setting =
            if name.is_empty() { "shop_url".to_owned() } else { format!("return_to.{name}") };
        return CheckRow::failed(
            "payments",
            format!("checkout.{setting}: {problem}"),
            "correct it in payfold.toml",
        );
    }
    if called == 0 {
        return CheckRow::ok(
            "payments",
            "no partner has an api_url, so no payments are created here",
        );
    }
    if settings.public_url.is_empty() {
        let detail = format!(
            "partners are asked to send notices to http://{}, which only this machine reaches",
            settings.listen_public
        );
        return CheckRow::warn(
            "payments",
            detail,
            "set public_url to the address that partners reach",
        );
    }
    if checkout.shop_url.is_empty() {
        let detail = "payers who return see a plain page";
        return CheckRow::warn("payments", detail, "set checkout.shop_url to a page of your shop");
    }
    CheckRow::ok(
        "payments",
        format!("{called} partners have an api_url; they send notices to {}", settings.public_url),
    )
}

/// Checks which partners are queried about stuck payments, and whether one must be queried and
/// can't be.
fn queries(loaded: &Loaded) -> CheckRow {
    let profiles = keys::profiles_in_force(&loaded.settings, loaded.origin()).unwrap_or_default();
    match queries::summary(&loaded.settings, &profiles, loaded.origin()) {
        Ok(detail) => CheckRow::ok("queries", detail),
        Err((detail, fix)) => CheckRow::warn("queries", detail, fix),
    }
}

fn engines(loaded: &Loaded) -> CheckRow {
    match wiring::choose_engines(&loaded.settings) {
        Ok(ChosenEngines::Embedded(paths)) => match paths.check_log() {
            Ok(()) => CheckRow::ok(
                "engines",
                format!("SQLite {} and {}", paths.log.display(), paths.orders.display()),
            ),
            Err(error) => CheckRow::of_error("engines", &error, "see the message"),
        },
        Ok(ChosenEngines::Distributed(_)) => {
            let Settings { log, orders, dev, .. } = &loaded.settings;
            let detail = format!("{log} and {orders}");
            match dev {
                false => CheckRow::ok("engines", detail),
                true => CheckRow::warn(
                    "engines",
                    format!("{detail}; dev = true: replication is not judged"),
                    "remove dev before you take real money",
                ),
            }
        }
        Err(error) => CheckRow::of_error(
            "engines",
            &error,
            "correct log and orders; payfold init explains them",
        ),
    }
}

fn connect(loaded: &Loaded) -> Vec<CheckRow> {
    match block_on(async { Ok(ask(loaded).await) }) {
        Ok(rows) => rows,
        Err(error) => vec![CheckRow::of_error("connect", &error, "see the message")],
    }
}

async fn ask(loaded: &Loaded) -> Vec<CheckRow> {
    let mut rows = cluster(loaded).await;
    let ends_here = |row: &CheckRow| (row.result, row.check) == ("warn", "tables");
    if rows.iter().any(|row| row.result == "failed" || ends_here(row)) {
        return rows;
    }
    if let Ok(ChosenEngines::Embedded(paths)) = wiring::choose_engines(&loaded.settings) {
        match files(&paths).await {
            Ok(row) => rows.push(row),
            Err(row) => {
                rows.push(row);
                return rows;
            }
        }
    }
    match wiring::open_to_read(&loaded.settings).await {
        Ok(engines) => rows.extend(stores(&engines).await),
        Err(error) => rows.push(CheckRow::of_error("stores", &error, "see the message")),
    }
    rows
}

/// Checks embedded files before the order store is opened, because a damaged order store must not
/// hide the state of log and claims. An `Err` ends the checks: there is nothing to open yet, or a
/// file is missing or another system's.
async fn files(paths: &Paths) -> Result<CheckRow, CheckRow> {
    let of_error = |error: &anyhow::Error| CheckRow::of_error("files", error, "see the message");
    if paths.is_new().map_err(|error| of_error(&error))? {
        let fix = "start `payfold run`, which creates it; if your system has run before, give its \
            data folder with --data DIR";
        return Err(CheckRow::warn(
            "files",
            format!("the log {} does not exist yet", paths.log.display()),
            fix,
        ));
    }
    paths.check_claims().await.map_err(|error| of_error(&error))?;
    match is_there(&paths.orders).map_err(|error| of_error(&error))? {
        true => Ok(CheckRow::ok("claims", "the claims belong to the log")),
        false => {
            let detail = format!(
                "the order store {} does not exist; the claims belong to the log",
                paths.orders.display()
            );
            Err(CheckRow::warn(
                "files",
                detail,
                "start `payfold run`, which folds it anew from the log",
            ))
        }
    }
}

/// Checks topics in Kafka and tables in the database; no rows for embedded engines.
async fn cluster(loaded: &Loaded) -> Vec<CheckRow> {
    let Ok(ChosenEngines::Distributed(distributed)) = wiring::choose_engines(&loaded.settings)
    else {
        return Vec::new();
    };
    let checked = distributed.check().await;
    let mut rows: Vec<CheckRow> =
        checked.topics.into_iter().map(|found| CheckRow::of("topics", found)).collect();
    rows.push(CheckRow::of("tables", checked.tables));
    rows
}

async fn stores(engines: &Engines) -> Vec<CheckRow> {
    if let Err(error) = refuse_newer(&*engines.log).await {
        let detail = error.to_string().replace('\n', " ");
        return vec![CheckRow::failed("records", detail, "docs/how-to/upgrade.md, \"Upgrading\"")];
    }
    let asked = async {
        engines.check_pair().await?;
        let ends = walk::ends(&*engines.log, Topic::Intake).await?;
        let mut received = None;
        for newest in search::newest_messages(&*engines.log, Topic::Intake).await? {
            received = received.max(search::received_at(&newest)?);
        }
        anyhow::Ok((ends.iter().map(|end| end.offset).sum::<u64>(), received))
    };
    match asked.await {
        Err(error) => {
            vec![CheckRow::of_error("stores", &error, "docs/how-to/corrupt.md")]
        }
        Ok((last, received)) => {
            let stores = format!("log and orders belong together; {last} records");
            let mut rows = vec![CheckRow::ok("stores", stores), proof(engines), clock(received)];
            match builds::row(engines).await {
                Ok(row) => rows.extend(row),
                Err(error) => rows.push(CheckRow::of_error("builds", &error, "see the message")),
            }
            rows
        }
    }
}

/// Whether what another program writes to the log counts.
fn proof(engines: &Engines) -> CheckRow {
    let keys = engines.record_keys.load();
    let problem = match (keys.is_empty(), engines.embedded) {
        (true, true) => ("the vault has no record keys", "start `payfold run`, which makes them"),
        (true, false) => {
            ("the vault has no record keys", "`payfold log baseline`, which says how to make them")
        }
        (false, _) if !keys.has_baseline() => (
            "messages of the log without a MAC still count",
            "once every process has the record keys: payfold log baseline",
        ),
        (false, _) => return CheckRow::ok("proof", "each message of the log needs a MAC"),
    };
    CheckRow::warn("proof", problem.0, problem.1)
}

fn clock(newest: Option<Time>) -> CheckRow {
    let now = SystemClock.now();
    match newest {
        Some(newest) if newest > now.plus_ms(CLOCK_BEHIND_MS) => CheckRow::failed(
            "clock",
            format!("this clock shows {now}, but the log's last record is from {newest}"),
            "set the clock (NTP): notices are refused if it is wrong by more than 300 s",
        ),
        _ => CheckRow::ok("clock", format!("{now}, not behind the log")),
    }
}
