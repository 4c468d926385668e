//! Owns the finding of a nonce that came twice with two contents, where the profile requires nonces: either order alone
//! looks right. It is told as the second notice is read; the same words again are the same event.

use payfold_engines::orders::{Scan, ViewEntry};
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Fact;
use payfold_schemas::finding::{Code, Side};
use payfold_schemas::ids::{Nonce, OrderKey};
use payfold_schemas::record::FactRecord;
use payfold_schemas::time::Time;

use super::day;
use super::found::{About, Found};
use crate::run::{Halt, Shared};

/// Uses of one nonce that are told of.
const USES_MAX: usize = 16;

/// A nonce that a notice brought.
#[derive(Clone, Debug)]
pub(crate) struct Used {
    order: OrderKey,
    nonce: Nonce,
    at: Time,
}

impl Used {
    /// What there is to look up in a record.
    pub(crate) fn of(record: &FactRecord) -> Option<Self> {
        let Fact::Ipn(ipn) = &record.fact else { return None };
        let nonce = ipn.nonce.clone().filter(|_| ipn.policy.nonce_required)?;
        Some(Self { order: record.order.clone(), nonce, at: record.received_at })
    }
}

/// Looks the nonce up; what it was used for before is folded.
pub(crate) async fn look(shared: &Shared, used: Used) -> Result<(), Halt> {
    let OrderKey { partner, merchant_code, .. } = used.order.clone();
    let scan = Scan::Nonce(partner, merchant_code, used.nonce.clone());
    let ask = || shared.store.scan(scan.clone(), None, USES_MAX);
    let page = shared.ask("look up a nonce", ask).await?;
    let Some(found) = found(&used, &page.entries) else { return Ok(()) };
    // A finding of no day of the partner's: of the day it was seen on, in UTC.
    let day = used.at.to_string().chars().take(10).collect::<String>();
    let opened = found.opened(1, (&day, None), used.at);
    match day::append(shared, vec![day::event_of(&opened, used.at)]).await {
        Ok(()) => Ok(()),
        Err(super::BooksError::Halt(halt)) => Err(halt),
        Err(super::BooksError::Refused(problem)) => {
            unreachable!("an append is never refused: {problem}")
        }
    }
}

fn found(used: &Used, uses: &[(OrderKey, ViewEntry)]) -> Option<Found> {
    let mut orders: Vec<String> = uses.iter().map(|(key, _)| key.order_id.to_string()).collect();
    if orders.len() < 2 {
        return None;
    }
    orders.sort_unstable();
    let about = About {
        partner: used.order.partner.clone(),
        merchant_code: Some(used.order.merchant_code.clone()),
        order_id: None,
        provider_ref: None,
        code: Code::NonceReused.to_string(),
        what: used.nonce.to_string(),
        day: None,
    };
    Some(Found {
        id: about.id(),
        code: Code::NonceReused,
        severity: Code::NonceReused.severity(),
        flag: None,
        reference: None,
        field: "nonce".to_owned(),
        ours: Side {
            value: format!("in notices of {}", orders.join(", ")),
            source: "intake".to_owned(),
        },
        partners: Side { value: used.nonce.to_string(), source: "its signed notices".to_owned() },
        at_risk: 0,
        currency: None,
        lines: Vec::new(),
        evidence: Digest::of_content("finding evidence", &(&about, &orders)),
        about,
    })
}
