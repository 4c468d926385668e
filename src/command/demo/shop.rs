//! Owns the demo's shop: what calls the shop listener with the demo's key, as any shop would.

use std::time::Duration;

use anyhow::Context;
use payfold_schemas::ids::{OrderKey, RequestId};
use payfold_schemas::time::Time;
use serde_json::{Value, json};

use crate::data_dir::DataDir;
use crate::demo::{MERCHANT, PARTNER};
use crate::error::Fixable;
use crate::running::RunFile;

/// Longer than any create call may take.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// A shop with its key.
pub struct Shop {
    client: reqwest::Client,
    url: String,
    token: String,
}

/// A payment to ask for.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The key under which it is asked for, however often.
    pub idempotency_key: String,
    /// The shop's name for it.
    pub reference: String,
    /// Minor units.
    pub amount: i64,
    /// With the sandbox's words at its end.
    pub description: String,
}

/// What came of asking.
#[derive(Clone, Debug)]
pub struct Asked {
    /// 201, 202, 502, …
    pub status: u16,
    /// The problem's code, where there is one.
    pub code: Option<String>,
    /// The order, where the answer names one.
    pub order: Option<OrderKey>,
}

impl Shop {
    /// The shop of the demo that runs on this folder.
    pub fn find(data: &DataDir, run: &RunFile) -> anyhow::Result<Self> {
        let url = run.shop_url.clone().ok_or_else(|| {
            Fixable::error(
                "the running system has no shop listener",
                "start it with --roles all, or with checkout among them",
            )
        })?;
        let path = data.shop_token();
        let token = std::fs::read_to_string(&path).map_err(|error| {
            Fixable::error(
                format!("the demo shop's key {} can't be read: {error}", path.display()),
                "it is made by `payfold run` without a payfold.toml; this command is for that demo",
            )
        })?;
        let client = reqwest::Client::builder().no_proxy().timeout(ANSWER_MAX).build()?;
        Ok(Self { client, url, token: token.trim().to_owned() })
    }

    /// Asks for a payment. Errors: nothing answers.
    pub async fn create(&self, wanted: &Wanted) -> anyhow::Result<Asked> {
        let body = json!({
            "partner": PARTNER, "merchantCode": MERCHANT, "reference": wanted.reference,
            "amount": wanted.amount, "currency": "VND", "description": wanted.description,
        });
        let request = self.client.post(format!("{}/v1/payments", self.url));
        let request = request
            .bearer_auth(&self.token)
            .header("idempotency-key", &wanted.idempotency_key)
            .json(&body);
        let response = request.send().await.map_err(|error| {
            Fixable::error(
                format!("{} does not answer: {error}", self.url),
                "is `payfold run` still running?",
            )
        })?;
        let status = response.status().as_u16();
        let answer: Value = response.json().await.context("the answer is JSON")?;
        let order_id = answer["orderId"].as_str();
        let order = order_id.map(|id| OrderKey::parse(&format!("{PARTNER}/{MERCHANT}/{id}")));
        let code = answer["code"].as_str().map(str::to_owned);
        Ok(Asked { status, code, order: order.transpose()? })
    }
}

/// What the sandbox tells of its notices for one order.
pub struct Delivered {
    /// Nothing more will be sent.
    pub finished: bool,
    /// How many create calls it saw for the order.
    pub create_calls: u64,
    /// Every acknowledged attempt, by what it said.
    pub acked: Vec<Said>,
}

/// What a notice said.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Said {
    /// The partner's transaction.
    pub provider_ref: String,
    /// SUCCESS, …
    pub status: String,
    /// Minor units.
    pub amount: i64,
    /// ISO 4217.
    pub currency: String,
    /// When the payer paid.
    pub paid_at: Option<Time>,
    /// When it was stamped: what is stamped anew is another notice, and a record of its own.
    pub timestamp: Option<Time>,
}

/// The sandbox partner's own view of things.
pub struct Partner {
    client: reqwest::Client,
    url: String,
}

impl Partner {
    /// The sandbox of a running system.
    pub fn find(run: &RunFile) -> anyhow::Result<Self> {
        let url = run.sandbox_url.clone().ok_or_else(|| {
            Fixable::error(
                "the running system has no sandbox partner",
                "start `payfold run` without a payfold.toml, or with --roles sandbox among them",
            )
        })?;
        Ok(Self { client: reqwest::Client::builder().no_proxy().build()?, url })
    }

    /// How the notices of an order fared.
    pub async fn delivered(&self, order: &OrderKey) -> anyhow::Result<Delivered> {
        let url = format!("{}/sandbox/deliveries?orderId={}", self.url, order.order_id);
        let told: Value = self.client.get(url).send().await?.error_for_status()?.json().await?;
        let mut acked = Vec::new();
        for delivery in told["deliveries"].as_array().into_iter().flatten() {
            let said = Said {
                provider_ref: text(&delivery["providerRef"]),
                status: text(&delivery["status"]),
                amount: delivery["amount"].as_i64().unwrap_or_default(),
                currency: text(&delivery["currency"]),
                paid_at: delivery["paidAt"].as_str().map(Time::parse).transpose()?,
                timestamp: None,
            };
            let attempts = delivery["attempts"].as_array().into_iter().flatten();
            for attempt in attempts.filter(|attempt| attempt["acked"] == true) {
                let timestamp = attempt["timestamp"].as_str().map(Time::parse).transpose()?;
                acked.push(Said { timestamp, ..said.clone() });
            }
        }
        Ok(Delivered {
            finished: told["finished"] == true,
            create_calls: told["createCalls"].as_u64().unwrap_or_default(),
            acked,
        })
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The payment number `n` of a run: the same seed asks for the same payments, under keys of its own each time.
pub fn wanted(run: RequestId, seed: u64, n: usize, words: &str) -> Wanted {
    // Amounts that differ, so that a mixed-up order shows; even ones, so that a half can go back.
    let amount = 10_000 + i64::try_from(n % 40_000).unwrap_or_default() * 2;
    Wanted {
        idempotency_key: format!("demo-{run}-{n}"),
        reference: format!("demo-{run}-{n}"),
        amount,
        description: format!("Payfold demo {seed}-{n} #{words}"),
    }
}
