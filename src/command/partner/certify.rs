//! `payfold partner certify`: tests a partner's sandbox against its profile and the contract, and
//! writes a signed report and an HTML page. Exit 3 if a rule failed. The vault is only read, and a
//! running system is not touched.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use payfold_certify::judge::Verdict;
use payfold_certify::observations::{Attestation, AttestedItem, PaymentCase};
use payfold_certify::report::Report;
use payfold_certify::target::{RunTarget, TargetRefusal, is_private_trial};
use payfold_certify::{
    CertifyError, CertifySettings, PageOperator, RunEvent, RunTimeouts, certify,
    render_report_page, summarize_results,
};
use payfold_engines::clock::{Clock, SystemClock};
use payfold_partners::directory::Directory;
use payfold_partners::profile::Stage;
use payfold_partners::remote::{CreateError, PartnerClient};
use payfold_partners::vault::signer::DocumentSigner;
use payfold_sandbox::troubles::Troubles;
use payfold_schemas::ids::{MerchantCode, PartnerCode};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;
use url::Url;

use crate::args::{CertifyArgs, Global};
use crate::data_dir::DataDir;
use crate::error::{DifferencesFound, Fixable};
use crate::listing::{self, Row};
use crate::run_file::RunFile;
use crate::settings::{self, Loaded};
use crate::{keys, listener, output};

/// A row of a report: a rule with its result.
#[derive(Deserialize, Serialize)]
struct RuleRow {
    rule: String,
    clause: String,
    result: String,
    evidence: String,
}

impl Row for RuleRow {
    const COLUMNS: &'static str = "rule clause result evidence";
}

/// Runs the certification and writes the report.
pub(crate) fn run(global: &Global, args: &CertifyArgs) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    let data = DataDir::of(&loaded.settings);
    let report_path = args.report.as_deref().context("--report says where the report goes")?;
    let page_path = page_of(report_path)?;
    let signer = open_signer(&data, args)?;
    let settings = settings_of(&loaded, &data, args)?;
    // A run can take long, so an unwritable report is detected before it starts.
    for path in [report_path, &page_path] {
        let options = std::fs::File::options().append(true).create(true).open(path);
        options.with_context(|| format!("{} can't be written", path.display()))?;
    }
    note_draft_stage(&settings);
    let report = watched(settings)?;
    let sealed = report.sign(&signer);
    let digest = sealed["digest"].as_str().unwrap_or_default();
    let page = render_report_page(&report, digest, &hex::encode(signer.public_key()));
    let mut text = serde_json::to_vec_pretty(&sealed)?;
    text.push(b'\n');
    for (path, bytes) in [(report_path, text.as_slice()), (&page_path, page.as_bytes())] {
        std::fs::write(path, bytes)
            .with_context(|| format!("{} can't be written", path.display()))?;
    }
    print(args, &sealed["report"])?;
    output::error_line(&format!("{}: {}", report.verdict.as_str(), summarize_results(&report)));
    output::error_line(&format!("{} and {}", report_path.display(), page_path.display()));
    match report.verdict {
        Verdict::Failed => Err(DifferencesFound.into()),
        Verdict::Passed | Verdict::Incomplete => Ok(()),
    }
}

/// Prints the rules of a report's body.
pub(super) fn print(args: &CertifyArgs, body: &Value) -> anyhow::Result<()> {
    listing::print(args.output.output, Vec::<RuleRow>::deserialize(&body["rules"])?)
}

/// The path of the HTML page: the report's, ending in `.html`.
fn page_of(report: &Path) -> anyhow::Result<PathBuf> {
    let page = report.with_extension("html");
    if page != report {
        return Ok(page);
    }
    let what = format!("--report {} is also the name of the HTML page", report.display());
    Err(Fixable::error(what, "use another ending for the report, such as .json"))
}

/// Opens the signing key, which is derived from the vault's identity or the given one.
pub(super) fn open_signer(data: &DataDir, args: &CertifyArgs) -> anyhow::Result<DocumentSigner> {
    let path = args.identity.clone().unwrap_or_else(|| data.identity());
    DocumentSigner::open(&path).map_err(|error| {
        let fix = "give an age identity with --identity FILE, or the data folder with --data DIR";
        Fixable::error(error.to_string(), fix)
    })
}

fn settings_of(
    loaded: &Loaded,
    data: &DataDir,
    args: &CertifyArgs,
) -> anyhow::Result<CertifySettings> {
    let named = args.partner.as_deref().context("which partner")?;
    let partner = PartnerCode::parse(named)?;
    let directory = keys::open_directory_with(loaded, |profile| {
        let is_trial = is_private_trial(&profile, &partner, args.url.as_deref());
        if is_trial { profile.on_trial() } else { profile }
    })?;
    let merchant_code = merchant_of(&directory, &partner, args.merchant.as_deref())?;
    let socket = listener::bind(&args.listen, "listen")?;
    let public_url = match &args.public_url {
        Some(url) => url.clone(),
        None => listener::url(&socket)?,
    };
    let api_url = api_url(loaded, data, args, &partner)?;
    let configured = loaded.settings.partners.get(partner.as_str());
    let service_url = configured.map(|one| one.api_url.as_str());
    let target = RunTarget { api_url: &api_url, public_url: &public_url, service_url };
    let account = directory.account(&partner, &merchant_code);
    target.check(account.map(|account| &**account.profile())).map_err(explain)?;
    Ok(CertifySettings {
        api_url,
        directory: Arc::new(directory),
        partner,
        merchant_code,
        platforms: platforms(loaded, args)?,
        remote: PartnerClient::new().context("the system's certificates")?,
        socket,
        public_url,
        amount: Amount::from_minor(args.amount).context("--amount")?,
        currency: Currency::parse(&args.currency).context("--currency")?,
        troubles: args.trouble.as_deref().map(Troubles::parse).transpose().context("--trouble")?,
        operator: if args.by_hand { PageOperator::Person } else { PageOperator::Certifier },
        attested: attested(args, SystemClock.now())?,
        timeouts: timeouts(args)?,
    })
}

fn merchant_of(
    directory: &Directory,
    partner: &PartnerCode,
    named: Option<&str>,
) -> anyhow::Result<MerchantCode> {
    if let Some(named) = named {
        return Ok(MerchantCode::parse(named)?);
    }
    let mut of_partner = directory.accounts().iter().filter(|account| account.partner() == partner);
    match (of_partner.next(), of_partner.next()) {
        (Some(only), None) => Ok(only.merchant_code().clone()),
        (None, _) => Err(Fixable::error(
            format!("partner {partner} has no account"),
            format!(
                "create it with its key: payfold key add {partner} --merchant CODE --secret-file \
                 FILE"
            ),
        )),
        (Some(_), Some(_)) => Err(Fixable::error(
            format!("partner {partner} has several accounts"),
            "choose one with --merchant CODE",
        )),
    }
}

fn api_url(
    loaded: &Loaded,
    data: &DataDir,
    args: &CertifyArgs,
    partner: &PartnerCode,
) -> anyhow::Result<String> {
    if let Some(url) = &args.url {
        return Ok(url.clone());
    }
    let configured = loaded.settings.partners.get(partner.as_str()).map(|one| one.api_url.clone());
    let of_demo = || RunFile::read(data).ok()?.sandbox_url;
    let found = match configured.filter(|url| !url.is_empty()) {
        Some(url) => Some(url),
        None if loaded.is_demo() => of_demo(),
        None => None,
    };
    found.ok_or_else(|| {
        Fixable::error(
            format!("the address of partner {partner}'s sandbox is unknown"),
            "give it with --url URL, or set api_url of the partner in payfold.toml",
        )
    })
}

/// Adds the fix to a refused target.
fn explain(refusal: TargetRefusal) -> anyhow::Error {
    let fix = match &refusal {
        TargetRefusal::PostedForm(partner) => format!(
            "no certification can open it; test the form with payfold partner draft {partner}, \
             notices with payfold partner vectors and explain"
        ),
        TargetRefusal::Production { .. } => "give the partner's sandbox with --url URL".to_owned(),
        TargetRefusal::Unreachable { .. } => {
            "give with --public-url the URL at which the partner reaches --listen through your \
             proxy or tunnel"
                .to_owned()
        }
    };
    Fixable::error(refusal.to_string(), fix)
}

fn platforms(loaded: &Loaded, args: &CertifyArgs) -> anyhow::Result<Vec<Url>> {
    let shop = &loaded.settings.checkout.shop_url;
    let mut named: Vec<&str> = args.platform.iter().map(String::as_str).collect();
    if named.is_empty() && !shop.is_empty() {
        named.push(shop);
    }
    let parse = |url: &str| Url::parse(url).with_context(|| format!("--platform {url}"));
    named.into_iter().map(parse).collect()
}

fn attested(args: &CertifyArgs, now: Time) -> anyhow::Result<Vec<Attestation>> {
    let one = |text: &String| {
        let found = text.split_once('=').and_then(|(name, by)| {
            let item = AttestedItem::ALL.into_iter().find(|item| item.name() == name)?;
            let by = by.trim();
            (!by.is_empty()).then(|| Attestation { item, by: by.to_owned(), at: now })
        });
        found.ok_or_else(|| {
            let items = AttestedItem::ALL.map(|item| format!("{}=NAME", item.name())).join(", ");
            Fixable::error(
                format!("--attest {text} can't be parsed"),
                format!("write one of {items}"),
            )
        })
    };
    args.attest.iter().map(one).collect()
}

fn timeouts(args: &CertifyArgs) -> anyhow::Result<RunTimeouts> {
    let ms = |flag: &str, text: &str| -> anyhow::Result<i64> {
        let age = humantime::parse_duration(text).with_context(|| format!("--{flag} {text}"))?;
        Ok(i64::try_from(age.as_millis())?)
    };
    Ok(RunTimeouts {
        payer_ms: ms("wait", &args.wait)?,
        ipn_ms: ms("ipn-wait", &args.ipn_wait)?,
        retry_ms: ms("retry-wait", &args.retry_wait)?,
        return_ms: ms("return-wait", &args.return_wait)?,
        quiet_ms: ms("quiet", &args.quiet)?,
        hang_ms: ms("hang", &args.hang)?,
        ..RunTimeouts::default()
    })
}

/// Notes on standard error that the profile is a draft, because a report is only valid for the
/// frozen profile.
fn note_draft_stage(settings: &CertifySettings) {
    let account = settings.directory.account(&settings.partner, &settings.merchant_code);
    if account.is_some_and(|account| account.profile().stage() == Stage::Draft) {
        output::error_line("note: the profile is a draft; certify again once it is frozen");
    }
}

/// Runs the certification with a progress bar.
fn watched(settings: CertifySettings) -> anyhow::Result<Report> {
    let style =
        ProgressStyle::with_template("{spinner} {elapsed} {pos}/{len} payments over; {msg}")
            .context("a style")?;
    let progress = ProgressBar::new(PaymentCase::ALL.len().try_into()?).with_style(style);
    progress.set_message("creating");
    progress.enable_steady_tick(std::time::Duration::from_millis(120));
    let (news, mut run_events) = mpsc::unbounded_channel();
    let report = actix_web::rt::System::new().block_on(async {
        let run = certify(settings, Arc::new(SystemClock), news);
        let watch = async {
            while let Some(news) = run_events.recv().await {
                show(&progress, &news);
            }
        };
        let (report, ()) = futures_util::join!(run, watch);
        report
    });
    progress.finish_and_clear();
    report.map_err(explain_run)
}

/// Adds the fix to a run that can't start.
fn explain_run(error: CertifyError) -> anyhow::Error {
    let fix = match &error {
        CertifyError::Call(CreateError::Currency(_) | CreateError::Amount(_)) => {
            "choose what the partner takes with --amount and --currency"
        }
        CertifyError::Call(CreateError::NoCreate(_)) => {
            "certification makes payments; without it, a profile goes live with payfold partner \
             promote --uncertified REASON"
        }
        _ => return error.into(),
    };
    Fixable::error(error.to_string(), fix)
}

fn show(progress: &ProgressBar, news: &RunEvent) {
    match news {
        RunEvent::Created(case) => progress.set_message(format!("{case} is created")),
        RunEvent::PersonNeeded { case, at } => {
            let what = if *case == PaymentCase::Cancel { "give up" } else { "pay" };
            progress.suspend(|| {
                output::error_line(&format!("{case}: open (or scan) and {what}: {at}"))
            });
            progress.set_message("waiting for a person");
        }
        RunEvent::Finished(case) => {
            progress.inc(1);
            progress.set_message(format!("{case} is over"));
        }
    }
}
