//! Owns the report of a run as programs read it: one JSON object, `format` of `FORMAT`, whose `report` is what was
//! found, with a SHA-256 of its canonical text and an Ed25519 signature over that text.
//!
//! Canonical is RFC 8785 for what stands here (texts, whole numbers, lists, objects): keys in the order of their bytes,
//! no blanks. So a report may be printed or sorted anew and still verifies; a changed word of it doesn't.

use payfold_partners::profile::Stage;
use payfold_partners::remote::Created;
use payfold_partners::vault::signer::{PUBLIC_KEY_BYTES, Signer, has_signed};
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::MerchantCode;
use payfold_schemas::record::ProfileStamp;
use payfold_schemas::time::Time;
use serde_json::{Map, Value, json};

use super::judge::{Finding, Verdict};
use super::seen::{Attestation, Delivery, Payment, Reading, Seen};

/// What a report calls itself; another shape gets another number.
pub const FORMAT: &str = "payfold.certification.v1";
const ALGORITHM: &str = "ed25519";

/// What a run was about.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The profile it was judged by.
    pub profile: ProfileStamp,
    /// How far that is.
    pub stage: Stage,
    /// Our account.
    pub merchant_code: MerchantCode,
    /// Where the partner was called.
    pub api_url: String,
    /// When the first payment was created.
    pub started_at: Time,
    /// When the last one was over.
    pub finished_at: Time,
}

/// What a run has found.
#[derive(Clone, Debug)]
pub struct Report {
    /// What it was about.
    pub subject: Subject,
    /// What it came to.
    pub verdict: Verdict,
    /// Every rule.
    pub findings: Vec<Finding>,
    /// What people have looked at.
    pub attested: Vec<Attestation>,
    payments: Vec<Value>,
}

/// Why a report proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// Not a report of this kind.
    #[error("it is no report of format {FORMAT}: {0}")]
    Format(&'static str),
    /// Changed after it was made.
    #[error("its digest is not that of its content: it was changed")]
    Digest,
    /// Not signed by the key it names.
    #[error("its signature is not that of the key it names")]
    Signature,
}

/// A report whose signature holds.
#[derive(Clone, Debug)]
pub struct Verified {
    /// What it says.
    pub report: Map<String, Value>,
    /// Its digest.
    pub digest: Digest,
    /// Who signed it.
    pub public_key: [u8; PUBLIC_KEY_BYTES],
}

impl Report {
    /// Puts it together.
    pub fn new(subject: Subject, seen: &Seen, findings: Vec<Finding>) -> Self {
        Self {
            subject,
            verdict: Verdict::of(&findings),
            findings,
            attested: seen.attested.clone(),
            payments: seen.payments.iter().map(payment).collect(),
        }
    }

    /// How many rules came to this.
    pub fn count(&self, outcome: super::judge::Outcome) -> usize {
        self.findings.iter().filter(|finding| finding.outcome == outcome).count()
    }

    /// The names of the rules that failed.
    pub fn failed(&self) -> Vec<String> {
        let failed = |finding: &&Finding| finding.outcome == super::judge::Outcome::Failed;
        self.findings.iter().filter(failed).map(|finding| finding.rule.id()).collect()
    }

    /// What is signed.
    pub fn body(&self) -> Value {
        let subject = &self.subject;
        let rules = self.findings.iter().map(rule).collect::<Vec<_>>();
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
                "stage": stage(subject.stage),
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

    /// The whole document, signed.
    pub fn sealed(&self, signer: &Signer) -> Value {
        let body = self.body();
        let text = canonical(&body);
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

/// Reads a report and checks that nothing of it was changed since it was signed. Who signed it is for the caller to
/// judge. Errors: `SealError`.
pub fn verify(text: &[u8]) -> Result<Verified, SealError> {
    let document: Value =
        serde_json::from_slice(text).map_err(|_| SealError::Format("it is no JSON"))?;
    let named = |value: &Value, name| value[name].as_str().unwrap_or_default().to_owned();
    if named(&document, "format") != FORMAT {
        return Err(SealError::Format("the field format says otherwise"));
    }
    let signature = &document["signature"];
    if named(signature, "algorithm") != ALGORITHM {
        return Err(SealError::Format("the algorithm is another"));
    }
    let Value::Object(report) = &document["report"] else {
        return Err(SealError::Format("the field report is no object"));
    };
    let text = canonical(&document["report"]);
    let digest = Digest::of_bytes(text.as_bytes());
    if named(&document, "digest") != digest.to_string() {
        return Err(SealError::Digest);
    }
    let mut public_key = [0; PUBLIC_KEY_BYTES];
    hex::decode_to_slice(named(signature, "publicKey"), &mut public_key)
        .map_err(|_| SealError::Format("the public key is not 32 bytes in hex"))?;
    let value = hex::decode(named(signature, "value")).unwrap_or_default();
    if !has_signed(&public_key, text.as_bytes(), &value) {
        return Err(SealError::Signature);
    }
    Ok(Verified { report: report.clone(), digest, public_key })
}

/// The canonical text of a value.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            let field = |(name, value): &(&String, &Value)| {
                format!("{}:{}", Value::from(name.as_str()), canonical(value))
            };
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(","))
        }
        scalar => scalar.to_string(),
    }
}

fn rule(finding: &Finding) -> Value {
    json!({
        "rule": finding.rule.id(),
        "clause": finding.rule.clause(),
        "title": finding.rule.title(),
        "result": finding.outcome,
        "evidence": finding.evidence,
    })
}

/// The stage as it stands in a profile.
pub(super) fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Draft => "draft",
        Stage::Sandbox => "sandbox",
        Stage::Frozen => "frozen",
        Stage::Live => "live",
    }
}

fn payment(payment: &Payment) -> Value {
    let created = match &payment.created {
        Created::Opened(offer) => json!({
            "outcome": "opened", "providerRef": offer.provider_ref, "expiresAt": offer.expires_at,
        }),
        Created::Failed(failure) => json!({ "outcome": failure.code() }),
        Created::Unknown(why) => json!({ "outcome": "unknown", "detail": why }),
    };
    let page = payment.page.as_ref().map(|page| {
        let hop = |hop: &super::seen::Hop| json!({ "address": hop.address, "status": hop.status });
        json!({ "answers": page.hops.iter().map(hop).collect::<Vec<_>>(), "cookiesSet": page.cookies_set })
    });
    let back = |back: &super::seen::Return| json!({ "at": back.at, "status": back.text("status"), "signed": back.signed_for.is_some() });
    json!({
        "case": payment.case.name(),
        "orderId": payment.order_id,
        "created": created,
        "page": page,
        "ipns": payment.deliveries.iter().map(delivery).collect::<Vec<_>>(),
        "returns": payment.returns.iter().map(back).collect::<Vec<_>>(),
    })
}

fn delivery(delivery: &Delivery) -> Value {
    let (signed, status, timestamp) = match &delivery.reading {
        Reading::Signed(told) => (true, told.status, told.time),
        Reading::Unsigned(_) | Reading::Unread(_) => (false, None, None),
    };
    json!({
        "at": delivery.at, "sha256": delivery.digest, "signed": signed,
        "status": status.map(payfold_schemas::ipn::Status::as_str), "timestamp": timestamp,
        "answer": delivery.answered.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use payfold_partners::vault::{IDENTITY_FILE, Vault};

    use super::*;

    #[test]
    fn canonical_is_one_text_whatever_the_order() {
        let one: Value =
            serde_json::from_str(r#"{"b":[1, {"y":null,"x":"é\n\"" }],"a":true}"#).unwrap();
        let other: Value =
            serde_json::from_str(r#"{"a":true,"b":[1,{"x":"\u00e9\n\"","y":null}]}"#).unwrap();
        assert_eq!(canonical(&one), r#"{"a":true,"b":[1,{"x":"é\n\"","y":null}]}"#);
        assert_eq!(canonical(&one), canonical(&other));
    }

    fn sealed() -> Value {
        let folder = tempfile::tempdir().unwrap();
        Vault::create(folder.path()).unwrap();
        let signer = Signer::open(&folder.path().join(IDENTITY_FILE)).unwrap();
        let seen = super::super::judge::tests::clean();
        let findings = super::super::judge::judge(&seen);
        Report::new(super::super::judge::tests::subject(), &seen, findings).sealed(&signer)
    }

    #[test]
    fn a_changed_report_is_told() {
        let sealed = sealed();
        let text = serde_json::to_vec_pretty(&sealed).unwrap();
        let verified = verify(&text).unwrap();
        assert_eq!(verified.report["partner"], "sandbox");
        assert_eq!(verified.digest.to_string(), sealed["digest"].as_str().unwrap());
        let changed = |pointer: &str, value: Value| {
            let mut changed = sealed.clone();
            *changed.pointer_mut(pointer).unwrap() = value;
            verify(changed.to_string().as_bytes()).map(drop)
        };
        assert_eq!(changed("/report/verdict", json!("failed")), Err(SealError::Digest));
        assert_eq!(changed("/report/rules/0/result", json!("failed")), Err(SealError::Digest));
        let zeros = |bytes: usize| json!("0".repeat(2 * bytes));
        assert_eq!(changed("/digest", zeros(32)), Err(SealError::Digest));
        assert_eq!(changed("/signature/value", zeros(64)), Err(SealError::Signature));
        assert_eq!(changed("/signature/publicKey", zeros(32)), Err(SealError::Signature));
        assert!(matches!(changed("/format", json!("v2")), Err(SealError::Format(_))));
        assert!(matches!(verify(b"{}"), Err(SealError::Format(_))));
        assert!(matches!(verify(b"no"), Err(SealError::Format(_))));
    }
}
