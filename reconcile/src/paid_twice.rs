//! Owns the finding `REFERENCE_PAID_TWICE`: two paid attempts at one reference. One order alone
//! does not show it.

use payfold_engines::orders::Scan;
use payfold_kit::Halt;
use payfold_schemas::digest::Digest;
use payfold_schemas::finding::{Code, FindingChanged, Side};
use payfold_schemas::ids::{MerchantCode, PartnerCode, Reference};
use payfold_schemas::order::{Order, OrderState};

use super::detected_finding::{DetectedFinding, FindingIdentity};
use crate::shared::SharedContext;

/// Attempts at one reference that are read, at most.
const ATTEMPTS_MAX: usize = 64;

/// A shop's reference, with the partner and account of its attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TriedReference {
    pub(crate) partner: PartnerCode,
    pub(crate) merchant_code: MerchantCode,
    pub(crate) reference: Reference,
}

/// Detects a known finding again; `None` if the finding no longer has a cause. Errors: a halt.
pub(crate) async fn redetect_paid_twice(
    shared: &SharedContext,
    known: &FindingChanged,
) -> Result<Option<DetectedFinding>, Halt> {
    let named = known.merchant_code.clone().zip(known.reference.clone());
    let Some((merchant_code, reference)) = named else { return Ok(None) };
    let tried = TriedReference { partner: known.partner.clone(), merchant_code, reference };
    detect_paid_twice(shared, tried).await
}

/// Detects the finding, if two attempts at a reference are paid. Errors: a halt.
pub(crate) async fn detect_paid_twice(
    shared: &SharedContext,
    TriedReference { partner, merchant_code, reference }: TriedReference,
) -> Result<Option<DetectedFinding>, Halt> {
    let scan = Scan::Reference(partner, merchant_code, reference);
    let ask = || shared.storage.store.scan(scan.clone(), None, ATTEMPTS_MAX);
    let page = shared.storage.ask("look up a reference", ask).await?;
    let keys: Vec<_> = page.entries.into_iter().map(|(key, _)| key).collect();
    let rows = shared.storage.load(&keys).await?;
    let paid = rows.into_iter().flatten().filter(|row| row.summary.state == OrderState::Paid);
    Ok(detect(&paid.collect::<Vec<_>>()))
}

/// The finding of these paid attempts at one reference; `None` for fewer than two.
fn detect(paid: &[Order]) -> Option<DetectedFinding> {
    let [first, .., _] = paid else { return None };
    let reference = first.summary.reference.clone()?;
    let mut orders: Vec<String> = paid.iter().map(|order| order.key.order_id.to_string()).collect();
    orders.sort_unstable();
    let smallest = paid.iter().map(|order| order.summary.paid_amount).min().unwrap_or(0);
    let others = i64::try_from(paid.len().saturating_sub(1)).unwrap_or(i64::MAX);
    let identity = FindingIdentity {
        partner: first.key.partner.clone(),
        merchant_code: Some(first.key.merchant_code.clone()),
        order_id: None,
        provider_ref: None,
        code: Code::ReferencePaidTwice.to_string(),
        what: reference.to_string(),
        day: None,
    };
    let evidence = Digest::of_content("finding evidence", &(&identity, &orders));
    Some(DetectedFinding {
        id: identity.id(),
        code: Code::ReferencePaidTwice,
        severity: Code::ReferencePaidTwice.severity(),
        flag: None,
        reference: Some(reference),
        field: "reference".to_owned(),
        ours: Side {
            value: format!("paid as {}", orders.join(", ")),
            source: format!("{}/{}", first.key.partner, first.key.merchant_code),
        },
        partners: Side {
            value: "one payment".to_owned(),
            source: "the shop's reference".to_owned(),
        },
        at_risk: smallest.saturating_mul(others),
        currency: first.summary.currency,
        lines: Vec::new(),
        identity,
        evidence,
    })
}
