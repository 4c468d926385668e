//! Owns checking a profile against a file of test vectors: the signed text and the signature of
//! each vector must be as written in the file. The keys in such a file are published, so they may
//! be short.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ambiguity::{SignedTextReadings, find_ambiguity};
use super::crypt::{KeyStrength, ReadyKey, decode_secret};
use super::explain::find_matching_changes;
use super::map::map_notice;
use super::message::{ParsedMessage, TemplateContext};
use super::request::NoticeRequest;
use super::signature_check::{CLAIMS_MAX, are_too_many, claimed};
use super::template_values::TemplateInputs;
use crate::notice_content::FaultKind;
use crate::profile::Profile;
use crate::scheme::compiled::Scheme;
use crate::scheme::explain::matching::is_match;
use crate::scheme::request::base_of;
use crate::scheme::rules::SignRule;
use crate::secret::Secret;
use crate::secret::{SECRET_BYTES_LEAST, SECRET_BYTES_MIN};

/// A file of vectors. Other keys are ignored.
#[derive(Debug, Deserialize)]
struct VectorFile {
    vectors: Vec<TestVector>,
}

#[derive(Debug, Deserialize)]
struct TestVector {
    name: String,
    /// The name of a `[[sign]]`. `None` = any may match.
    #[serde(default)]
    sign: Option<String>,
    secret: String,
    #[serde(default, rename = "const")]
    constants: BTreeMap<String, String>,
    #[serde(default)]
    merchant: String,
    request: VectorRequest,
    #[serde(default)]
    signing_string: Option<ExpectedTexts>,
    expected: ExpectedTexts,
}

/// The expected text of a notice, or of each item of an array.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ExpectedTexts {
    One(String),
    All(Vec<String>),
}

impl ExpectedTexts {
    fn of(&self, item: usize) -> Option<&str> {
        match self {
            Self::One(text) => Some(text).filter(|_| item == 0),
            Self::All(texts) => texts.get(item),
        }
        .map(String::as_str)
    }

    fn count(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::All(texts) => texts.len(),
        }
    }
}

#[derive(Debug, Deserialize)]
struct VectorRequest {
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: String,
}

/// The result of one vector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VectorReport {
    /// The vector's name.
    #[serde(rename = "vector")]
    pub name: String,
    /// The `[[sign]]` that matched.
    pub sign: Option<String>,
    /// Why the vector failed; empty if it passed.
    pub problem: String,
    /// A warning about a vector that passed.
    pub warning: String,
}

/// What differs between a vector and the profile, or why the file can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct VectorError(String);

fn vector_error<T>(problem: impl Into<String>) -> Result<T, VectorError> {
    Err(VectorError(problem.into()))
}

/// Checks every vector of a file. Errors: the file can't be read.
pub fn check_vectors(profile: &Profile, file: &str) -> Result<Vec<VectorReport>, VectorError> {
    let scheme = profile.scheme();
    let file: VectorFile = serde_json::from_str(file)
        .map_err(|error| VectorError(format!("not a file of vectors: {error}")))?;
    if file.vectors.is_empty() {
        return vector_error("the file has no vectors, so it proves nothing");
    }
    Ok(file.vectors.iter().map(|vector| check(profile, scheme, vector)).collect())
}

fn check(profile: &Profile, scheme: &Scheme, vector: &TestVector) -> VectorReport {
    let is_hmac = scheme.signs.iter().any(|sign| sign.algorithm.name().starts_with("hmac"));
    let is_short = scheme.exceptions.iter().any(|name| name == "short_key");
    let least = if is_hmac && !is_short { SECRET_BYTES_MIN } else { SECRET_BYTES_LEAST };
    let bytes = vector.secret.len();
    let mut warning = String::new();
    if bytes < least {
        warning = format!("its test key has {bytes} bytes; a real one needs {least}");
    }
    let name = vector.name.clone();
    match match_vector(profile, scheme, vector) {
        Ok((sign, fault)) => {
            if let Some(fault) = fault {
                let more = if warning.is_empty() { "" } else { "; " };
                warning = format!("it would be refused: {fault}{more}{warning}");
            }
            VectorReport { name, sign: Some(sign), problem: String::new(), warning }
        }
        Err(VectorError(problem)) => VectorReport { name, sign: None, problem, warning },
    }
}

/// Why an authenticated notice would not be admissible. `None` if it would be, or if the profile
/// refuses its kind on purpose.
fn find_fault(
    profile: &Profile,
    scheme: &Scheme,
    name: &str,
    bare: TemplateContext<'_>,
) -> Option<String> {
    let sign = scheme.signs.iter().find(|sign| sign.name == name)?;
    if sign.algorithm.signs_the_text() && scheme.needs_one_reading {
        let readings = SignedTextReadings::compile(scheme, sign, bare.inputs).ok()?;
        if let Some(why) = find_ambiguity(sign, readings.as_ref(), bare) {
            return Some(why);
        }
    }
    let fault = map_notice(profile, bare, sign).err()?;
    (fault.kind != FaultKind::UnknownStatus).then(|| fault.to_string())
}

/// The `[[sign]]` that a vector matches, and why the notice would still be refused. Errors: what
/// differs.
fn match_vector(
    profile: &Profile,
    scheme: &Scheme,
    vector: &TestVector,
) -> Result<(String, Option<String>), VectorError> {
    let (base_url, path, query) = base_of(&vector.request.url);
    let headers = vector.request.headers.iter();
    let request = NoticeRequest {
        method: vector.request.method.as_deref().unwrap_or("POST"),
        base_url,
        path,
        query,
        headers: headers.map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        body: vector.request.body.as_bytes(),
    };
    let mut constants: BTreeMap<String, String> = scheme
        .constants
        .iter()
        .filter_map(|(name, value)| Some((name.clone(), value.clone()?)))
        .collect();
    constants.extend(vector.constants.clone());
    let inputs = TemplateInputs {
        merchant: &vector.merchant,
        constants: &constants,
        decryption_keys: &[],
        values: &[],
    };
    let mut message =
        ParsedMessage::new(scheme, &request, profile.limits()).map_err(|rejection| {
            VectorError(format!("can't be parsed: {}", describe_rejection(&rejection)))
        })?;
    message.unwrap_documents(&inputs).map_err(|rejection| {
        VectorError(format!("can't be parsed: {}", describe_rejection(&rejection)))
    })?;
    let count = message.count_items().map_err(|rejection| {
        VectorError(format!("no array: {}", describe_rejection(&rejection)))
    })?;
    check_counts(vector, count)?;
    let (mut names, mut first_fault) = (Vec::<String>::new(), None);
    for item in 0..count {
        if scheme.items.is_some() {
            message.select_item(item);
        }
        let name =
            match_item(scheme, (vector, item), TemplateContext::without_key(&message, &inputs));
        let name = name.map_err(|problem| match &scheme.items {
            Some(_) => VectorError(format!("item {item}: {problem}")),
            None => problem,
        })?;
        let context = TemplateContext::without_key(&message, &inputs);
        first_fault = first_fault.or_else(|| find_fault(profile, scheme, &name, context));
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok((names.join(", "), first_fault))
}

/// Checks that the vector expects as many texts as the array has items. Errors: how many there are.
fn check_counts(vector: &TestVector, count: usize) -> Result<(), VectorError> {
    let texts = vector.signing_string.as_ref().map(ExpectedTexts::count);
    for (name, found) in [("expected", Some(vector.expected.count())), ("signing_string", texts)] {
        if found.is_some_and(|found| found != count) {
            return vector_error(format!(
                "the array has {count} items; write {name} as a list of as many texts"
            ));
        }
    }
    Ok(())
}

/// The `[[sign]]` that one notice matches. Errors: what differs.
fn match_item(
    scheme: &Scheme,
    (vector, item): (&TestVector, usize),
    bare: TemplateContext<'_>,
) -> Result<String, VectorError> {
    let mut problems = Vec::new();
    for sign in &scheme.signs {
        if vector.sign.as_ref().is_some_and(|wanted| *wanted != sign.name) {
            continue;
        }
        match match_sign(scheme, sign, (vector, item), bare) {
            Ok(()) => return Ok(sign.name.clone()),
            Err(problem) => problems.push(format!("[[sign]] {}: {problem}", sign.name)),
        }
    }
    if problems.is_empty() {
        problems.push("the profile has no such [[sign]]".to_owned());
    }
    vector_error(problems.join("; "))
}

fn describe_rejection(rejection: &crate::rejection::Rejection) -> String {
    format!("{rejection} {}", rejection.detail().unwrap_or_default())
}

fn match_sign(
    scheme: &Scheme,
    sign: &SignRule,
    (vector, item): (&TestVector, usize),
    bare: TemplateContext<'_>,
) -> Result<(), VectorError> {
    let secret = Secret::from_bytes(vector.secret.clone().into_bytes());
    let secret = decode_secret(&secret, scheme.key.encoding, &scheme.key.prefix)
        .map_err(|unfit| VectorError(format!("the key {unfit}")))?;
    let ready = ReadyKey::new(sign.algorithm, secret, KeyStrength::Any)
        .map_err(|unfit| VectorError(format!("the key {unfit}")))?;
    let context = TemplateContext { secret: ready.secret(), ..bare };
    compare(sign, &ready, (vector, item), context).map_err(|problem| {
        let printed = vector.expected.of(item).map(|text| without_prefix(sign, text).to_owned());
        let text = context.render(&sign.text).unwrap_or_default();
        let matches = |one: &String| is_match(sign, &ready, &text, std::slice::from_ref(one));
        let mut odd: Vec<String> = claimed(sign, context).into_iter().chain(printed).collect();
        odd.retain(|one| !matches(one));
        match find_matching_changes(sign, &ready, context, &odd).first() {
            Some(hint) => VectorError(format!("{problem}; it would match with {hint}")),
            None => problem,
        }
    })
}

/// A signature without its prefix.
fn without_prefix<'t>(sign: &SignRule, text: &'t str) -> &'t str {
    text.strip_prefix(sign.prefix.as_str()).unwrap_or(text)
}

/// Compares a vector with one `[[sign]]`. Errors: what differs.
fn compare(
    sign: &SignRule,
    ready: &ReadyKey,
    (vector, item): (&TestVector, usize),
    context: TemplateContext<'_>,
) -> Result<(), VectorError> {
    let text = context.render(&sign.text).map_err(|unusable| VectorError(unusable.to_string()))?;
    if let Some(wanted) = vector.signing_string.as_ref().and_then(|texts| texts.of(item))
        && wanted.as_bytes() != text
    {
        return vector_error(describe_difference(
            "the signing text",
            wanted,
            &String::from_utf8_lossy(&text),
        ));
    }
    if let Some(signature) = ready.compute_signature(&text) {
        let wanted = vector.expected.of(item).unwrap_or_default();
        let bare = without_prefix(sign, wanted);
        if sign.output.decode(bare).as_ref() != Some(&signature) {
            let written = sign.output.encode(&signature);
            return vector_error(describe_difference("the signature", bare, &written));
        }
    }
    let claimed = claimed(sign, context);
    if is_match(sign, ready, &text, &claimed) {
        Ok(())
    } else if are_too_many(&claimed) {
        vector_error(format!(
            "the request has more than {CLAIMS_MAX} signatures, and none of them is compared"
        ))
    } else {
        vector_error("the signature in the request is not of this text")
    }
}

fn describe_difference(what: &str, wanted: &str, got: &str) -> String {
    let at = wanted.bytes().zip(got.bytes()).take_while(|(a, b)| a == b).count();
    format!("{what} differs from byte {at} on: expected {wanted:?}, got {got:?}")
}

#[cfg(test)]
mod tests {
    use payfold_schemas::ids::PartnerCode;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;
    use crate::profile::shipped::{SHIPPED, STARTERS};
    use crate::scheme::tests::{SECRET, sha256};

    #[test]
    fn every_shipped_profile_comes_out_as_its_vectors_say() {
        for shipped in SHIPPED {
            let code = PartnerCode::parse(shipped.name).unwrap();
            let profile = Profile::parse(&code, shipped.profile).unwrap_or_else(|e| panic!("{e}"));
            for report in check_vectors(&profile, shipped.vectors).unwrap() {
                assert_eq!(report.problem, "", "{} {}", shipped.name, report.name);
            }
        }
    }

    #[test]
    fn every_starter_is_taken_as_it_stands() {
        for starter in STARTERS {
            let code = PartnerCode::parse("new").unwrap();
            let profile = Profile::parse(&code, starter.profile)
                .unwrap_or_else(|e| panic!("{}: {e}", starter.name));
            for report in check_vectors(&profile, starter.vectors).unwrap() {
                let quiet = (report.problem.as_str(), report.warning.as_str());
                assert_eq!(quiet, ("", ""), "{}", starter.name);
            }
        }
    }

    #[test]
    fn every_item_of_an_array_must_come_out() {
        let code = PartnerCode::parse("acme").unwrap();
        let items = include_str!("../../tests/fuzzed/profiles/items.toml");
        let profile = Profile::parse(&code, items).unwrap();
        let texts = ["r-1:o-1:100:VND:paid:", "r-2:o-2:200:VND:paid:"];
        let both = texts.map(|text| STANDARD.encode(hex::decode(sha256(text)).unwrap()));
        let of = |sent: [&str; 2], expected: serde_json::Value| {
            let item = |n: usize| {
                serde_json::json!({ "N": {
                    "ref": format!("r-{n}"), "order": format!("o-{n}"), "state": "paid",
                    "sig": sent[n - 1], "amount": { "value": n * 100, "currency": "VND" },
                } })
            };
            let body = serde_json::json!({ "items": [item(1), item(2)] }).to_string();
            let file = serde_json::json!({ "vectors": [{
                "name": "two", "secret": SECRET, "request": { "body": body },
                "signing_string": texts, "expected": expected,
            }] });
            let report = check_vectors(&profile, &file.to_string()).unwrap().remove(0);
            if report.problem.is_empty() { report.sign.unwrap_or_default() } else { report.problem }
        };
        let [one, two] = [both[0].as_str(), both[1].as_str()];
        assert_eq!(of([one, two], serde_json::json!([one, two])), "sign-1");
        let forged = of([one, one], serde_json::json!([one, two]));
        let problem = "the signature in the request is not of this text";
        assert_eq!(forged, format!("item 1: [[sign]] sign-1: {problem}"));
        let other = of([one, two], serde_json::json!([one, one]));
        assert!(other.starts_with("item 1: [[sign]] sign-1: the signature differs"), "{other}");
        let first = of([one, two], serde_json::json!(one));
        assert_eq!(first, "the array has 2 items; write expected as a list of as many texts");
    }

    #[test]
    fn a_vector_that_differs_is_reported() {
        let shipped = crate::profile::shipped::ShippedProfile::of("razorpay").unwrap();
        let code = PartnerCode::parse("razorpay").unwrap();
        let profile = Profile::parse(&code, shipped.profile).unwrap();
        let altered = shipped.vectors.replace("\\\"a\\\":1", "\\\"a\\\":2");
        assert_ne!(altered, shipped.vectors);
        let report = &check_vectors(&profile, &altered).unwrap()[0];
        assert!(!report.problem.is_empty(), "{report:?}");
        assert!(report.warning.contains("its test key has 6 bytes"));
        assert!(check_vectors(&profile, "{\"vectors\":[]}").is_err());
    }
}
