//! `payfold run`: starts the roles of this process, prints their addresses, and drains them at the
//! end.

use std::time::{Duration, Instant};

use actix_web::dev::ServerHandle;
use payfold_partners::directory::Directory;
use payfold_schemas::event::OrderChanged;
use tokio::signal::unix::{SignalKind, signal};

use super::{reach, return_keys};
use crate::args::{Global, RunArgs};
use crate::data_dir::DataDir;
use crate::error::Fixable;
use crate::opened::OpenedSystem;
use crate::roles::Roles;
use crate::server::{Listeners, RunningSystem};
use crate::settings::{self, Loaded};
use crate::{output, privacy, telemetry};

/// How long requests in flight may take to finish when the process ends.
const DRAIN_MAX: Duration = Duration::from_secs(20);

/// Runs until SIGINT, SIGTERM, or an error of a role in a process that receives no notices.
pub(crate) fn run(global: &Global, args: &RunArgs) -> anyhow::Result<()> {
    let started_at = Instant::now();
    // Files of this process are for its user only: the databases hold notices as received.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    let loaded = settings::load(global)?.with_run_flags(args);
    telemetry::start_logging(&loaded.settings)?;
    if !loaded.settings.debuggable
        && let Err(error) = privacy::keep_memory_private()
    {
        tracing::warn!(%error, "core files of this process can't be forbidden, and they would \
            hold keys; forbid them in the service's unit or with ulimit -c 0");
    }
    for name in &loaded.ignored_variables {
        tracing::warn!(
            variable = name,
            "this environment variable matches no setting and is ignored; payfold init lists all \
             settings"
        );
    }
    if loaded.is_demo() {
        refuse_open_demo(&loaded)?;
    }
    actix_web::rt::System::new().block_on(serve(loaded, args, started_at))
}

async fn serve(loaded: Loaded, args: &RunArgs, started_at: Instant) -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let roles = Roles::asked(&args.roles, loaded.origin());
    let opened = OpenedSystem::open(&loaded, roles).await?;
    for problem in reach::unreachable(&loaded.settings, opened.keys.profiles()) {
        tracing::warn!(
            problem,
            fix = reach::FIX,
            "this partner can't be called: no payment is created there and no query is sent"
        );
    }
    let directory = opened.keys.directory().load_full();
    let mut started = RunningSystem::start(opened, roles).await?;
    print_banner(&loaded, &started, started_at);
    if started.takes_notices() && !loaded.is_demo() {
        warn_of_return_keys(&directory);
    }
    if is_whole(&started) && (output::is_terminal() || loaded.is_demo()) {
        started.watch_orders(print_change).await?;
    }
    let failure = tokio::select! {
        _ = interrupt.recv() => None,
        _ = terminate.recv() => None,
        error = started.role_failed() => Some(error),
    };
    if let Some(error) = &failure
        && started.takes_notices()
    {
        // Notices must still become durable. The role folds them once it runs again.
        tracing::error!(
            error = format!("{error:#}"),
            "a role has ended; this process still receives notices: correct the cause, then \
             restart the process"
        );
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
    drain(started).await?;
    failure.map_or(Ok(()), Err)
}

/// Whether this process runs a whole system, with public and shop listener.
fn is_whole(started: &RunningSystem) -> bool {
    started.listeners.public.is_some() && started.listeners.shop.is_some()
}

/// Stops accepting connections, finishes requests, folds durable facts, syncs the log.
async fn drain(started: RunningSystem) -> anyhow::Result<()> {
    started.life.draining();
    let Listeners { public, shop, console, sandbox, probes: _ } = &started.listeners;
    let serving = [public, shop, console, sandbox].into_iter().flatten();
    let handles: Vec<ServerHandle> = serving.map(|listener| listener.handle.clone()).collect();
    for handle in &handles {
        handle.pause().await;
    }
    started.end_streams();
    let open = started.in_flight();
    let begun = Instant::now();
    while started.in_flight() > 0 && begun.elapsed() < DRAIN_MAX {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for handle in handles {
        handle.stop(true).await;
    }
    started.finish().await?;
    output::notice(&format!("draining: {open} requests open, log synced, bye"));
    Ok(())
}

/// Refuses addresses other than loopback in the demo, because the demo's keys are test keys.
fn refuse_open_demo(loaded: &Loaded) -> anyhow::Result<()> {
    let addresses = [
        ("--listen-public", &loaded.settings.listen_public),
        ("--listen-shop", &loaded.settings.listen_shop),
        ("--listen-admin", &loaded.settings.listen_admin),
        ("--listen-probes", &loaded.settings.listen_probes),
        ("--listen-console", &loaded.settings.listen_console),
        ("--listen-sandbox", &loaded.settings.listen_sandbox),
    ];
    for (flag, address) in addresses.into_iter().filter(|(_, address)| !address.is_empty()) {
        let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
        let loopback = host == "localhost"
            || host
                .trim_matches(['[', ']'])
                .parse::<std::net::IpAddr>()
                .is_ok_and(|ip| ip.is_loopback());
        if !loopback {
            return Err(Fixable::error(
                format!(
                    "{flag} {address}: without a payfold.toml this is a demo with a test key, \
                     which listens on loopback only"
                ),
                "write a configuration with payfold init > payfold.toml, then add a partner's key \
                 with payfold key add",
            ));
        }
    }
    Ok(())
}

fn print_banner(loaded: &Loaded, started: &RunningSystem, started_at: Instant) {
    let version = env!("CARGO_PKG_VERSION");
    let origin = match &loaded.file {
        Some(file) => format!("configuration {}", file.display()),
        None => {
            "demo (no payfold.toml found; loopback only; nothing here is real money)".to_owned()
        }
    };
    output::notice(&format!("payfold {version}  {origin}"));
    let data = &started.data;
    let new = if started.data_is_new { "new; " } else { "" };
    output::notice(&format!("  data      {} ({new}{})", data.path().display(), started.durability));
    let Listeners { public, shop, console, sandbox, probes } = &started.listeners;
    if let Some(public) = public {
        let what =
            "POST /api/payment/ipn, POST|GET /api/payment/ipn/{partner}, GET /api/payment/result";
        output::notice(&format!("  public    {}   {what}", public.url));
    }
    if let Some(shop) = shop {
        let key = match loaded.is_demo() {
            true => format!("token in {}", data.shop_token().display()),
            false => "tokens by payfold shop add; /openapi.json".to_owned(),
        };
        output::notice(&format!("  shop      {}   {key}", shop.url));
    }
    output::notice(&format!("  admin     {}   /readyz /metrics", started.admin.url));
    if let Some(probes) = probes {
        output::notice(&format!("  probes    {}   /readyz /metrics", probes.url));
    }
    if let Some(console) = console {
        let way = match &started.console_login {
            Some(link) => format!("log in once with {link}"),
            None => "log in with an admin token (payfold token add)".to_owned(),
        };
        output::notice(&format!("  console   {}   {way}", console.url));
    }
    if let Some(sandbox) = sandbox {
        let of_demo = format!(
            "   merchantCode {}, its HMAC key in {} (demo only)",
            crate::demo::MERCHANT,
            data.sandbox_key().display()
        );
        let of_demo = if loaded.is_demo() { of_demo } else { String::new() };
        output::notice(&format!("  partner   sandbox ready at {}{of_demo}", sandbox.url));
    }
    let seconds = started_at.elapsed().as_secs_f64();
    if !loaded.is_demo() || !is_whole(started) {
        output::notice(&format!("ready in {seconds:.1} s"));
        return;
    }
    output::notice(&format!("ready in {seconds:.1} s. In another terminal:"));
    print_next_commands(data);
}

/// What to try in another terminal, in this data folder.
fn print_next_commands(data: &DataDir) {
    let folder = match data.path() == settings::Settings::default().data {
        true => String::new(),
        false => format!(" --data '{}'", data.path().display()),
    };
    let commands = [
        (format!("payfold{folder} demo pay"), "create, pay, watch PENDING → PAID"),
        (
            format!("payfold{folder} demo pay --count 50 --trouble all"),
            "retries, wrong order, wrong amounts: see what is flagged",
        ),
        (format!("payfold{folder} order list"), "the orders so far"),
        (format!("payfold{folder} tail orders"), "the events other teams read, as they arrive"),
        ("payfold init > payfold.toml".to_owned(), "a configuration of your own"),
    ];
    let width = commands.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
    for (command, what) in commands {
        output::notice(&format!("  {command:<width$}   {what}"));
    }
}

/// Warns of accounts with payers who can post a signed return as a notice, and prints the fix.
fn warn_of_return_keys(directory: &Directory) {
    let sharing = return_keys::sharing(directory);
    if let Some(problem) = return_keys::problem(&sharing) {
        output::notice(&format!("warning: {problem}"));
        output::notice(&format!("  fix: {}", return_keys::fix(&sharing)));
    }
}

fn print_change(change: &OrderChanged) {
    let before = change.previous_state.map_or("new", |state| state.as_str());
    let flags: Vec<&str> = change.attention.iter().map(|flag| flag.as_str()).collect();
    let money = match (change.amount, change.currency) {
        (Some(amount), Some(currency)) => format!("{amount} {currency}"),
        _ => "amount unknown".to_owned(),
    };
    let fulfil = if change.fulfil { "  fulfil" } else { "" };
    let attention =
        if flags.is_empty() { String::new() } else { format!("  ! {}", flags.join(" ")) };
    output::notice(&format!(
        "{}/{}/{}  {before} → {}  {money}{fulfil}{attention}",
        change.partner, change.merchant_code, change.order_id, change.state
    ));
}
