//! Owns the demo's clients: the shop, which calls the shop listener as any shop would, and the
//! sandbox partner's observations.

use std::time::Duration;

use anyhow::Context;
use payfold_sandbox::observe::{ObservedDelivery, OrderDeliveries, SentAttempt};
use payfold_schemas::ids::{OrderId, OrderKey, ProviderRef, RequestId};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;
use serde::{Deserialize, Serialize};

use crate::data_dir::DataDir;
use crate::demo::{MERCHANT, PARTNER};
use crate::error::Fixable;
use crate::run_file::RunFile;

/// Longer than any create call may take.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// A shop with its token.
pub(crate) struct Shop {
    client: reqwest::Client,
    url: String,
    token: String,
}

/// A create request of the shop.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShopCreateRequest {
    partner: &'static str,
    merchant_code: &'static str,
    currency: &'static str,
    /// The Idempotency-Key, equal in all repetitions.
    #[serde(skip)]
    pub idempotency_key: String,
    /// The shop's reference.
    pub reference: String,
    /// The amount in minor units.
    pub amount: i64,
    /// Description that ends in the troubles, which the sandbox reads there.
    pub description: String,
}

/// The answer to a create request.
#[derive(Clone, Debug)]
pub(crate) struct CreateAnswer {
    /// Status of the answer: 201, 202, 502, …
    pub status: u16,
    /// The code of the problem, if it is one.
    pub code: Option<String>,
    /// The order, if the answer names one.
    pub order: Option<OrderKey>,
}

/// The members of a payment or a problem that are read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnswerBody {
    order_id: Option<OrderId>,
    code: Option<String>,
}

impl Shop {
    /// The shop of the demo that runs on this folder. Errors: the system has no shop listener, or
    /// is no demo.
    pub(crate) fn find(data: &DataDir, run: &RunFile) -> anyhow::Result<Self> {
        let url = run.shop_url.clone().ok_or_else(|| {
            Fixable::error(
                "the running system has no shop listener",
                "start it with --roles all, or with checkout among them",
            )
        })?;
        let path = data.shop_token();
        let token = std::fs::read_to_string(&path).map_err(|error| {
            Fixable::error(
                format!("the token {} of the demo's shop can't be read: {error}", path.display()),
                "this command is for the demo: start `payfold run` without a payfold.toml, which \
                 creates the token",
            )
        })?;
        let client = reqwest::Client::builder().no_proxy().timeout(ANSWER_MAX).build()?;
        Ok(Self { client, url, token: token.trim().to_owned() })
    }

    /// Creates a payment. Errors: nothing answers.
    pub(crate) async fn create(&self, payment: &ShopCreateRequest) -> anyhow::Result<CreateAnswer> {
        let request = self.client.post(format!("{}/v1/payments", self.url));
        let request = request
            .bearer_auth(&self.token)
            .header("idempotency-key", &payment.idempotency_key)
            .json(payment);
        let response = request.send().await.map_err(|error| {
            Fixable::error(
                format!("{} does not answer: {error}", self.url),
                "check that `payfold run` is still running",
            )
        })?;
        let status = response.status().as_u16();
        let AnswerBody { order_id, code } = response.json().await.context("the answer is JSON")?;
        let order = order_id.map(|id| OrderKey::parse(&format!("{PARTNER}/{MERCHANT}/{id}")));
        Ok(CreateAnswer { status, code, order: order.transpose()? })
    }
}

/// What the sandbox partner reports about one order.
pub(crate) struct OrderObservation {
    /// Whether it has sent everything.
    pub finished: bool,
    /// Number of create calls for the order.
    pub create_calls: u32,
    /// The content of every acknowledged attempt.
    pub acked: Vec<NoticeContent>,
}

/// The content of a notice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NoticeContent {
    /// The partner's reference.
    pub provider_ref: ProviderRef,
    /// SUCCESS, FAILED, …
    pub status: Status,
    /// The amount in minor units.
    pub amount: Amount,
    /// The currency, an ISO 4217 code.
    pub currency: Currency,
    /// When the payer paid.
    pub paid_at: Option<Time>,
    /// The timestamp of the notice. A new timestamp makes another notice with a record of its own.
    pub timestamp: Option<Time>,
}

/// A client of the sandbox partner's observation API.
pub(crate) struct SandboxObserver {
    client: reqwest::Client,
    url: String,
}

impl SandboxObserver {
    /// The sandbox partner of a running system. Errors: it has none.
    pub(crate) fn find(run: &RunFile) -> anyhow::Result<Self> {
        let url = run.sandbox_url.clone().ok_or_else(|| {
            Fixable::error(
                "the running system has no sandbox partner",
                "start `payfold run` without a payfold.toml, or with --roles sandbox among them",
            )
        })?;
        Ok(Self { client: reqwest::Client::builder().no_proxy().build()?, url })
    }

    /// What the sandbox reports about an order.
    pub(crate) async fn delivered(&self, order: &OrderKey) -> anyhow::Result<OrderObservation> {
        let url = format!("{}/sandbox/deliveries?orderId={}", self.url, order.order_id);
        let response = self.client.get(url).send().await?.error_for_status()?;
        let OrderDeliveries { finished, create_calls, deliveries, .. } = response.json().await?;
        let acked = deliveries.into_iter().flat_map(|delivery| {
            let ObservedDelivery { provider_ref, status, amount, currency, paid_at, .. } = delivery;
            let attempts = delivery.attempts.into_iter().filter(|attempt| attempt.acked);
            attempts.map(move |SentAttempt { timestamp, .. }| {
                let provider_ref = provider_ref.clone();
                NoticeContent { provider_ref, status, amount, currency, paid_at, timestamp }
            })
        });
        Ok(OrderObservation { finished, create_calls, acked: acked.collect() })
    }
}

/// The create request of payment `n` of a run. The same seed gives the same payments; each run has
/// its own Idempotency-Keys.
pub(crate) fn create_request(
    run: RequestId,
    seed: u64,
    n: usize,
    troubles: &str,
) -> ShopCreateRequest {
    // Amounts differ, so that mixed-up orders are visible, and are even, so that half can be
    // refunded.
    let amount = 10_000 + i64::try_from(n % 40_000).unwrap_or_default() * 2;
    ShopCreateRequest {
        partner: PARTNER,
        merchant_code: MERCHANT,
        currency: "VND",
        idempotency_key: format!("demo-{run}-{n}"),
        reference: format!("demo-{run}-{n}"),
        amount,
        description: format!("Payfold demo {seed}-{n} #{troubles}"),
    }
}
