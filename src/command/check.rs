//! `payfold check`: configuration, vault, disk, clock and stores, each with how to mend what is wrong.
//! Exit 3 if nothing can be stored (a full disk, files that can't be written or don't belong together, a process that is
//! not ready), else 1 if anything failed. Changes nothing. With `--ready` or `--live` only what the running
//! process says of itself.

mod generations;
mod storage;
mod vault;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::Topic;
use payfold_ingest::browser_return::Targets;
use payfold_schemas::time::Time;
use serde::Serialize;

pub use self::storage::disk_free_bytes;
use super::{block_on, reach};
use crate::args::{CheckArgs, Global};
use crate::data_dir::DataDir;
use crate::error::{DifferencesFound, is_there};
use crate::output::{self, Listing};
use crate::settings::{self, Loaded, Settings};
use crate::wiring::asked::Found;
use crate::wiring::{self, Chosen, Engines, Paths};
use crate::{asking, error, keys, running, search, walk};

const COLUMNS: [&str; 4] = ["check", "result", "detail", "fix"];
/// A clock behind the log by more than this has been set back.
const CLOCK_BEHIND_MS: i64 = 1_000;

#[derive(Serialize)]
struct Row {
    check: &'static str,
    result: &'static str,
    detail: String,
    fix: String,
    /// Whether nothing can be stored because of it.
    #[serde(skip)]
    refuses: bool,
}

impl Row {
    fn ok(check: &'static str, detail: impl Into<String>) -> Self {
        Self::new(check, "ok", detail.into(), String::new())
    }

    fn warn(check: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(check, "warn", detail.into(), fix.into())
    }

    fn failed(check: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(check, "failed", detail.into(), fix.into())
    }

    /// As failed, and nothing can be stored.
    fn refusing(check: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { refuses: true, ..Self::failed(check, detail, fix) }
    }

    fn new(check: &'static str, result: &'static str, detail: String, fix: String) -> Self {
        Self { check, result, detail, fix, refuses: false }
    }

    fn of(check: &'static str, found: Found) -> Self {
        match found {
            Found::Good { detail } => Self::ok(check, detail),
            Found::Doubtful { detail, fix } => Self::warn(check, detail, fix),
            Found::Bad { detail, fix } => Self::failed(check, detail, fix),
        }
    }

    /// An error with its own way to mend it, or this one.
    fn of_error(check: &'static str, error: &anyhow::Error, otherwise: &str) -> Self {
        let (detail, fix) = error::told(error);
        let refuses = error::is_difference(error);
        let fix = fix.unwrap_or_else(|| otherwise.to_owned());
        Self { refuses, ..Self::failed(check, detail, fix) }
    }
}

/// Runs every check.
pub fn run(global: &Global, args: &CheckArgs) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    let data = DataDir::of(&loaded.settings);
    if args.ready {
        let url = running::assert_ready(global, &data)?;
        output::line(&format!("ready: {url}"));
        return Ok(());
    }
    if args.live {
        let url = running::assert_live(global, &data)?;
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
    let mut listing = Listing::new(args.output.output, &COLUMNS);
    for row in &rows {
        let cells = vec![row.check.into(), row.result.into(), row.detail.clone(), row.fix.clone()];
        listing.row(cells, row)?;
    }
    listing.print()?;
    let failed = rows.iter().filter(|row| row.result == "failed").count();
    if rows.iter().any(|row| row.refuses) {
        output::error_line(&format!(
            "{failed} of {} checks failed: nothing can be stored",
            rows.len()
        ));
        return Err(DifferencesFound.into());
    }
    anyhow::ensure!(failed == 0, "{failed} of {} checks failed", rows.len());
    Ok(())
}

fn configuration(loaded: &Loaded) -> Row {
    let file = match &loaded.file {
        Some(file) => file.display().to_string(),
        None => "no payfold.toml: demo, loopback only".to_owned(),
    };
    if loaded.ignored_variables.is_empty() {
        return Row::ok("configuration", file);
    }
    let names = loaded.ignored_variables.join(" ");
    Row::warn(
        "configuration",
        format!("{file}; ignored: {names}"),
        "these variables name no setting; payfold init lists all",
    )
}

fn data_folder(data: &DataDir) -> Row {
    use std::os::unix::fs::PermissionsExt;
    let path = data.path();
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Row::ok("data folder", format!("{} will be made at the first run", path.display()))
        }
        Err(error) => Row::failed(
            "data folder",
            format!("can't read {}: {error}", path.display()),
            "run as its owner, or name another with --data DIR",
        ),
        Ok(found) if !found.is_dir() => Row::failed(
            "data folder",
            format!("{} is no folder", path.display()),
            "name another with --data DIR",
        ),
        Ok(found) if found.permissions().mode() & 0o077 != 0 => Row::warn(
            "data folder",
            format!("{} can be read by others", path.display()),
            format!("chmod 700 {}", path.display()),
        ),
        Ok(_) if rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_err() => Row::failed(
            "data folder",
            format!("{} can't be written", path.display()),
            "run as its owner, or name another with --data DIR",
        ),
        Ok(_) => Row::ok("data folder", path.display().to_string()),
    }
}

fn profiles(loaded: &Loaded) -> Row {
    match keys::profiles(&loaded.settings) {
        Ok(profiles) => Row::ok("profiles", format!("{} partners configured", profiles.len())),
        Err(error) => Row::of_error("profiles", &error, "correct the profile, or payfold.toml"),
    }
}

/// Addresses that creating payments needs: a partner must be told where we are, and we where it is.
fn payments(loaded: &Loaded) -> Row {
    let settings = &loaded.settings;
    let Ok(profiles) = keys::profiles(settings) else {
        return Row::warn("payments", "not looked at", "correct the profiles first");
    };
    let called = settings.partners.values().filter(|partner| !partner.api_url.is_empty()).count();
    let unreachable = reach::unreachable(settings, &profiles);
    if !unreachable.is_empty() {
        return Row::failed("payments", unreachable.join("; "), reach::FIX);
    }
    let checkout = &settings.checkout;
    if let Err((name, problem)) = Targets::parse(&checkout.shop_url, &checkout.return_to) {
        let setting =
            if name.is_empty() { "shop_url".to_owned() } else { format!("return_to.{name}") };
        return Row::failed(
            "payments",
            format!("checkout.{setting}: {problem}"),
            "mend it in payfold.toml",
        );
    }
    if called == 0 {
        return Row::ok("payments", "no partner has an api_url: none are created here");
    }
    if settings.public_url.is_empty() {
        let detail = format!(
            "partners are told to send notices to http://{}, which only this machine reaches",
            settings.listen_public
        );
        return Row::warn("payments", detail, "set public_url to the address partners reach");
    }
    if checkout.shop_url.is_empty() {
        let detail = "payers who come back see a plain page";
        return Row::warn("payments", detail, "set checkout.shop_url to your page of thanks");
    }
    Row::ok("payments", format!("{called} partners are called; notices to {}", settings.public_url))
}

/// Who is asked what a stuck payment came to, and who should be and can't.
fn queries(loaded: &Loaded) -> Row {
    let mut profiles = keys::profiles(&loaded.settings).unwrap_or_default();
    profiles.extend(loaded.is_demo().then(crate::demo::profile).flatten());
    match asking::summary(&loaded.settings, &profiles, loaded.origin()) {
        Ok(detail) => Row::ok("queries", detail),
        Err((detail, fix)) => Row::warn("queries", detail, fix),
    }
}

fn engines(loaded: &Loaded) -> Row {
    match wiring::chosen(&loaded.settings) {
        Ok(Chosen::Embedded(paths)) => Row::ok(
            "engines",
            format!("SQLite {} and {}", paths.log.display(), paths.orders.display()),
        ),
        Ok(Chosen::Distributed(_)) => {
            let Settings { log, orders, dev, .. } = &loaded.settings;
            let detail = format!("{log} and {orders}");
            match dev {
                false => Row::ok("engines", detail),
                true => Row::warn(
                    "engines",
                    format!("{detail}; dev = true: replication is not judged"),
                    "take dev out before real money comes",
                ),
            }
        }
        Err(error) => Row::of_error("engines", &error, "see payfold init"),
    }
}

fn connect(loaded: &Loaded) -> Vec<Row> {
    match block_on(async { Ok(ask(loaded).await) }) {
        Ok(rows) => rows,
        Err(error) => vec![Row::of_error("connect", &error, "see the message")],
    }
}

async fn ask(loaded: &Loaded) -> Vec<Row> {
    let mut rows = cluster(loaded).await;
    let ends_here = |row: &Row| (row.result, row.check) == ("warn", "tables");
    if rows.iter().any(|row| row.result == "failed" || ends_here(row)) {
        return rows;
    }
    if let Ok(Chosen::Embedded(paths)) = wiring::chosen(&loaded.settings) {
        match files(&paths).await {
            Ok(row) => rows.push(row),
            Err(row) => {
                rows.push(row);
                return rows;
            }
        }
    }
    match Engines::open_to_read(&loaded.settings).await {
        Ok(engines) => rows.extend(stores(&engines).await),
        Err(error) => rows.push(Row::of_error("stores", &error, "see the message")),
    }
    rows
}

/// What can be said of embedded files before the order store is opened: a damaged one must not hide whether log and claims are
/// whole. Errors: there is nothing to open yet, or a file is missing or another system's.
async fn files(paths: &Paths) -> Result<Row, Row> {
    let of_error = |error: &anyhow::Error| Row::of_error("files", error, "see the message");
    if paths.is_new().map_err(|error| of_error(&error))? {
        let fix = "`payfold run` makes it; of a system that has run, name the data folder with --data DIR";
        return Err(Row::warn("files", format!("there is no {} yet", paths.log.display()), fix));
    }
    paths.check_claims().await.map_err(|error| of_error(&error))?;
    match is_there(&paths.orders).map_err(|error| of_error(&error))? {
        true => Ok(Row::ok("claims", "the claims belong to the log")),
        false => {
            let detail =
                format!("there is no {}; the claims belong to the log", paths.orders.display());
            Err(Row::warn("files", detail, "the next `payfold run` folds it anew from the log"))
        }
    }
}

/// What Kafka and the database say about topics and tables; nothing where the engines are embedded.
async fn cluster(loaded: &Loaded) -> Vec<Row> {
    let Ok(Chosen::Distributed(distributed)) = wiring::chosen(&loaded.settings) else {
        return Vec::new();
    };
    let look = distributed.look().await;
    let mut rows: Vec<Row> =
        look.topics.into_iter().map(|found| Row::of("topics", found)).collect();
    rows.push(Row::of("tables", look.tables));
    rows
}

async fn stores(engines: &Engines) -> Vec<Row> {
    if let Err(error) = search::refuse_newer(&*engines.log).await {
        let detail = error.to_string().replace('\n', " ");
        return vec![Row::failed("records", detail, "docs/operations.md, \"Upgrading\"")];
    }
    let asked = async {
        engines.check_pair().await?;
        let ends = walk::ends(&*engines.log, Topic::Intake).await?;
        let mut received = None;
        for end in ends.iter().filter(|end| end.offset > 0) {
            let newest = search::message_at(&*engines.log, Topic::Intake, *end).await?;
            let newest = newest.as_ref().map(search::received_at).transpose()?;
            received = received.max(newest.flatten());
        }
        anyhow::Ok((ends.iter().map(|end| end.offset).sum::<u64>(), received))
    };
    match asked.await {
        Err(error) => {
            vec![Row::of_error("stores", &error, "docs/operations.md, \"Corrupt\"")]
        }
        Ok((last, received)) => {
            let stores = format!("log and orders belong together; {last} records");
            let mut rows = vec![Row::ok("stores", stores), clock(received)];
            match generations::row(engines).await {
                Ok(row) => rows.extend(row),
                Err(error) => rows.push(Row::of_error("generations", &error, "see the message")),
            }
            rows
        }
    }
}

fn clock(newest: Option<Time>) -> Row {
    let now = SystemClock.now();
    match newest {
        Some(newest) if newest > now.plus_ms(CLOCK_BEHIND_MS) => Row::failed(
            "clock",
            format!("this clock shows {now}, the log's last record is from {newest}"),
            "set the clock (NTP): notices over 300 s away are refused",
        ),
        _ => Row::ok("clock", format!("{now}, not behind the log")),
    }
}
