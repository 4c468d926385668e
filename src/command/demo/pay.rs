//! `payfold demo pay`: drives a running demo through checkout and the sandbox partner, with trouble by name, and
//! compares what came with what must come. Exit 3 on any difference.

use std::time::{Duration, Instant};

use anyhow::Context;
use futures_util::{StreamExt, stream};
use indicatif::{ProgressBar, ProgressStyle};
use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::Topic;
use payfold_sandbox::expected::{Expectation, WaitsFor, expected};
use payfold_sandbox::trouble::{Trouble, Troubles};
use payfold_schemas::ids::{OrderKey, RequestId};
use payfold_schemas::order::Order;

use super::acked::{self, Counts};
use super::report::{self, Seen};
use super::shop::{Partner, Said, Shop, Wanted, wanted};
use crate::args::{DemoPayArgs, Global};
use crate::command::block_on;
use crate::data_dir::DataDir;
use crate::error::{DifferencesFound, Fixable};
use crate::output;
use crate::running::RunFile;
use crate::wiring::Engines;
use crate::{settings, walk};

/// How long a payment may take after its create call: a late notice comes some seconds after a deadline.
const SETTLE_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);

/// One payment of the run.
struct Payment {
    words: Troubles,
    expected: Expectation,
    wanted: Wanted,
}

/// What a run works with.
struct Demo {
    shop: Shop,
    partner: Partner,
    engines: Engines,
    progress: ProgressBar,
}

/// Runs it.
pub fn run(global: &Global, args: &DemoPayArgs) -> anyhow::Result<()> {
    let cases = cases(&args.trouble)?;
    let loaded = settings::load(global)?;
    let data = DataDir::of(&loaded.settings);
    let run = RunFile::read(&data)?;
    let seed = args.seed.unwrap_or_else(|| SystemClock.now().unix_ms().unsigned_abs() % 1_000_000);
    let payments = payments(&cases, args.count, seed, SystemClock.request_id());
    output::line(&format!(
        "{} payments, trouble {}, seed {seed} (again with --seed {seed})",
        payments.len(),
        args.trouble
    ));
    payfold_partners::remote::install_tls();
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}").context("a style")?;
    let progress = ProgressBar::new(u64::try_from(payments.len())?).with_style(style);
    let (shop, partner) = (Shop::find(&data, &run)?, Partner::find(&run)?);
    block_on(async {
        let engines = Engines::open_to_read(&loaded.settings).await?;
        Demo { shop, partner, engines, progress }.play(payments, args.at_once).await
    })
}

/// The sets of words a run goes through in turn.
fn cases(trouble: &str) -> anyhow::Result<Vec<Troubles>> {
    let parsed = match trouble {
        "none" => Troubles::new([Trouble::Pay]).map(|words| vec![words]),
        "all" => Trouble::ALL.into_iter().map(|word| Troubles::new([word])).collect(),
        words => words.split(',').map(|words| Troubles::parse(words.trim())).collect(),
    };
    parsed.map_err(|error| {
        let fix = "name words with , between payments and + within one: --trouble duplicates,late+wrong-key";
        Fixable::error(format!("--trouble {trouble}: {error}"), fix)
    })
}

/// So many payments, each case in turn. A ref is shared by two, so those of such a case come in pairs.
fn payments(cases: &[Troubles], count: usize, seed: u64, run: RequestId) -> Vec<Payment> {
    let mut words: Vec<&Troubles> = cases.iter().cycle().take(count).collect();
    for case in cases.iter().filter(|case| expected(case).waits_for == WaitsFor::SharedRef) {
        if words.iter().filter(|words| **words == case).count() % 2 == 1 {
            words.push(case);
        }
    }
    let payment = |(n, words): (usize, &Troubles)| Payment {
        words: words.clone(),
        expected: expected(words),
        wanted: wanted(run, seed, n, &words.to_string()),
    };
    words.into_iter().enumerate().map(payment).collect()
}

impl Demo {
    async fn play(&self, payments: Vec<Payment>, at_once: usize) -> anyhow::Result<()> {
        let head = walk::ends(&*self.engines.log, Topic::Intake).await?;
        self.progress.set_message("created and settled");
        let begun = Instant::now();
        let mut seen = Vec::new();
        let mut counts = Counts::new();
        let mut playing =
            stream::iter(payments).map(|payment| self.one(payment)).buffer_unordered(at_once);
        while let Some(played) = playing.next().await {
            let (one, said) = played?;
            if let Some(order) = &one.asked.order {
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
        let (told, lost) = acked::lost(&counts, &taken);
        output::line(&format!(
            "{} payments in {:.1} s, {differing} not as expected; {told} notices acknowledged, {lost} of them not in the log",
            seen.len(),
            begun.elapsed().as_secs_f64()
        ));
        if differing + lost == 0 { Ok(()) } else { Err(DifferencesFound.into()) }
    }

    /// One payment from the shop's request until nothing more is expected of it.
    async fn one(&self, payment: Payment) -> anyhow::Result<(Seen, Vec<Said>)> {
        let asked = self.shop.create(&payment.wanted).await?;
        let mut seen = Seen {
            words: payment.words.to_string(),
            expected: payment.expected,
            asked,
            order: None,
            create_calls: 0,
            acked: 0,
        };
        let Some(order) = seen.asked.order.clone() else { return Ok((seen, Vec::new())) };
        let begun = Instant::now();
        loop {
            let delivered = self.partner.delivered(&order).await?;
            seen.order = self.row(&order).await?;
            seen.create_calls = delivered.create_calls;
            seen.acked = delivered.acked.len();
            // A payment that is as it must be too early is looked at again until its partner has done.
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
