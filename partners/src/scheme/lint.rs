//! Owns the rules that make a custom scheme safe. Every value that decides about money is covered
//! by every signature that lets a notice pass, or is confirmed by a query; a refusal is not
//! answered like an acceptance; the last event covers all remaining notices; and every deviation
//! from the contract is listed as an exception.

mod binding;
mod confirmation;
mod coverage;
mod create;
pub(crate) mod facts;

use std::collections::BTreeMap;

use self::binding::check_binding;
use self::confirmation::check_confirmation;
use self::coverage::{check_coverage, deciding_coverages, is_time_signed};
use super::ack::AckKind;
use super::ambiguity::SignedTextReadings;
use super::filter::SignatureCoverage;
use super::template_values::TemplateInputs;
use crate::profile::common::CommonRules;
use crate::profile::mistake::ProfileMistake;
use crate::profile::rules::NonceRule;
use crate::profile::time::TimeKind;
use crate::scheme::compiled::Scheme;
use crate::scheme::lint::facts::{TimeAndNonce, fact_events};
use crate::scheme::rules::{ConfirmPolicy, EventOutcome, EventRule};

pub(crate) use self::binding::AccountBinding;
pub(super) use self::coverage::{complete_lists, complete_signs, needs_one_reading};

/// All names that `exceptions` may list.
pub(super) const EXCEPTIONS: [&str; 13] = [
    "event_time",
    "no_time",
    "unsigned_time",
    "case_folded",
    "no_paid_at",
    "custom_ack",
    "bad_signature_2xx",
    "refusal_2xx",
    "get_notices",
    "weak_algorithm",
    "plain_digest",
    "needs_confirmation",
    "short_key",
];

/// The name of an exception today: profiles of the first build call `custom_ack` `own_ack`.
pub(super) fn exception_name(listed: &str) -> String {
    if listed == "own_ack" { "custom_ack" } else { listed }.to_owned()
}

/// Checks a compiled scheme against all rules, and returns what breaks them.
pub(super) fn check(scheme: &Scheme, common: &CommonRules) -> Vec<ProfileMistake> {
    let mut problems = Vec::new();
    check_places(scheme, &mut problems);
    check_events(scheme, &mut problems);
    let with = TimeAndNonce { time: common.time.kind, nonce: common.nonce };
    check_coverage(scheme, with, &mut problems);
    check_binding(scheme, &mut problems);
    check_confirmation(scheme, &mut problems);
    check_answers(scheme, &mut problems);
    check_signs(scheme, &mut problems);
    create::check_create(scheme, common, &mut problems);
    if common.nonce == NonceRule::Required && scheme.map.places.nonce.is_none() {
        let problem = "nonce = \"required\" needs map.nonce: where it stands".to_owned();
        problems.push(ProfileMistake { span: 0..0, problem });
    }
    check_exceptions(scheme, with, &mut problems);
    problems
}

/// Checks that every event with a status has a place for each value.
fn check_places(scheme: &Scheme, problems: &mut Vec<ProfileMistake>) {
    let all = &scheme.map.places;
    for (at, event) in fact_events(scheme) {
        let own = &event.places;
        for (name, is_there) in [
            ("order", own.order.is_some() || all.order.is_some()),
            ("ref", own.provider_ref.is_some() || all.provider_ref.is_some()),
            ("amount", own.amount.is_some() || all.amount.is_some()),
            ("currency", own.currency.is_some() || all.currency.is_some()),
        ] {
            if !is_there {
                let problem = format!(
                    "[[event]] {at} has no place for {name}; add {name} to it or to [map] (a text \
                     without braces is a constant)"
                );
                problems.push(ProfileMistake { span: event.span.clone(), problem });
            }
        }
    }
}

/// Checks that the last event has no condition, and every other has one.
fn check_events(scheme: &Scheme, problems: &mut Vec<ProfileMistake>) {
    let last = scheme.events.len();
    for (at, event) in scheme.events.iter().enumerate() {
        let is_last = at + 1 == last;
        let span = event.span.clone();
        if event.when.is_empty() && !is_last {
            let problem = format!(
                "[[event]] {} has no when, so the events after it are never reached",
                at + 1
            );
            problems.push(ProfileMistake { span: span.clone(), problem });
        }
        if is_last && !event.when.is_empty() {
            let problem = "the last [[event]] must have no when: it applies to all other notices, \
                best with outcome = \"refuse\" or \"ignore\"";
            problems.push(ProfileMistake { span, problem: problem.to_owned() });
        }
    }
}

/// Checks that a refusal is not answered like an acceptance.
fn check_answers(scheme: &Scheme, problems: &mut Vec<ProfileMistake>) {
    let Some(refused) = scheme.acks.rule(AckKind::BadSignature) else { return };
    let default_accepted = refused.status == 200
        && matches!(&refused.body, super::ack::AckBody::Fixed(body) if body.is_empty());
    let same = match scheme.acks.rule(AckKind::Accepted) {
        Some(accepted) => accepted.status == refused.status && accepted.body == refused.body,
        None => default_accepted,
    };
    if same {
        let problem = "acks.bad_signature is the same answer as acks.accepted: a forged notice \
            would look accepted; give it another status or body";
        problems.push(ProfileMistake { span: 0..0, problem: problem.to_owned() });
    }
    if let Some(unavailable) = scheme.acks.rule(AckKind::Unavailable) {
        let same = match scheme.acks.rule(AckKind::Accepted) {
            Some(taken) => taken.status == unavailable.status && taken.body == unavailable.body,
            None => unavailable.status == 200,
        };
        if same {
            let problem = "acks.unavailable is the same answer as acks.accepted: what is not \
                stored would look stored";
            problems.push(ProfileMistake { span: 0..0, problem: problem.to_owned() });
        }
    }
}

fn check_signs(scheme: &Scheme, problems: &mut Vec<ProfileMistake>) {
    let last = scheme.signs.len().saturating_sub(1);
    // Checked without an account: constants would only restrict the text further.
    let inputs = TemplateInputs {
        merchant: "",
        constants: &BTreeMap::new(),
        decryption_keys: &[],
        values: &[],
    };
    for (at, sign) in scheme.signs.iter().enumerate() {
        if sign.algorithm == super::crypt::SignAlgorithm::None && at != last {
            let problem =
                format!("[[sign]] {} accepts any notice, so it must be the last", sign.name);
            problems.push(ProfileMistake { span: sign.span.clone(), problem });
        }
        if scheme.signs[..at].iter().any(|other| other.name == sign.name) {
            let problem = format!("two [[sign]] are named {}; give each its own name", sign.name);
            problems.push(ProfileMistake { span: sign.span.clone(), problem });
        }
        if let Err(error) = SignedTextReadings::compile(scheme, sign, &inputs) {
            let problem = format!("[[sign]] {}: {error}", sign.name);
            problems.push(ProfileMistake { span: sign.span.clone(), problem });
        }
    }
}

/// Checks that `exceptions` lists exactly the deviations from the contract.
fn check_exceptions(scheme: &Scheme, with: TimeAndNonce, problems: &mut Vec<ProfileMistake>) {
    let needed = needed_exceptions(scheme, with);
    let mut wrong =
        |problem| problems.push(ProfileMistake { span: scheme.exceptions_span.clone(), problem });
    for (name, why) in &needed {
        if !scheme.exceptions.iter().any(|listed| listed == name) {
            wrong(format!("{why}: an exception from the contract; add \"{name}\" to exceptions"));
        }
    }
    for listed in &scheme.exceptions {
        // Whether a key is short is known only when the vault is read.
        if listed != "short_key" && !needed.iter().any(|(name, _)| name == listed) {
            wrong(format!("the exception {listed} is not needed; remove it from exceptions"));
        }
    }
}

/// The exceptions a scheme needs, each with the reason.
pub(super) fn needed_exceptions(
    scheme: &Scheme,
    with: TimeAndNonce,
) -> Vec<(&'static str, String)> {
    let time = with.time;
    let mut needed = Vec::new();
    let mut add = |name, why: &str| {
        assert!(
            EXCEPTIONS.contains(&name),
            "{name} is not in EXCEPTIONS, so no profile can list it"
        );
        needed.push((name, why.to_owned()));
    };
    match time {
        TimeKind::Delivery => {}
        TimeKind::Event => {
            add("event_time", "the notice has no time of its delivery, only of its event")
        }
        TimeKind::None => add("no_time", "the notice has no time"),
    }
    if scheme.methods.iter().any(|method| method == "GET") {
        add("get_notices", "notices come by GET");
    }
    if scheme.acks.rule(AckKind::BadSignature).is_some_and(|ack| ack.status < 300) {
        add("bad_signature_2xx", "a bad signature is answered with a success status");
    }
    if [AckKind::NotAdmissible, AckKind::Stale, AckKind::Unavailable]
        .into_iter()
        .any(|ack| scheme.acks.rule(ack).is_some_and(|ack| ack.status < 300))
    {
        add("refusal_2xx", "a refusal is answered with a success status");
    }
    if scheme.acks.rules[AckKind::Accepted as usize].is_some() {
        add("custom_ack", "the acknowledgement is not 200 with an empty body");
    }
    let weakest = deciding_coverages(scheme, with);
    if scheme.signs.iter().any(|sign| sign.algorithm.is_weak())
        || weakest.contains(&SignatureCoverage::Weakly)
    {
        add("weak_algorithm", "MD5 or SHA-1 signs");
    }
    if weakest.contains(&SignatureCoverage::ButForCase) {
        add(
            "case_folded",
            "a deciding value is signed in one letter case, or without the blanks around it",
        );
    }
    if time != TimeKind::None && !is_time_signed(scheme) {
        add(
            "unsigned_time",
            "the notice's time is not signed: an old notice can be given a new one",
        );
    }
    if scheme.signs.iter().any(|sign| sign.algorithm.is_plain_digest()) {
        add("plain_digest", "a plain digest with the secret in its text signs, not an HMAC");
    }
    if scheme.confirm != ConfirmPolicy::Never {
        add(
            "needs_confirmation",
            "the signature does not cover every value that decides about money",
        );
    }
    let is_paid = |event: &EventRule| {
        event.outcome == EventOutcome::Status(payfold_schemas::ipn::Status::Success)
            && event.places.paid_at.is_none()
    };
    if scheme.map.places.paid_at.is_none()
        && time != TimeKind::Event
        && scheme.events.iter().any(is_paid)
    {
        add("no_paid_at", "a payment's notice does not say when it was paid");
    }
    needed
}
