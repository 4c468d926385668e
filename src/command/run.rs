//! `payfold run`: starts the roles of this process, tells where they are, and drains them at the end.

use std::time::{Duration, Instant};

use actix_web::dev::ServerHandle;
use payfold_partners::directory::Directory;
use payfold_schemas::event::OrderChanged;
use tokio::signal::unix::{SignalKind, signal};

use super::{reach, return_keys};
use crate::args::{Global, RunArgs};
use crate::error::Fixable;
use crate::roles::Roles;
use crate::server::{Listeners, Server, Started};
use crate::settings::{self, Loaded};
use crate::{output, privacy, telemetry};

/// Requests in flight get this long to finish.
const DRAIN_MAX: Duration = Duration::from_secs(20);

/// Runs until a signal or a role's error.
pub fn run(global: &Global, args: &RunArgs) -> anyhow::Result<()> {
    let started_at = Instant::now();
    // What this process makes is for its user alone: the databases hold notices as they came.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    let loaded = settings::load(global)?.with_run_flags(args);
    telemetry::start_logging(&loaded.settings)?;
    if !loaded.settings.debuggable
        && let Err(error) = privacy::keep_memory_private()
    {
        tracing::warn!(%error, "core files of this process, which would hold keys, can't be forbidden");
    }
    for name in &loaded.ignored_variables {
        tracing::warn!(
            variable = name,
            "this environment variable names no setting and is ignored"
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
    let server = Server::open(&loaded, roles).await?;
    for problem in reach::unreachable(&loaded.settings, server.keys.profiles()) {
        tracing::warn!(
            problem,
            fix = reach::FIX,
            "no payments can be created there, and nothing can be asked"
        );
    }
    let directory = server.keys.directory().load_full();
    let mut started = server.start(roles).await?;
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
        // Notices must still become durable; what is done with them later is done right.
        tracing::error!(
            error = format!("{error:#}"),
            "this process goes on taking notices without that role until it is mended and started again"
        );
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
    drain(started).await?;
    failure.map_or(Ok(()), Err)
}

/// Whether this process is a system for somebody to try, not one of many.
fn is_whole(started: &Started) -> bool {
    started.listeners.public.is_some() && started.listeners.shop.is_some()
}

/// Stops accepting, finishes requests, folds what is durable, syncs the log.
async fn drain(started: Started) -> anyhow::Result<()> {
    started.life.draining();
    let Listeners { public, shop, sandbox } = &started.listeners;
    let serving = [public, shop, sandbox].into_iter().flatten();
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

/// The demo holds test keys and money of nobody: it never listens where others could reach it.
fn refuse_open_demo(loaded: &Loaded) -> anyhow::Result<()> {
    let addresses = [
        ("--listen-public", &loaded.settings.listen_public),
        ("--listen-shop", &loaded.settings.listen_shop),
        ("--listen-admin", &loaded.settings.listen_admin),
        ("--listen-sandbox", &loaded.settings.listen_sandbox),
    ];
    for (flag, address) in addresses {
        let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
        let loopback = host == "localhost"
            || host
                .trim_matches(['[', ']'])
                .parse::<std::net::IpAddr>()
                .is_ok_and(|ip| ip.is_loopback());
        if !loopback {
            return Err(Fixable::error(
                format!(
                    "{flag} {address}: without a payfold.toml this is a demo with a test key, and it listens on loopback only"
                ),
                "payfold init > payfold.toml, then add a partner's key with payfold key add",
            ));
        }
    }
    Ok(())
}

fn print_banner(loaded: &Loaded, started: &Started, started_at: Instant) {
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
    let Listeners { public, shop, sandbox } = &started.listeners;
    if let Some(public) = public {
        let what =
            "POST /api/payment/ipn, POST|GET /api/payment/ipn/{partner}, GET /api/payment/result";
        output::notice(&format!("  public    {}   {what}", public.url));
    }
    if let Some(shop) = shop {
        let key = match loaded.is_demo() {
            true => format!("key in {}", data.shop_token().display()),
            false => "keys by payfold shop add; /openapi.json".to_owned(),
        };
        output::notice(&format!("  shop      {}   {key}", shop.url));
    }
    output::notice(&format!("  admin     {}   /readyz /metrics", started.admin.url));
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
    for (command, what) in [
        ("payfold demo pay", "create, pay, watch PENDING → PAID"),
        (
            "payfold demo pay --count 50 --trouble all",
            "retries, disorder, wrong amounts: see what is flagged",
        ),
        ("payfold order list", "the orders so far"),
        ("payfold tail orders", "the events other teams read, as they come"),
        ("payfold init > payfold.toml", "a configuration of your own"),
    ] {
        output::notice(&format!("  {command:<43} {what}"));
    }
}

/// Says which accounts' payers can post a signed return as a notice, and what mends it.
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
