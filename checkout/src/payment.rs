//! Owns a payment as its shop sees it: the order's row at a time.

use payfold_schemas::fact::{Create, Presentation, Session};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::ipn::Status;
use payfold_schemas::order::{Flag, KnownFacts, KnownIpn, Order, OrderState, Summary};
use payfold_schemas::time::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use crate::rows::OrderRow;
use crate::version::Version;

/// Where to read and follow a payment: paths of this listener.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Links {
    /// The path to read the payment.
    #[serde(rename = "self")]
    pub this: String,
    /// The path of its stream of changes (server-sent events).
    pub events: String,
}

impl Links {
    /// The links of an order.
    pub(crate) fn of_order(key: &OrderKey) -> Self {
        let this = format!("/v1/payments/{key}");
        Self { events: format!("{this}/events"), this }
    }
}

/// A payment. Amounts are in minor units of the currency; times are RFC 3339.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Payment {
    /// The gateway partner.
    pub partner: String,
    /// The account there.
    pub merchant_code: String,
    /// The order id of this attempt; this system made it.
    pub order_id: String,
    /// The shop's own reference for what is paid; absent while only notices are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Which attempt at that reference in this account, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32", range(min = 1))]
    pub attempt: Option<u32>,
    /// The description as it was sent to the partner; only in the answer to a create request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The state of the payment.
    #[schemars(schema_with = "states", description = STATES)]
    pub state: OrderState,
    /// Whether the shop may deliver: the state is PAID and no notice contradicts that.
    pub fulfil: bool,
    /// Contradictions that a person has to settle: open flags of high or critical severity.
    #[schemars(schema_with = "flags")]
    pub attention: Vec<Flag>,
    /// `epoch.version`; a later one is greater. Also the ETag. Absent only in an answer to a create
    /// request, if the payment could not be read in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = Version::PATTERN), extend("example" = "1.3"))]
    pub version: Option<String>,
    /// The amount to be paid, in minor units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount: Option<i64>,
    /// The currency (ISO 4217).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// The amount that was paid, in minor units: of what is reported, what counts.
    pub paid_amount: i64,
    /// The amount that was refunded to the payer, in minor units.
    pub refunded_amount: i64,
    /// What the partner reported as paid, also in another amount or currency than was asked for.
    /// Only `paidAmount` counts: one payment may have been reported in several ways.
    pub reported: Vec<ReportedPayment>,
    /// When it was paid, by the partner's notice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paid_at: Option<Time>,
    /// The partner's name of the session's transaction. Where only notices name transactions, the
    /// order id stands in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<String>,
    /// The partner's transaction that paid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payment_ref: Option<String>,
    /// The hosted page to send the payer to. Either this or `qrPayload` is present if a session is
    /// known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect_url: Option<String>,
    /// The content of a QR code to show the payer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qr_payload: Option<String>,
    /// When the partner's session ends (contract 2.2): the end of a countdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// When the payment expires if it is not paid; later than `expiresAt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// Why the create call failed: `partner_refused`, `contract_violation.<rule>`, `not_called`.
    /// Only while the state is FAILED.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_code: Option<String>,
    /// The present time of this system, so that a countdown does not depend on the payer's clock.
    pub server_time: Time,
    /// Where to read and follow the payment.
    pub links: Links,
}

/// A success that the partner reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReportedPayment {
    /// The amount, in minor units.
    pub amount: i64,
    /// The currency (ISO 4217).
    pub currency: String,
    /// When it was paid, by the partner's notice; absent if only the answer to a query reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paid_at: Option<Time>,
    /// The partner's transaction; absent if the notice names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payment_ref: Option<String>,
}

/// What the answer to a create request shows: the attempt, and the order's row if it was read.
#[derive(Clone, Copy)]
pub(crate) struct AttemptView<'a> {
    pub(crate) key: &'a OrderKey,
    pub(crate) create: &'a Create,
    /// As it was sent to the partner.
    pub(crate) description: &'a str,
    pub(crate) row: Option<&'a OrderRow>,
    pub(crate) now: Time,
}

impl Payment {
    /// The payment of a row, at `now`.
    pub(crate) fn from_row(row: &OrderRow, now: Time) -> Self {
        let order = &row.order;
        let mut payment = Self {
            version: Some(row.shop_version().to_string()),
            reported: reported(&order.facts),
            failure_code: failure_code(order).map(str::to_owned),
            ..Self::new(&order.key, &order.summary, now)
        };
        if let Some(session) = shown_session(order) {
            payment.show(session);
        }
        payment
    }

    /// The payment of an attempt, with the session that its partner opened, if that is known.
    pub(crate) fn of_attempt(attempt: &AttemptView<'_>, session: Option<&Session>) -> Self {
        let AttemptView { key, create, description, row, now } = *attempt;
        let mut payment = match row {
            Some(row) => Self::from_row(row, now),
            None => {
                let deadline = Some(create.deadline);
                let summary = Summary { deadline, ..Summary::new(OrderState::Requested) };
                Self::new(key, &summary, now)
            }
        };
        payment.description = Some(description.to_owned());
        payment.reference = Some(create.reference.to_string());
        payment.attempt = Some(create.attempt);
        payment.amount = Some(create.amount.minor());
        payment.currency = Some(create.currency.to_string());
        if let Some(session) = session {
            payment.show(session);
            if row.is_none() {
                payment.state = OrderState::Pending;
                payment.deadline = Some(session.deadline);
            }
        }
        payment
    }

    /// Shows the payer this session.
    fn show(&mut self, session: &Session) {
        self.provider_ref = Some(session.provider_ref.to_string());
        (self.redirect_url, self.qr_payload) = match &session.presentation {
            Presentation::RedirectUrl(url) => (Some(url.clone()), None),
            Presentation::QrPayload(content) => (None, Some(content.clone())),
        };
        self.expires_at = Some(session.expires_at);
    }

    fn new(key: &OrderKey, summary: &Summary, now: Time) -> Self {
        let text = |text: &dyn ToString| text.to_string();
        Self {
            partner: key.partner.to_string(),
            merchant_code: key.merchant_code.to_string(),
            order_id: key.order_id.to_string(),
            reference: summary.reference.as_ref().map(|reference| text(reference)),
            attempt: summary.attempt,
            description: None,
            state: summary.state,
            fulfil: summary.fulfil,
            attention: summary.attention().collect(),
            version: None,
            amount: summary.amount,
            currency: summary.currency.map(|currency| text(&currency)),
            paid_amount: summary.paid_amount,
            refunded_amount: summary.refunded_amount,
            reported: Vec::new(),
            paid_at: summary.paid_at,
            provider_ref: summary.session_ref.as_ref().map(|provider_ref| text(provider_ref)),
            payment_ref: summary.payment_ref.as_ref().map(|provider_ref| text(provider_ref)),
            redirect_url: None,
            qr_payload: None,
            expires_at: None,
            deadline: summary.deadline,
            failure_code: None,
            server_time: now,
            links: Links::of_order(key),
        }
    }
}

/// Each success that notices and answers to queries report, once. A notice that counts only once it
/// is confirmed could be anybody's: the answer that confirms it reports it.
fn reported(facts: &KnownFacts) -> Vec<ReportedPayment> {
    let by_notices = facts.ipns.iter().map(|known| &known.content);
    let by_notices =
        by_notices.filter(|notice| notice.status == Status::Success && !notice.policy.unconfirmed);
    let mut reported: Vec<_> = by_notices
        .map(|KnownIpn { provider_ref, money, policy, .. }| ReportedPayment {
            amount: money.amount.minor(),
            currency: money.currency.to_string(),
            paid_at: money.paid_at,
            payment_ref: policy.names_transaction().then(|| provider_ref.to_string()),
        })
        .collect();
    // Notices are sorted by their content, of which this is a part.
    reported.dedup();
    let by_answers = facts.query_answers.iter().map(|known| &known.content);
    for answer in by_answers.filter(|answer| answer.status == Status::Success) {
        let payment = ReportedPayment {
            amount: answer.amount.minor(),
            currency: answer.currency.to_string(),
            paid_at: None,
            payment_ref: Some(answer.provider_ref.to_string()),
        };
        let is_same =
            |known: &ReportedPayment| ReportedPayment { paid_at: None, ..known.clone() } == payment;
        if !reported.iter().any(is_same) {
            reported.push(payment);
        }
    }
    reported
}

/// The session to send the payer to: the session with the ref in the order's summary.
fn shown_session(order: &Order) -> Option<&Session> {
    let shown = order.summary.session_ref.as_ref();
    let mut sessions = order.facts.sessions.iter().map(|known| &known.content);
    sessions.find(|session| Some(&session.provider_ref) == shown)
}

/// Why the create call failed, if the order is FAILED for that reason: no session is known. `None`
/// if the order was paid all the same.
pub(crate) fn failure_code(order: &Order) -> Option<&str> {
    let failed = order.facts.create_failures.first().map(|known| known.content.code.as_str());
    let is_reason = order.summary.state == OrderState::Failed && order.facts.sessions.is_empty();
    failed.filter(|_| is_reason)
}

/// What the states mean to a shop, for the OpenAPI document.
const STATES: &str = "REQUESTED: created, the partner's answer is not known. PENDING: \
    a session is open. EXPIRED, FAILED: ended unpaid. PAID. REFUNDED: paid and refunded in full. \
    UNMATCHED: there are notices, but no create request (yet). UNCONFIRMED: a notice counts only \
    once a query confirms it.";

/// The schema of `OrderState`.
fn states(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": OrderState::ALL.map(OrderState::as_str) })
}

fn flags(_: &mut SchemaGenerator) -> Schema {
    let flag = json_schema!({ "type": "string", "enum": Flag::ALL.map(Flag::as_str) });
    json_schema!({ "type": "array", "items": flag })
}

#[cfg(test)]
mod tests {
    use payfold_schemas::fact::QueryAnswer;
    use payfold_schemas::ids::{EventRef, ProviderRef};
    use payfold_schemas::ipn::{IpnPolicy, MoneyContent};
    use payfold_schemas::money::{Amount, Currency};
    use payfold_schemas::order::Known;
    use payfold_schemas::position::Position;

    use super::*;

    #[test]
    fn each_reported_success_is_shown_once() {
        let known = |payment: &str, minor| {
            (ProviderRef::parse(payment).unwrap(), Amount::from_minor(minor).unwrap())
        };
        let currency = Currency::parse("EUR").unwrap();
        let paid_at = Some(Time::from_unix_ms(1));
        let mut facts = KnownFacts::default();
        let unconfirmed = IpnPolicy { unconfirmed: true, ..IpnPolicy::default() };
        let placeholder = IpnPolicy { placeholder_ref: true, ..IpnPolicy::default() };
        for (payment, minor, status, policy, event) in [
            ("GW-1", 1_400, Status::Success, IpnPolicy::default(), "e-1"),
            ("GW-1", 1_400, Status::Success, IpnPolicy::default(), "e-2"),
            ("GW-1", 1_400, Status::Refunded, IpnPolicy::default(), "e-3"),
            ("GW-2", 1_500, Status::Success, IpnPolicy::default(), "e-4"),
            ("GW-4", 9_900, Status::Success, unconfirmed, "e-5"),
            ("none", 1_600, Status::Success, placeholder, "e-6"),
        ] {
            let (provider_ref, amount) = known(payment, minor);
            let event_ref = Some(EventRef::parse(event).unwrap());
            let money = MoneyContent { amount, currency, paid_at, event_ref };
            let content = KnownIpn { provider_ref, status, money, policy };
            facts.ipns.push(Known { content, position: Position::default() });
        }
        for (payment, minor, status) in [
            ("GW-1", 1_400, Status::Success),
            ("GW-2", 1_300, Status::Success),
            ("GW-3", 1_500, Status::Failed),
        ] {
            let (provider_ref, amount) = known(payment, minor);
            let content = QueryAnswer { provider_ref, status, amount, currency };
            facts.query_answers.push(Known { content, position: Position::default() });
        }
        let shown = reported(&facts);
        let shown: Vec<_> = shown
            .iter()
            .map(|one| (one.payment_ref.as_deref(), one.amount, &*one.currency, one.paid_at))
            .collect();
        let expected = [
            (Some("GW-1"), 1_400, "EUR", paid_at),
            (Some("GW-2"), 1_500, "EUR", paid_at),
            (None, 1_600, "EUR", paid_at),
            (Some("GW-2"), 1_300, "EUR", None),
        ];
        assert_eq!(shown, expected);
    }
}
