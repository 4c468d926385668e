//! `payfold demo ipn`: opens an order in a running demo, signs one IPN as the partner would, posts
//! it, and waits for the order's state.

use std::time::{Duration, Instant};

use payfold_engines::clock::{Clock, SystemClock};
use payfold_partners::mac::MacKey;
use payfold_partners::profile::{Field, Profile};
use payfold_partners::signing;
use payfold_schemas::ids::{OrderKey, PartnerCode};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::order::{Order, OrderState};
use payfold_schemas::time::Time;

use crate::admin_client::AdminClient;
use crate::args::{DemoIpnArgs, Global};
use crate::command::block_on::block_on;
use crate::data_dir::DataDir;
use crate::demo::{MERCHANT, PARTNER};
use crate::error::Fixable;
use crate::run_file::RunFile;
use crate::settings::{self, Loaded};
use crate::{output, wiring};
use payfold_api::demo::{DemoOrder, OPEN_ORDER, OpenedOrder};

/// How long the command waits for the fold.
const WATCH_MAX: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// Runs the command.
pub(crate) fn run(global: &Global, args: &DemoIpnArgs) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    let data = DataDir::of(&loaded.settings);
    let asked = DemoOrder {
        amount: Amount::from_minor(args.amount)?,
        currency: Currency::parse(&args.currency)?,
    };
    let admin = AdminClient::find(global, &data)?;
    let opened = admin.call(&OPEN_ORDER, &[], &asked)?;
    output::line(&format!("order     {}  (create request and session appended)", opened.order));
    let pending =
        watch(&loaded, &opened.order, |order| order.summary.state != OrderState::Requested)?;
    output::line(&format!("state     {}  version {}", pending.summary.state, pending.version));

    let body = signed_body(&data, &opened, &asked, &args.status)?;
    let public_url = match &args.public_url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None => RunFile::read(&data)?.public_url.ok_or_else(|| {
            Fixable::error(
                "the running system has no public listener",
                "start it with --roles all, or with ingest among them",
            )
        })?,
    };
    let url = format!("{public_url}/api/payment/ipn");
    output::line(&format!("post      {url}\n          {body}"));
    let status = post(&url, &body)?;
    output::line(&format!("answer    {status}"));
    let settled = watch(&loaded, &opened.order, |order| order.version > pending.version)?;
    output::line(&format!(
        "state     {} → {}  version {}{}",
        pending.summary.state,
        settled.summary.state,
        settled.version,
        if settled.summary.fulfil { "  fulfil" } else { "" }
    ));
    output::line(&format!(
        "see       payfold order show {PARTNER}/{MERCHANT}/{} --facts",
        opened.order.order_id
    ));
    Ok(())
}

fn signed_body(
    data: &DataDir,
    opened: &OpenedOrder,
    asked: &DemoOrder,
    status: &str,
) -> anyhow::Result<String> {
    let path = data.sandbox_key();
    let secret = std::fs::read_to_string(&path).map_err(|error| {
        Fixable::error(
            format!("the sandbox key {} can't be read: {error}", path.display()),
            "this command is for the demo: start `payfold run` without a payfold.toml, which \
             creates the key",
        )
    })?;
    let now = Time::from_unix_ms(SystemClock.now().unix_ms()).to_string();
    let amount = asked.amount.to_string();
    let value = |field| match field {
        Field::MerchantCode => Some(MERCHANT),
        Field::OrderId => Some(opened.order.order_id.as_str()),
        Field::ProviderRef => Some(opened.provider_ref.as_str()),
        Field::Status => Some(status),
        Field::Amount => Some(amount.as_str()),
        Field::Currency => Some(asked.currency.code()),
        Field::PaidAt => (status == "SUCCESS").then_some(now.as_str()),
        Field::Timestamp => Some(now.as_str()),
        Field::Nonce | Field::Signature => None,
    };
    let profile = Profile::default_for(&PartnerCode::parse(PARTNER)?);
    let signature = signing::sign(&profile, &MacKey::new(secret.trim().as_bytes()), value);
    let mut body = serde_json::Map::new();
    for field in Field::ALL {
        if let Some(text) = value(field) {
            let json =
                if field == Field::Amount { asked.amount.minor().into() } else { text.into() };
            body.insert(field.name().to_owned(), json);
        }
    }
    body.insert(Field::Signature.name().to_owned(), signature.into());
    Ok(serde_json::Value::Object(body).to_string())
}

fn post(url: &str, body: &str) -> anyhow::Result<String> {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(Duration::from_secs(10)))
        .http_status_as_error(false)
        .build();
    let agent: ureq::Agent = config.into();
    let mut answer =
        agent.post(url).content_type("application/json").send(body).map_err(|error| {
            Fixable::error(
                format!("{url} does not answer: {error}"),
                "check that `payfold run` is still running",
            )
        })?;
    let text = answer.body_mut().read_to_string()?;
    if answer.status() != 200 {
        return Err(Fixable::error(
            format!("the notice was refused: {} {text}", answer.status()),
            "see the code in the answer; docs/contract.md explains each",
        ));
    }
    Ok(format!("{} and {} bytes of body", answer.status(), text.len()))
}

/// Waits until `done` holds for the order. Errors: it does not hold within 10 s.
fn watch(loaded: &Loaded, key: &OrderKey, done: impl Fn(&Order) -> bool) -> anyhow::Result<Order> {
    let begun = Instant::now();
    block_on(async {
        let engines = wiring::open_to_read(&loaded.settings).await?;
        loop {
            let row = engines.store()?.load(vec![key.clone()]).await?.pop().flatten();
            if let Some(order) = row.filter(&done) {
                return Ok(order);
            }
            if begun.elapsed() > WATCH_MAX {
                return Err(Fixable::error(
                    format!("order {key} was not folded within {} s", WATCH_MAX.as_secs()),
                    "payfold check says what is wrong; payfold log stats shows the lag of the \
                     projector role",
                ));
            }
            tokio::time::sleep(POLL).await;
        }
    })
}
