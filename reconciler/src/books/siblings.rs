//! Owns the finding of two paid attempts at one reference: nobody can see that in either order alone.

use payfold_engines::orders::Scan;
use payfold_schemas::digest::Digest;
use payfold_schemas::finding::{Code, FindingChanged, Side};
use payfold_schemas::ids::{MerchantCode, PartnerCode, Reference};
use payfold_schemas::order::{Order, OrderState};

use super::found::{About, Found};
use crate::run::{Halt, Shared};

/// Attempts of one reference that are looked at.
const ATTEMPTS_MAX: usize = 64;

/// A reference of the shop's, and at which partner and account it was tried.
pub(crate) type Tried = (PartnerCode, MerchantCode, Reference);

/// The finding that stands, as it is now; none if it has gone.
pub(crate) async fn again(shared: &Shared, known: &FindingChanged) -> Result<Option<Found>, Halt> {
    let named = known.merchant_code.clone().zip(known.reference.clone());
    let Some((merchant_code, reference)) = named else { return Ok(None) };
    paid_twice(shared, (known.partner.clone(), merchant_code, reference)).await
}

/// The finding, if two attempts of a reference are paid.
pub(crate) async fn paid_twice(
    shared: &Shared,
    (partner, merchant_code, reference): Tried,
) -> Result<Option<Found>, Halt> {
    let scan = Scan::Reference(partner, merchant_code, reference);
    let ask = || shared.store.scan(scan.clone(), None, ATTEMPTS_MAX);
    let page = shared.ask("look up a reference", ask).await?;
    let keys: Vec<_> = page.entries.into_iter().map(|(key, _)| key).collect();
    let rows = shared.load(&keys).await?;
    let paid = rows.into_iter().flatten().filter(|row| row.summary.state == OrderState::Paid);
    Ok(found(&paid.collect::<Vec<_>>()))
}

/// The finding of these paid attempts at one reference.
fn found(paid: &[Order]) -> Option<Found> {
    let [first, .., _] = paid else { return None };
    let reference = first.summary.reference.clone()?;
    let mut orders: Vec<String> = paid.iter().map(|order| order.key.order_id.to_string()).collect();
    orders.sort_unstable();
    let extra = paid.iter().map(|order| order.summary.paid_amount).min().unwrap_or(0);
    let others = i64::try_from(paid.len().saturating_sub(1)).unwrap_or(i64::MAX);
    let about = About {
        partner: first.key.partner.clone(),
        merchant_code: Some(first.key.merchant_code.clone()),
        order_id: None,
        provider_ref: None,
        code: Code::ReferencePaidTwice.to_string(),
        what: reference.to_string(),
        day: None,
    };
    let evidence = Digest::of_content("finding evidence", &(&about, &orders));
    Some(Found {
        id: about.id(),
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
        at_risk: extra.saturating_mul(others),
        currency: first.summary.currency,
        lines: Vec::new(),
        about,
        evidence,
    })
}
