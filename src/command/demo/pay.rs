//! `payfold demo pay`: creates payments in a running demo, pays them at the sandbox partner with
//! given troubles, and compares the results with what is expected. Exit 3 on any difference.

use std::time::{Duration, Instant};

use anyhow::Context;
use futures_util::{StreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};
use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::Topic;
use payfold_engines::log::walk;
use payfold_sandbox::expectation::{Expectation, WaitsFor, expect_outcome};
use payfold_sandbox::trouble::Trouble;
use payfold_sandbox::troubles::Troubles;
use payfold_schemas::ids::{OrderKey, RequestId};
use payfold_schemas::order::Order;

use super::acked::{self, AckedCounts};
use super::report::{self, PaymentResult};
use super::shop::{NoticeContent, SandboxObserver, Shop, ShopCreateRequest, create_request};
use crate::args::{DemoPayArgs, Global};
use crate::command::block_on::block_on;
use crate::data_dir::DataDir;
use crate::error::{DifferencesFound, Fixable};
use crate::run_file::RunFile;
use crate::wiring::{self, Engines};
use crate::{output, settings};

/// How long a payment may take after its create call. The trouble `late` sends a notice some
/// seconds after the deadline.
const SETTLE_MAX: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(100);

/// One payment of the run.
struct DemoPayment {
    troubles: Troubles,
    expected: Expectation,
    request: ShopCreateRequest,
}

/// The clients of a run.
struct Demo {
    shop: Shop,
    partner: SandboxObserver,
    engines: Engines,
    progress: ProgressBar,
}

/// Runs the payments and prints the report. Errors: `DifferencesFound`.
pub(crate) fn run(global: &Global, args: &DemoPayArgs) -> anyhow::Result<()> {
    let cases = cases(&args.trouble)?;
    let loaded = settings::load(global)?;
    let data = DataDir::of(&loaded.settings);
    let run = RunFile::read(&data)?;
    let seed = args.seed.unwrap_or_else(|| SystemClock.now().unix_ms().unsigned_abs() % 1_000_000);
    let payments = payments(&cases, args.count, seed, SystemClock.request_id());
    output::line(&format!(
        "{} payments, trouble {}, seed {seed} (repeat with --seed {seed})",
        payments.len(),
        args.trouble
    ));
    payfold_partners::remote::install_tls();
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}").context("a style")?;
    let progress = ProgressBar::new(u64::try_from(payments.len())?).with_style(style);
    let (shop, partner) = (Shop::find(&data, &run)?, SandboxObserver::find(&run)?);
    block_on(async {
        let engines = wiring::open_to_read(&loaded.settings).await?;
        Demo { shop, partner, engines, progress }.play(payments, args.at_once).await
    })
}

/// The sets of troubles that payments get in turn.
fn cases(trouble: &str) -> anyhow::Result<Vec<Troubles>> {
    let parsed = match trouble {
        "none" => Troubles::new([Trouble::Pay]).map(|troubles| vec![troubles]),
        "all" => Trouble::ALL.into_iter().map(|trouble| Troubles::new([trouble])).collect(),
        troubles => troubles.split(',').map(|troubles| Troubles::parse(troubles.trim())).collect(),
    };
    parsed.map_err(|error| {
        let fix = "separate the troubles of different payments by commas, and combine those of \
            one with +: --trouble duplicates,late+wrong-key";
        Fixable::error(format!("--trouble {trouble}: {error}"), fix)
    })
}

/// Makes the payments, with the cases in turn. A shared reference needs two payments, so those of
/// such a case come in pairs.
fn payments(cases: &[Troubles], count: usize, seed: u64, run: RequestId) -> Vec<DemoPayment> {
    let mut troubles: Vec<&Troubles> = cases.iter().cycle().take(count).collect();
    for case in cases.iter().filter(|case| expect_outcome(case).waits_for == WaitsFor::SharedRef) {
        if troubles.iter().filter(|troubles| **troubles == case).count() % 2 == 1 {
            troubles.push(case);
        }
    }
    let payment = |(n, troubles): (usize, &Troubles)| DemoPayment {
        troubles: troubles.clone(),
        expected: expect_outcome(troubles),
        request: create_request(run, seed, n, &troubles.to_string()),
    };
    troubles.into_iter().enumerate().map(payment).collect()
}

impl Demo {
    async fn play(&self, payments: Vec<DemoPayment>, at_once: usize) -> anyhow::Result<()> {
        let head = walk::ends(&*self.engines.log, Topic::Intake).await?;
        self.progress.set_message("created and settled");
        let begun = Instant::now();
        let mut seen = Vec::new();
        let mut counts = AckedCounts::new();
        let mut playing =
            stream::iter(payments).map(|payment| self.one(payment)).buffer_unordered(at_once);
        while let Some(played) = playing.next().await {
            let (one, said) = played?;
            if let Some(order) = &one.answer.order {
                let of_order = counts.entry(order.clone()).or_default();
                said.into_iter().for_each(|said| *of_order.entry(said).or_default() += 1);
            }
            seen.push(one);
            self.progress.inc(1);
        }
        drop(playing);
        self.progress.finish_and_clear();
        let differing = report::print(&seen);
        let taken = acked::taken(&*self.engines.log, head, &counts).await?;
        let (acknowledged, lost) = acked::lost(&counts, &taken);
        output::line(&format!(
            "{} payments in {:.1} s, {differing} not as expected; {acknowledged} notices \
             acknowledged, {lost} of them not in the log",
            seen.len(),
            begun.elapsed().as_secs_f64()
        ));
        if differing + lost == 0 { Ok(()) } else { Err(DifferencesFound.into()) }
    }

    /// Plays one payment until its partner has finished and its order is as expected, or the time
    /// is over.
    async fn one(
        &self,
        payment: DemoPayment,
    ) -> anyhow::Result<(PaymentResult, Vec<NoticeContent>)> {
        let answer = self.shop.create(&payment.request).await?;
        let mut seen = PaymentResult {
            troubles: payment.troubles.to_string(),
            expected: payment.expected,
            answer,
            order: None,
            create_calls: 0,
            acked: 0,
        };
        let Some(order) = seen.answer.order.clone() else { return Ok((seen, Vec::new())) };
        let begun = Instant::now();
        loop {
            let delivered = self.partner.delivered(&order).await?;
            seen.order = self.row(&order).await?;
            seen.create_calls = delivered.create_calls.into();
            seen.acked = delivered.acked.len();
            // An order may be as expected before its partner has sent everything, so both are
            // checked.
            let done = delivered.finished && seen.is_as_expected();
            if done || begun.elapsed() > SETTLE_MAX {
                return Ok((seen, delivered.acked));
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn row(&self, order: &OrderKey) -> anyhow::Result<Option<Order>> {
        Ok(self.engines.store()?.load(vec![order.clone()]).await?.pop().flatten())
    }
}
