//! Owns the check of a profile against a file of test vectors: the signing text and the signature of each must come out
//! as they are written down. The keys in such a file are published and worth nothing; they may be short.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::claims::{CLAIMS_MAX, are_too_many, claimed};
use super::crypt::{Ready, Strength, decode_secret};
use super::explain::{base_of, is_match, variants};
use super::map::{FaultKind, Unsigned, said};
use super::reading::{Context, Of, Reading};
use super::request::Request;
use super::unique::{Readings, ambiguous};
use super::{Scheme, SignRule};
use crate::keys::{SECRET_BYTES_LEAST, SECRET_BYTES_MIN};
use crate::profile::Profile;
use crate::secret::Secret;

/// A file of vectors; what else stands in it is let pass.
#[derive(Debug, Deserialize)]
struct VectorFile {
    vectors: Vec<Vector>,
}

#[derive(Debug, Deserialize)]
struct Vector {
    name: String,
    /// A sign block's name; absent = any may match.
    #[serde(default)]
    sign: Option<String>,
    secret: String,
    #[serde(default, rename = "const")]
    constants: BTreeMap<String, String>,
    #[serde(default)]
    merchant: String,
    request: VectorRequest,
    #[serde(default)]
    signing_string: Option<EachItem>,
    expected: EachItem,
}

/// What is expected of a notice, or of each item of an array, in its order.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum EachItem {
    One(String),
    All(Vec<String>),
}

impl EachItem {
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

/// What became of one vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VectorReport {
    /// Its name.
    pub name: String,
    /// The sign block that matched.
    pub sign: Option<String>,
    /// Why it did not come out; empty if it did.
    pub problem: String,
    /// What is worth knowing although it did.
    pub warning: String,
}

/// Checks every vector of a file. Errors: the file can't be read, or the profile is the contract's own.
pub fn check_vectors(profile: &Profile, file: &str) -> Result<Vec<VectorReport>, String> {
    let Some(scheme) = profile.scheme() else {
        return Err(
            "this profile is the contract's scheme; only a partner's own takes vectors".to_owned()
        );
    };
    let file: VectorFile =
        serde_json::from_str(file).map_err(|error| format!("no file of vectors: {error}"))?;
    if file.vectors.is_empty() {
        return Err("the file has no vectors, so it proves nothing".to_owned());
    }
    Ok(file.vectors.iter().map(|vector| check(profile, scheme, vector)).collect())
}

fn check(profile: &Profile, scheme: &Scheme, vector: &Vector) -> VectorReport {
    let is_hmac = scheme.signs.iter().any(|sign| sign.algorithm.name().starts_with("hmac"));
    let is_short = scheme.exceptions.iter().any(|name| name == "short_key");
    let least = if is_hmac && !is_short { SECRET_BYTES_MIN } else { SECRET_BYTES_LEAST };
    let bytes = vector.secret.len();
    let mut warning = String::new();
    if bytes < least {
        warning = format!("its test key has {bytes} bytes; a real one needs {least}");
    }
    let name = vector.name.clone();
    match matched(profile, scheme, vector) {
        Ok((sign, fault)) => {
            if let Some(fault) = fault {
                let more = if warning.is_empty() { "" } else { "; " };
                warning = format!("it would be refused: {fault}{more}{warning}");
            }
            VectorReport { name, sign: Some(sign), problem: String::new(), warning }
        }
        Err(problem) => VectorReport { name, sign: None, problem, warning },
    }
}

/// Why a genuine notice could not be taken; `None` if it could, or is of a kind that the profile refuses.
fn fault(profile: &Profile, scheme: &Scheme, name: &str, bare: Context<'_>) -> Option<String> {
    let sign = scheme.signs.iter().find(|sign| sign.name == name)?;
    if sign.algorithm.signs_the_text() && scheme.needs_one_reading {
        let readings = Readings::of(scheme, sign, bare.of).ok()?;
        if let Some(why) = ambiguous(sign, readings.as_ref(), bare) {
            return Some(why);
        }
    }
    let fault = said(profile, bare, Unsigned::No).err()?;
    (fault.kind != FaultKind::UnknownStatus).then(|| fault.to_string())
}

/// The sign block a vector comes out with, and why it could not be taken for all that. Errors: what differs.
fn matched(
    profile: &Profile,
    scheme: &Scheme,
    vector: &Vector,
) -> Result<(String, Option<String>), String> {
    let (base_url, path, query) = base_of(&vector.request.url);
    let headers = vector.request.headers.iter();
    let request = Request {
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
    let of = Of { merchant: &vector.merchant, constants: &constants, opening: &[], values: &[] };
    let mut reading = Reading::new(scheme, &request, profile.limits())
        .map_err(|rejection| format!("can't be parsed: {}", told(&rejection)))?;
    reading.unwrap(&of).map_err(|rejection| format!("can't be parsed: {}", told(&rejection)))?;
    let count = reading.items().map_err(|rejection| format!("no array: {}", told(&rejection)))?;
    is_of_each(vector, count)?;
    let (mut names, mut first_fault) = (Vec::<String>::new(), None);
    for item in 0..count {
        if scheme.items.is_some() {
            reading.go_to(item);
        }
        let name = signed(scheme, (vector, item), Context::bare(&reading, &of));
        let name = name.map_err(|problem| match &scheme.items {
            Some(_) => format!("item {item}: {problem}"),
            None => problem,
        })?;
        let context = Context::bare(&reading, &of);
        first_fault = first_fault.or_else(|| fault(profile, scheme, &name, context));
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok((names.join(", "), first_fault))
}

/// Something is expected of every item, and of no other. Errors: how many there are.
fn is_of_each(vector: &Vector, count: usize) -> Result<(), String> {
    let texts = vector.signing_string.as_ref().map(EachItem::count);
    for (name, found) in [("expected", Some(vector.expected.count())), ("signing_string", texts)] {
        if found.is_some_and(|found| found != count) {
            return Err(format!(
                "the array has {count} items; write {name} as a list of as many texts"
            ));
        }
    }
    Ok(())
}

/// The sign block one notice comes out with. Errors: what differs.
fn signed(
    scheme: &Scheme,
    (vector, item): (&Vector, usize),
    bare: Context<'_>,
) -> Result<String, String> {
    let mut problems = Vec::new();
    for sign in &scheme.signs {
        if vector.sign.as_ref().is_some_and(|wanted| *wanted != sign.name) {
            continue;
        }
        match of_sign(scheme, sign, (vector, item), bare) {
            Ok(()) => return Ok(sign.name.clone()),
            Err(problem) => problems.push(format!("[[sign]] {}: {problem}", sign.name)),
        }
    }
    if problems.is_empty() {
        problems.push("the profile has no such [[sign]]".to_owned());
    }
    Err(problems.join("; "))
}

fn told(rejection: &crate::verify::Rejection) -> String {
    format!("{rejection} {}", rejection.detail().unwrap_or_default())
}

fn of_sign(
    scheme: &Scheme,
    sign: &SignRule,
    (vector, item): (&Vector, usize),
    bare: Context<'_>,
) -> Result<(), String> {
    let secret = Secret::from_bytes(vector.secret.clone().into_bytes());
    let secret = decode_secret(&secret, scheme.key.encoding, &scheme.key.prefix)
        .map_err(|unfit| format!("the key {unfit}"))?;
    let ready = Ready::new(sign.algorithm, secret, Strength::Any)
        .map_err(|unfit| format!("the key {unfit}"))?;
    let context = Context { secret: ready.secret(), ..bare };
    compare(sign, &ready, (vector, item), context).map_err(|problem| {
        let printed = vector.expected.of(item).map(|text| bare_of(sign, text).to_owned());
        let text = context.text(&sign.text).unwrap_or_default();
        let matches = |one: &String| is_match(sign, &ready, &text, std::slice::from_ref(one));
        let mut odd: Vec<String> = claimed(sign, context).into_iter().chain(printed).collect();
        odd.retain(|one| !matches(one));
        match variants(sign, &ready, context, &odd).first() {
            Some(hint) => format!("{problem}; it would match with {hint}"),
            None => problem,
        }
    })
}

/// A signature without what stands before it.
fn bare_of<'t>(sign: &SignRule, text: &'t str) -> &'t str {
    text.strip_prefix(sign.prefix.as_str()).unwrap_or(text)
}

/// Errors: what differs.
fn compare(
    sign: &SignRule,
    ready: &Ready,
    (vector, item): (&Vector, usize),
    context: Context<'_>,
) -> Result<(), String> {
    let text = context.text(&sign.text).map_err(|unusable| unusable.to_string())?;
    if let Some(wanted) = vector.signing_string.as_ref().and_then(|texts| texts.of(item))
        && wanted.as_bytes() != text
    {
        return Err(differs("the signing text", wanted, &String::from_utf8_lossy(&text)));
    }
    if let Some(signature) = ready.expected(sign.algorithm, &text) {
        let wanted = vector.expected.of(item).unwrap_or_default();
        let bare = bare_of(sign, wanted);
        if sign.output.read(bare).as_ref() != Some(&signature) {
            let written = sign.output.write(&signature);
            return Err(differs("the signature", bare, &written));
        }
    }
    let claimed = claimed(sign, context);
    if is_match(sign, ready, &text, &claimed) {
        Ok(())
    } else if are_too_many(&claimed) {
        Err(format!(
            "the request has more than {CLAIMS_MAX} signatures, and none of them is compared"
        ))
    } else {
        Err("the signature in the request is not of this text".to_owned())
    }
}

fn differs(what: &str, wanted: &str, got: &str) -> String {
    let at = wanted.bytes().zip(got.bytes()).take_while(|(a, b)| a == b).count();
    format!("{what} differs from byte {at} on: expected {wanted:?}, got {got:?}")
}

#[cfg(test)]
mod tests {
    use payfold_schemas::ids::PartnerCode;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;
    use crate::profile::{SHIPPED, STARTERS};
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
                    "ref": format!("r-{n}"), "order": format!("o-{n}"), "state": "paid", "sig": sent[n - 1],
                    "amount": { "value": n * 100, "currency": "VND" },
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
    fn a_vector_that_differs_says_where() {
        let shipped = crate::profile::Shipped::of("razorpay").unwrap();
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
