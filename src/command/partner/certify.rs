//! `payfold partner certify`: tries a partner's sandbox against the contract and writes the signed report, with a page
//! for people beside it. Exit 3 if a rule failed. The vault is only read; nothing of a running system is touched.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use payfold_engines::clock::{Clock, SystemClock};
use payfold_partners::directory::Directory;
use payfold_partners::outbound::Reach;
use payfold_partners::profile::{Profile, Stage};
use payfold_partners::remote::Remote;
use payfold_partners::vault::signer::Signer;
use payfold_sandbox::certify::judge::Verdict;
use payfold_sandbox::certify::report::Report;
use payfold_sandbox::certify::seen::{Attestation, Case, Item};
use payfold_sandbox::certify::{Hands, News, Patience, Settings, certify, paper, summary};
use payfold_sandbox::trouble::Troubles;
use payfold_schemas::ids::{MerchantCode, PartnerCode};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use url::Url;

use crate::args::{CertifyArgs, Global};
use crate::data_dir::DataDir;
use crate::error::{DifferencesFound, Fixable};
use crate::output::{self, Listing};
use crate::running::RunFile;
use crate::settings::{self, Loaded};
use crate::{keys, listener};

/// The columns of a report on a terminal.
pub(super) const COLUMNS: [&str; 4] = ["rule", "clause", "result", "evidence"];

/// Makes a report.
pub fn run(global: &Global, args: &CertifyArgs) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    let data = DataDir::of(&loaded.settings);
    let report_path = args.report.as_deref().context("--report says where the report goes")?;
    let page_path = page_of(report_path)?;
    let signer = open_signer(&data, args)?;
    let settings = settings_of(&loaded, &data, args)?;
    // A run can take long: that its report can't be written is better known before.
    for path in [report_path, &page_path] {
        let options = std::fs::File::options().append(true).create(true).open(path);
        options.with_context(|| format!("{} can't be written", path.display()))?;
    }
    tell_stage(&settings);
    let report = watched(settings)?;
    let sealed = report.sealed(&signer);
    let digest = sealed["digest"].as_str().unwrap_or_default();
    let page = paper(&report, digest, &hex::encode(signer.public_key()));
    let mut text = serde_json::to_vec_pretty(&sealed)?;
    text.push(b'\n');
    for (path, bytes) in [(report_path, text.as_slice()), (&page_path, page.as_bytes())] {
        std::fs::write(path, bytes)
            .with_context(|| format!("{} can't be written", path.display()))?;
    }
    print(args, &sealed["report"])?;
    output::error_line(&format!("{}: {}", report.verdict.as_str(), summary(&report)));
    output::error_line(&format!("{} and {}", report_path.display(), page_path.display()));
    match report.verdict {
        Verdict::Failed => Err(DifferencesFound.into()),
        Verdict::Passed | Verdict::Incomplete => Ok(()),
    }
}

/// The rules of a report's body.
pub(super) fn print(args: &CertifyArgs, body: &Value) -> anyhow::Result<()> {
    let mut listing = Listing::new(args.output.output, &COLUMNS);
    for rule in body["rules"].as_array().into_iter().flatten() {
        let object: serde_json::Map<_, _> =
            COLUMNS.iter().map(|name| ((*name).to_owned(), rule[*name].clone())).collect();
        let cells = COLUMNS.map(|name| rule[name].as_str().unwrap_or_default().to_owned());
        listing.row(cells.into(), &json!(object))?;
    }
    listing.print()
}

/// The page for people lies beside the report.
fn page_of(report: &Path) -> anyhow::Result<PathBuf> {
    let page = report.with_extension("html");
    if page != report {
        return Ok(page);
    }
    let what = format!("--report {} is the name of the page beside it", report.display());
    Err(Fixable::error(what, "give the report another ending, such as .json"))
}

/// Who signs: a key derived from the vault's identity, or the one that is named.
pub(super) fn open_signer(data: &DataDir, args: &CertifyArgs) -> anyhow::Result<Signer> {
    let path = args.identity.clone().unwrap_or_else(|| data.identity());
    Signer::open(&path).map_err(|error| {
        let fix = "name an age identity with --identity FILE, or the data folder with --data DIR";
        Fixable::error(error.to_string(), fix)
    })
}

fn settings_of(loaded: &Loaded, data: &DataDir, args: &CertifyArgs) -> anyhow::Result<Settings> {
    let named = args.partner.as_deref().context("which partner")?;
    let partner = PartnerCode::parse(named)?;
    let directory = keys::open_directory_with(loaded, |profile| {
        if is_private_trial(&profile, &partner, args) { profile.on_trial() } else { profile }
    })?;
    let merchant_code = merchant_of(&directory, &partner, args.merchant.as_deref())?;
    let socket = listener::bind(&args.listen, "listen")?;
    let public_url = match &args.public_url {
        Some(url) => url.clone(),
        None => listener::url(&socket)?,
    };
    let api_url = api_url(loaded, data, args, &partner)?;
    if let Some(account) = directory.account(&partner, &merchant_code) {
        refuse_own_scheme(account.profile())?;
        refuse_production(loaded, account.profile(), &api_url)?;
    }
    refuse_unreachable(&api_url, &public_url)?;
    Ok(Settings {
        api_url,
        directory: Arc::new(directory),
        partner,
        merchant_code,
        platforms: platforms(loaded, args)?,
        remote: Remote::new().context("the system's certificates")?,
        socket,
        public_url,
        amount: Amount::from_minor(args.amount).context("--amount")?,
        currency: Currency::parse(&args.currency).context("--currency")?,
        troubles: args.trouble.as_deref().map(Troubles::parse).transpose().context("--trouble")?,
        hands: if args.by_hand { Hands::Person } else { Hands::Ours },
        attested: attested(args, SystemClock.now())?,
        patience: patience(args)?,
    })
}

/// Whether a frozen profile is tried at a sandbox on this machine or a private network, because somebody says so.
fn is_private_trial(profile: &Profile, partner: &PartnerCode, args: &CertifyArgs) -> bool {
    let is_frozen = profile.partner() == partner && profile.stage() == Stage::Frozen;
    let is_private = |url: &String| Reach::Public.check(url).is_err();
    is_frozen && args.url.as_ref().is_some_and(is_private)
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
            format!("payfold key add {partner} --merchant CODE --secret-file FILE"),
        )),
        (Some(_), Some(_)) => Err(Fixable::error(
            format!("partner {partner} has several accounts"),
            "name one with --merchant CODE",
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
            format!("where partner {partner}'s sandbox is called is not known"),
            "name it with --url URL",
        )
    })
}

/// What is tried are the contract's rules; a scheme of the partner's own keeps others.
fn refuse_own_scheme(profile: &Profile) -> anyhow::Result<()> {
    let partner = profile.partner();
    profile.scheme().map_or(Ok(()), |_| {
        Err(Fixable::error(
            format!("partner {partner} has a scheme of its own, and the contract's rules are not its"),
            format!("try its create with payfold partner draft {partner}, its notices with vectors and explain"),
        ))
    })
}

/// A run makes payments and leaves them: where a partner is live, its own address takes real ones.
fn refuse_production(loaded: &Loaded, profile: &Profile, api_url: &str) -> anyhow::Result<()> {
    let partner = profile.partner();
    let configured = loaded.settings.partners.get(partner.as_str());
    let own = configured.is_some_and(|one| same_origin(&one.api_url, api_url));
    if profile.stage() != Stage::Live || !own {
        return Ok(());
    }
    Err(Fixable::error(
        format!("partner {partner} is live, and {api_url} is where its real payments are made"),
        "name the partner's sandbox with --url URL",
    ))
}

fn same_origin(one: &str, other: &str) -> bool {
    let origin = |url: &str| Url::parse(url).map(|url| url.origin());
    matches!((origin(one), origin(other)), (Ok(one), Ok(other)) if one == other)
}

/// A partner elsewhere can't reach this machine by an address of its own, and would be certified as silent.
fn refuse_unreachable(api_url: &str, public_url: &str) -> anyhow::Result<()> {
    let is_public = |url: &str| Reach::Public.check(url).is_ok();
    if is_public(public_url) || !is_public(api_url) {
        return Ok(());
    }
    Err(Fixable::error(
        format!(
            "{api_url} can't send anything to {public_url}, which is no https address of the internet"
        ),
        "name with --public-url how the partner reaches --listen, through your proxy or tunnel",
    ))
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
            let item = Item::ALL.into_iter().find(|item| item.name() == name)?;
            let by = by.trim();
            (!by.is_empty()).then(|| Attestation { item, by: by.to_owned(), at: now })
        });
        found.ok_or_else(|| {
            let items = Item::ALL.map(|item| format!("{}=NAME", item.name())).join(", ");
            Fixable::error(format!("--attest {text} is none"), format!("write one of {items}"))
        })
    };
    args.attest.iter().map(one).collect()
}

fn patience(args: &CertifyArgs) -> anyhow::Result<Patience> {
    let ms = |flag: &str, text: &str| -> anyhow::Result<i64> {
        let age = humantime::parse_duration(text).with_context(|| format!("--{flag} {text}"))?;
        Ok(i64::try_from(age.as_millis())?)
    };
    Ok(Patience {
        payer_ms: ms("wait", &args.wait)?,
        ipn_ms: ms("ipn-wait", &args.ipn_wait)?,
        retry_ms: ms("retry-wait", &args.retry_wait)?,
        return_ms: ms("return-wait", &args.return_wait)?,
        quiet_ms: ms("quiet", &args.quiet)?,
        hang_ms: ms("hang", &args.hang)?,
        ..Patience::default()
    })
}

/// A certificate is for what was agreed: a profile that may still change is told.
fn tell_stage(settings: &Settings) {
    let account = settings.directory.account(&settings.partner, &settings.merchant_code);
    if account.is_some_and(|account| account.profile().stage() == Stage::Draft) {
        output::error_line("note: the profile is a draft; certify again once it is frozen");
    }
}

/// Runs it, and shows how far it is.
fn watched(settings: Settings) -> anyhow::Result<Report> {
    let style =
        ProgressStyle::with_template("{spinner} {elapsed} {pos}/{len} payments over; {msg}")
            .context("a style")?;
    let progress = ProgressBar::new(Case::ALL.len().try_into()?).with_style(style);
    progress.set_message("creating");
    progress.enable_steady_tick(std::time::Duration::from_millis(120));
    let (news, mut told) = mpsc::unbounded_channel();
    let report = actix_web::rt::System::new().block_on(async {
        let run = certify(settings, Arc::new(SystemClock), news);
        let watch = async {
            while let Some(news) = told.recv().await {
                show(&progress, &news);
            }
        };
        let (report, ()) = futures_util::join!(run, watch);
        report
    });
    progress.finish_and_clear();
    Ok(report?)
}

fn show(progress: &ProgressBar, news: &News) {
    match news {
        News::Created(case) => progress.set_message(format!("{case} is created")),
        News::Person { case, at } => {
            let what = if *case == Case::Cancel { "give up" } else { "pay" };
            progress.suspend(|| {
                output::error_line(&format!("{case}: open (or scan) and {what}: {at}"))
            });
            progress.set_message("waiting for a person");
        }
        News::Over(case) => {
            progress.inc(1);
            progress.set_message(format!("{case} is over"));
        }
    }
}
