//! Owns the signed report of a run: a JSON object with `format` = `FORMAT`, the findings in
//! `report`, the SHA-256 of the canonical text of `report`, and an Ed25519 signature over that
//! text.
//!
//! The canonical text follows RFC 8785 for the values that occur here (strings, integers, arrays,
//! objects): keys sorted by their bytes, no white space. A report can be reformatted or its keys
//! reordered, and it still verifies. Any other change breaks the digest.

use payfold_partners::profile::Stage;
use payfold_partners::remote::CreateOutcome;
use payfold_partners::vault::signer::{DocumentSigner, PUBLIC_KEY_BYTES, has_signed};
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::MerchantCode;
use payfold_schemas::notice_source::ProfileStamp;
use payfold_schemas::time::Time;
use serde_json::{Map, Value, json};

use super::judge::{Finding, Verdict};
use super::observations::{
    Attestation, Hop, IpnDelivery, ObservedPayment, ReceivedReturn, RunObservations,
};

/// The report's format. An incompatible change gets a new number.
pub(crate) const FORMAT: &str = "payfold.certification.v1";
const ALGORITHM: &str = "ed25519";

/// The subject of a run.
#[derive(Clone, Debug)]
pub struct ReportSubject {
    /// The profile that the partner was checked against.
    pub profile: ProfileStamp,
    /// The profile's stage.
    pub stage: Stage,
    /// The certified account.
    pub merchant_code: MerchantCode,
    /// The base URL of the partner's API.
    pub api_url: String,
    /// When the first payment was created.
    pub(crate) started_at: Time,
    /// When the last payment was finished.
    pub(crate) finished_at: Time,
}

/// The findings of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The subject of the run.
    pub subject: ReportSubject,
    /// The overall result.
    pub verdict: Verdict,
    /// One finding for each rule.
    pub findings: Vec<Finding>,
    /// What people checked.
    pub attested: Vec<Attestation>,
    payments: Vec<Value>,
}

/// Why a report can't be verified.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// Not a report of this format.
    #[error("it is not a report of format {FORMAT}: {0}")]
    Format(&'static str),
    /// Changed after it was signed.
    #[error("its digest does not match its content: the report was changed")]
    Digest,
    /// Not signed by the named key.
    #[error("its signature was not made by the key it names")]
    Signature,
}

/// A report with a valid signature.
#[derive(Clone, Debug)]
pub struct VerifiedReport {
    /// The content.
    pub report: Map<String, Value>,
    /// The digest of the canonical content.
    pub digest: Digest,
    /// The public key that signed it.
    pub public_key: [u8; PUBLIC_KEY_BYTES],
}

impl Report {
    /// Builds the report of a run.
    pub fn new(subject: ReportSubject, observed: &RunObservations, findings: Vec<Finding>) -> Self {
        Self {
            subject,
            verdict: Verdict::from_findings(&findings),
            findings,
            attested: observed.attested.clone(),
            payments: observed.payments.iter().map(payment_json).collect(),
        }
    }

    /// The number of rules with this result.
    pub fn count_results(&self, outcome: super::judge::RuleResult) -> usize {
        self.findings.iter().filter(|finding| finding.outcome == outcome).count()
    }

    /// The ids of the failed rules.
    pub fn failed_rules(&self) -> Vec<String> {
        let failed = |finding: &&Finding| finding.outcome == super::judge::RuleResult::Failed;
        self.findings.iter().filter(failed).map(|finding| finding.rule.id()).collect()
    }

    /// The content that is signed.
    pub(crate) fn to_json(&self) -> Value {
        let subject = &self.subject;
        let rules = self.findings.iter().map(rule_json).collect::<Vec<_>>();
        let attested = self
            .attested
            .iter()
            .map(|one| json!({ "item": one.item.name(), "by": one.by, "at": one.at }));
        json!({
            "partner": subject.profile.partner,
            "merchantCode": subject.merchant_code,
            "profile": {
                "version": subject.profile.version,
                "digest": subject.profile.digest,
                "stage": subject.stage.as_str(),
            },
            "apiUrl": subject.api_url,
            "payfold": env!("CARGO_PKG_VERSION"),
            "startedAt": subject.started_at,
            "finishedAt": subject.finished_at,
            "verdict": self.verdict,
            "rules": rules,
            "attestations": attested.collect::<Vec<_>>(),
            "payments": self.payments,
        })
    }

    /// The complete signed document.
    pub fn sign(&self, signer: &DocumentSigner) -> Value {
        let body = self.to_json();
        let text = canonical_text(&body);
        json!({
            "format": FORMAT,
            "report": body,
            "digest": Digest::of_bytes(text.as_bytes()),
            "signature": {
                "algorithm": ALGORITHM,
                "publicKey": hex::encode(signer.public_key()),
                "value": hex::encode(signer.sign(text.as_bytes())),
            },
        })
    }
}

/// Verifies the digest and the signature of a report. The caller decides whether to trust the key.
/// Errors: `ReportError`.
pub fn verify_report(text: &[u8]) -> Result<VerifiedReport, ReportError> {
    let document: Value =
        serde_json::from_slice(text).map_err(|_| ReportError::Format("it is not JSON"))?;
    let named = |value: &Value, name| value[name].as_str().unwrap_or_default().to_owned();
    if named(&document, "format") != FORMAT {
        return Err(ReportError::Format("the field format has another value"));
    }
    let signature = &document["signature"];
    if named(signature, "algorithm") != ALGORITHM {
        return Err(ReportError::Format("the field algorithm has another value"));
    }
    let Value::Object(report) = &document["report"] else {
        return Err(ReportError::Format("the field report is not an object"));
    };
    let text = canonical_text(&document["report"]);
    let digest = Digest::of_bytes(text.as_bytes());
    if named(&document, "digest") != digest.to_string() {
        return Err(ReportError::Digest);
    }
    let mut public_key = [0; PUBLIC_KEY_BYTES];
    hex::decode_to_slice(named(signature, "publicKey"), &mut public_key)
        .map_err(|_| ReportError::Format("the public key is not 32 bytes in hex"))?;
    let value = hex::decode(named(signature, "value")).unwrap_or_default();
    if !has_signed(&public_key, text.as_bytes(), &value) {
        return Err(ReportError::Signature);
    }
    Ok(VerifiedReport { report: report.clone(), digest, public_key })
}

/// The canonical text of a JSON value.
fn canonical_text(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            let field = |(name, value): &(&String, &Value)| {
                format!("{}:{}", Value::from(name.as_str()), canonical_text(value))
            };
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(canonical_text).collect::<Vec<_>>().join(","))
        }
        scalar => scalar.to_string(),
    }
}

fn rule_json(finding: &Finding) -> Value {
    json!({
        "rule": finding.rule.id(),
        "clause": finding.rule.clause(),
        "title": finding.rule.title(),
        "result": finding.outcome,
        "evidence": finding.evidence,
    })
}

fn payment_json(payment: &ObservedPayment) -> Value {
    let created = match &payment.created {
        CreateOutcome::Opened(offer) => json!({
            "outcome": "opened", "providerRef": offer.provider_ref, "expiresAt": offer.expires_at,
        }),
        CreateOutcome::Failed(failure) => json!({ "outcome": failure.code() }),
        CreateOutcome::Unknown(why) => json!({ "outcome": "unknown", "detail": why }),
    };
    let page = payment.page.as_ref().map(|page| {
        let hop = |hop: &Hop| json!({ "address": hop.address, "status": hop.status });
        let answers: Vec<_> = page.hops.iter().map(hop).collect();
        json!({ "answers": answers, "cookiesSet": page.cookies_set })
    });
    let back = |back: &ReceivedReturn| {
        let is_signed = back.signed_for.is_some();
        json!({ "at": back.at, "status": back.text("status"), "signed": is_signed })
    };
    json!({
        "case": payment.case.name(),
        "orderId": payment.order_id,
        "created": created,
        "page": page,
        "ipns": payment.deliveries.iter().map(delivery_json).collect::<Vec<_>>(),
        "returns": payment.returns.iter().map(back).collect::<Vec<_>>(),
    })
}

fn delivery_json(delivery: &IpnDelivery) -> Value {
    let ipn = delivery.reading.admissible();
    json!({
        "at": delivery.at, "sha256": delivery.digest, "signed": delivery.reading.is_signed(),
        "status": ipn.map(|ipn| ipn.status.as_str()), "timestamp": ipn.and_then(|ipn| ipn.time),
        "answer": delivery.answer.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use payfold_partners::vault::{IDENTITY_FILE, Vault};

    use super::*;

    #[test]
    fn the_canonical_text_does_not_depend_on_key_order() {
        let one: Value =
            serde_json::from_str(r#"{"b":[1, {"y":null,"x":"é\n\"" }],"a":true}"#).unwrap();
        let other: Value =
            serde_json::from_str(r#"{"a":true,"b":[1,{"x":"\u00e9\n\"","y":null}]}"#).unwrap();
        assert_eq!(canonical_text(&one), r#"{"a":true,"b":[1,{"x":"é\n\"","y":null}]}"#);
        assert_eq!(canonical_text(&one), canonical_text(&other));
    }

    fn signed_report() -> Value {
        let folder = tempfile::tempdir().unwrap();
        Vault::create(folder.path()).unwrap();
        let signer = DocumentSigner::open(&folder.path().join(IDENTITY_FILE)).unwrap();
        let observed = super::super::judge::tests::clean_run();
        let findings = super::super::judge::evaluate_rules(&observed);
        Report::new(super::super::judge::tests::subject(), &observed, findings).sign(&signer)
    }

    #[test]
    fn a_changed_report_is_refused() {
        let signed = signed_report();
        let text = serde_json::to_vec_pretty(&signed).unwrap();
        let verified = verify_report(&text).unwrap();
        assert_eq!(verified.report["partner"], "sandbox");
        assert_eq!(verified.digest.to_string(), signed["digest"].as_str().unwrap());
        let changed = |pointer: &str, value: Value| {
            let mut changed = signed.clone();
            *changed.pointer_mut(pointer).unwrap() = value;
            verify_report(changed.to_string().as_bytes()).map(drop)
        };
        assert_eq!(changed("/report/verdict", json!("failed")), Err(ReportError::Digest));
        assert_eq!(changed("/report/rules/0/result", json!("failed")), Err(ReportError::Digest));
        let zeros = |bytes: usize| json!("0".repeat(2 * bytes));
        assert_eq!(changed("/digest", zeros(32)), Err(ReportError::Digest));
        assert_eq!(changed("/signature/value", zeros(64)), Err(ReportError::Signature));
        assert_eq!(changed("/signature/publicKey", zeros(32)), Err(ReportError::Signature));
        assert!(matches!(changed("/format", json!("v2")), Err(ReportError::Format(_))));
        assert!(matches!(verify_report(b"{}"), Err(ReportError::Format(_))));
        assert!(matches!(verify_report(b"no"), Err(ReportError::Format(_))));
    }
}
