//! Owns the rows of `payfold order list` and `payfold order show --facts`, and the JSON of
//! `payfold order show`.

use payfold_report::money::{major, plain};
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::{MerchantCode, OrderId, PartnerCode, ProviderRef, RequestId};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::notice_source::NoticeSource;
use payfold_schemas::order::{Flag, KnownFacts, Order, Summary};
use payfold_schemas::time::Time;
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::OutputFormat;
use crate::listing::{Row, show_money};

/// A row of an order. JSON has all members; amounts are in minor units there, which `exponent`
/// converts.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OrderRow<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    partner: &'a PartnerCode,
    merchant_code: &'a MerchantCode,
    order_id: &'a OrderId,
    version: u64,
    first_seen: Time,
    position: String,
    /// Open flags of severity high or critical.
    attention: Vec<Flag>,
    exponent: Option<u16>,
    facts: &'a KnownFacts,
}

impl<'a> OrderRow<'a> {
    pub(super) fn of(order: &'a Order) -> Self {
        let Order { key, version, first_seen, position, summary, facts } = order;
        Self {
            summary,
            partner: &key.partner,
            merchant_code: &key.merchant_code,
            order_id: &key.order_id,
            version: *version,
            first_seen: *first_seen,
            position: position.to_string(),
            attention: summary.attention().collect(),
            exponent: summary.currency.map(|currency| currency.exponent()),
            facts,
        }
    }
}

impl Row for OrderRow<'_> {
    const COLUMNS: &'static str = "created:firstSeen partner merchant:merchantCode order:orderId \
        state amount currency attention";
    /// `amount` is in major units, `amount_minor` (JSON's `amount`) in minor units.
    const CSV_COLUMNS: &'static str = "created:firstSeen partner merchant:merchantCode \
        order:orderId state amount amount_minor:amount currency attention";

    fn shown(&self, column: &str, format: OutputFormat) -> Option<Value> {
        let write = if format == OutputFormat::Csv { plain } else { major };
        let money = self.summary.amount.zip(self.summary.currency);
        let amount = || money.map(|(minor, currency)| write(minor.into(), currency));
        (column == "amount").then(|| json!(amount()))
    }
}

/// A row of a fact, with the order's state and flags after it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FactRow {
    pub(super) position: String,
    pub(super) received_at: Time,
    pub(super) fact: Fact,
    /// `PENDING → PAID`, or `= PAID` where the state stays.
    pub(super) effect: String,
    pub(super) flags: Vec<Flag>,
    pub(super) request_id: RequestId,
    pub(super) source: Option<NoticeSource>,
    /// The size of the notice's stored bytes.
    pub(super) raw_bytes: usize,
}

impl Row for FactRow {
    const COLUMNS: &'static str =
        "position received:receivedAt fact ref amount effect flags request_id";
    /// The currency and the minor units have columns of their own.
    const CSV_COLUMNS: &'static str = "position received:receivedAt fact ref amount amount_minor \
        currency effect flags request_id";

    fn shown(&self, column: &str, format: OutputFormat) -> Option<Value> {
        match column {
            "fact" => Some(self.fact.letter().into()),
            "ref" => Some(json!(ref_of(&self.fact))),
            _ => show_money(column, money_of(&self.fact), format),
        }
    }
}

/// The provider reference in a fact.
fn ref_of(fact: &Fact) -> Option<&ProviderRef> {
    match fact {
        Fact::SessionOpened(session) => Some(&session.provider_ref),
        Fact::Ipn(ipn) => Some(&ipn.provider_ref),
        Fact::QueryAnswered(answer) => Some(&answer.provider_ref),
        Fact::RefShared(shared) => Some(&shared.provider_ref),
        Fact::CreateRequested(_)
        | Fact::CreateFailed(_)
        | Fact::DeadlinePassed { .. }
        | Fact::Decided(_) => None,
    }
}

/// The amount in a fact.
fn money_of(fact: &Fact) -> Option<(Amount, Currency)> {
    match fact {
        Fact::CreateRequested(create) => Some((create.amount, create.currency)),
        Fact::Ipn(ipn) => Some((ipn.money.amount, ipn.money.currency)),
        Fact::QueryAnswered(answer) => Some((answer.amount, answer.currency)),
        Fact::SessionOpened(_)
        | Fact::RefShared(_)
        | Fact::CreateFailed(_)
        | Fact::DeadlinePassed { .. }
        | Fact::Decided(_) => None,
    }
}
