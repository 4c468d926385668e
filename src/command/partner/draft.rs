//! `payfold partner draft`: shows the request that would create a payment in a partner's custom
//! scheme, and its signing text. Nothing is sent.

use std::sync::Arc;

use payfold_engines::clock::{Clock, SystemClock, request_id};
use payfold_partners::create::{CreateRequest, PresentationKind};
use payfold_partners::directory::{Account, Directory};
use payfold_partners::remote::{CreateDraft, DraftedRequest};
use payfold_schemas::ids::{OrderId, PartnerCode, Reference};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;

use super::source::ProfileSource;
use crate::args::{DraftArgs, OutputFormat};
use crate::error::Fixable;
use crate::settings::Loaded;
use crate::{keys, output};

pub(super) fn run(loaded: &Loaded, args: &DraftArgs) -> anyhow::Result<()> {
    let profile = ProfileSource::of(loaded, &args.profile)?.profile()?;
    if profile.create_terms().is_none() {
        return Err(Fixable::error(
            format!(
                "the profile of {} has no [create], so it creates no payments",
                args.profile.partner
            ),
            "add [create] to it: docs/reference/profiles.md",
        ));
    }
    let directory = keys::directory_with(loaded, profile)?;
    let account = account(&directory, args)?;
    let configured = loaded.settings.partners.get(&args.profile.partner);
    let configured = configured.map(|partner| partner.api_url.clone()).unwrap_or_default();
    let api_url = args.url.clone().unwrap_or(configured);
    if api_url.is_empty() {
        return Err(Fixable::error(
            format!("the address of partner {} is unknown", args.profile.partner),
            "set api_url of the partner in payfold.toml, or give it with --url",
        ));
    }
    let now = SystemClock.now();
    let draft = account.draft_create(&api_url, &request(loaded, args, &account, now)?, now)?;
    match args.output.output {
        OutputFormat::Table | OutputFormat::Csv => print(&draft),
        format => output::object(format, &draft)?,
    }
    Ok(())
}

fn account(directory: &Directory, args: &DraftArgs) -> anyhow::Result<Arc<Account>> {
    let code = PartnerCode::parse(&args.profile.partner)?;
    let of_partner = directory.accounts().iter().filter(|account| *account.partner() == code);
    let mut named = of_partner.filter(|account| {
        args.merchant.as_deref().is_none_or(|name| account.merchant_code().as_str() == name)
    });
    match (named.next(), named.next()) {
        (Some(account), None) => Ok(Arc::clone(account)),
        (None, _) => Err(Fixable::error(
            format!("partner {code} has no such account"),
            format!(
                "create it with its key: payfold key add {code} --merchant CODE --secret-file FILE"
            ),
        )),
        (Some(_), Some(_)) => Err(Fixable::error(
            format!("partner {code} has several accounts"),
            "choose one with --merchant CODE",
        )),
    }
}

fn request(
    loaded: &Loaded,
    args: &DraftArgs,
    account: &Account,
    now: Time,
) -> anyhow::Result<CreateRequest> {
    let settings = &loaded.settings;
    let base = match settings.public_url.trim_end_matches('/') {
        "" => format!("http://{}", settings.listen_public),
        set => set.to_owned(),
    };
    let order_id = OrderId::parse(&format!("ord-{}", request_id(now)))?;
    Ok(CreateRequest {
        merchant_code: account.merchant_code().clone(),
        order_id,
        amount: Amount::from_minor(args.amount)?,
        currency: Currency::parse(&args.currency)?,
        description: args.description.clone(),
        return_url: format!("{base}/api/payment/result"),
        ipn_url: format!("{base}{}", account.profile().ipn_path()),
        expires_at: args.expires_at.as_deref().map(Time::parse).transpose()?,
        presentation: args.qr.then_some(PresentationKind::Qr),
        reference: Some(Reference::parse("draft")?),
        payer_ip: Some(args.payer_ip),
    })
}

fn print(draft: &CreateDraft) {
    if let Some(token) = &draft.token {
        output::line("first, unless an access token is cached:");
        request_lines(token.method, token);
        output::line("\nthen:");
    }
    let to = match (draft.goes_out, draft.create.method) {
        (true, method) => method,
        (false, "POST") => "the payer's browser posts to",
        (false, _) => "the payer is sent to",
    };
    request_lines(to, &draft.create);
    output::line(&format!("{:<13} {}", "ends", draft.expires_at));
}

fn request_lines(to: &str, request: &DraftedRequest) {
    output::line(&format!("{to} {}", request.url));
    for (name, value) in &request.headers {
        output::line(&format!("{name}: {value}"));
    }
    if !request.body.is_empty() {
        output::line("");
        output::line(&request.body);
    }
    output::line("");
    let [text, signature] = [&request.signing_text, &request.signature];
    for (name, value) in [("signing text", text), ("signature", signature)] {
        output::line(&format!("{name:<13} {}", value.as_deref().unwrap_or("none")));
    }
}
