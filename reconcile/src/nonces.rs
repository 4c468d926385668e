//! Owns the finding `NONCE_REUSED`: two notices with one nonce and different contents, from a
//! partner with a profile that requires nonces. One order alone does not show the reuse. The
//! finding is published when the second notice is read. Reading the same notices again makes the
//! same event.

use payfold_engines::orders::{Scan, ViewEntry};
use payfold_kit::{Halt, Storage};
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Fact;
use payfold_schemas::finding::{Code, Side};
use payfold_schemas::ids::{Nonce, OrderKey};
use payfold_schemas::record::FactRecord;
use payfold_schemas::time::Time;

use super::detected_finding::{DetectedFinding, FindingIdentity};
use super::publish::{append, finding_event};

/// Uses of one nonce that a finding names, at most.
const USES_MAX: usize = 16;

/// The nonce of a notice, to be checked.
#[derive(Clone, Debug)]
pub struct UsedNonce {
    order: OrderKey,
    nonce: Nonce,
    at: Time,
}

impl UsedNonce {
    /// The nonce of a record; `None` if it is no notice, or the profile requires no nonces.
    pub fn of(record: &FactRecord) -> Option<Self> {
        let Fact::Ipn(ipn) = &record.fact else { return None };
        let nonce = ipn.nonce.clone().filter(|_| ipn.policy.nonce_required)?;
        Some(Self { order: record.order.clone(), nonce, at: record.received_at })
    }
}

/// Publishes a finding if the nonce was used before. The caller has waited until earlier notices
/// are folded.
pub async fn check_nonce(storage: &Storage, used: UsedNonce) -> Result<(), Halt> {
    let OrderKey { partner, merchant_code, .. } = used.order.clone();
    let scan = Scan::Nonce(partner, merchant_code, used.nonce.clone());
    let ask = || storage.store.scan(scan.clone(), None, USES_MAX);
    let page = storage.ask("look up a nonce", ask).await?;
    let Some(detected) = detect_reuse(&used, &page.entries) else { return Ok(()) };
    // The finding is of no partner's day, so it gets the UTC date of the notice.
    let day = used.at.to_string().chars().take(10).collect::<String>();
    let opened = detected.into_opened(1, (&day, None), used.at);
    append(storage, vec![finding_event(&opened, used.at)]).await
}

fn detect_reuse(used: &UsedNonce, uses: &[(OrderKey, ViewEntry)]) -> Option<DetectedFinding> {
    let mut orders: Vec<String> = uses.iter().map(|(key, _)| key.order_id.to_string()).collect();
    if orders.len() < 2 {
        return None;
    }
    orders.sort_unstable();
    let identity = FindingIdentity {
        partner: used.order.partner.clone(),
        merchant_code: Some(used.order.merchant_code.clone()),
        order_id: None,
        provider_ref: None,
        code: Code::NonceReused.to_string(),
        what: used.nonce.to_string(),
        day: None,
    };
    Some(DetectedFinding {
        id: identity.id(),
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
        evidence: Digest::of_content("finding evidence", &(&identity, &orders)),
        identity,
    })
}
