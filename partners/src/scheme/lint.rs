//! Owns what makes a partner's own scheme safe to run. What decides money must be covered by every signature that may
//! let a notice pass, or be confirmed by a query; a refusal must not look like an acceptance; the last event must
//! say what becomes of all the rest; and whatever deviates from the contract must be listed as an exception.

mod binding;
mod coverage;
mod create;

use std::collections::BTreeMap;

use super::ack::Ack;
use super::filter::Keeps;
use super::reading::Of;
use super::template::{Template, Token};
use super::unique::Readings;
use super::{Confirm, EventRule, Outcome, Scheme};

use crate::profile::file::Wrong;
use crate::profile::{Common, NonceRule, TimeKind};

use self::binding::binding;
pub(super) use self::coverage::{complete_lists, deciding_sources, needs_one_reading};
use self::coverage::{coverage, is_time_signed, weakest};

/// Every exception there is.
pub(super) const EXCEPTIONS: [&str; 13] = [
    "event_time",
    "no_time",
    "unsigned_time",
    "case_folded",
    "no_paid_at",
    "own_ack",
    "bad_signature_2xx",
    "refusal_2xx",
    "get_notices",
    "weak_algorithm",
    "plain_digest",
    "needs_confirmation",
    "short_key",
];

/// What a profile says beside its scheme of what is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeAndNonce {
    pub(super) time: TimeKind,
    pub(super) nonce: NonceRule,
}

/// Everything that is wrong with a scheme that compiles.
pub(super) fn check(scheme: &Scheme, common: &Common) -> Vec<Wrong> {
    let mut problems = Vec::new();
    places(scheme, &mut problems);
    events(scheme, &mut problems);
    let with = TimeAndNonce { time: common.time.kind, nonce: common.nonce };
    coverage(scheme, with, &mut problems);
    binding(scheme, &mut problems);
    answers(scheme, &mut problems);
    signs(scheme, &mut problems);
    create::creates(scheme, common, &mut problems);
    if common.nonce == NonceRule::Required && scheme.map.places.nonce.is_none() {
        let problem = "nonce = \"required\" needs map.nonce: where it stands".to_owned();
        problems.push(Wrong { span: 0..0, problem });
    }
    exceptions(scheme, with, &mut problems);
    problems
}

/// Every event that is a fact has a place for each value.
fn places(scheme: &Scheme, problems: &mut Vec<Wrong>) {
    let all = &scheme.map.places;
    for (at, event) in facts(scheme) {
        let own = &event.places;
        for (name, is_there) in [
            ("order", own.order.is_some() || all.order.is_some()),
            ("ref", own.provider_ref.is_some() || all.provider_ref.is_some()),
            ("amount", own.amount.is_some() || all.amount.is_some()),
            ("currency", own.currency.is_some() || all.currency.is_some()),
        ] {
            if !is_there {
                let problem = format!(
                    "[[event]] {at} has no place for {name}; add {name} to it or to [map] (a text without braces is a constant)"
                );
                problems.push(Wrong { span: event.span.clone(), problem });
            }
        }
    }
}

fn facts(scheme: &Scheme) -> impl Iterator<Item = (usize, &EventRule)> {
    let numbered = scheme.events.iter().enumerate().map(|(at, event)| (at + 1, event));
    numbered.filter(|(_, event)| matches!(event.outcome, Outcome::Status(_)))
}

/// The last event has no condition, and no other has none.
fn events(scheme: &Scheme, problems: &mut Vec<Wrong>) {
    let last = scheme.events.len();
    for (at, event) in scheme.events.iter().enumerate() {
        let is_last = at + 1 == last;
        let span = event.span.clone();
        if event.when.is_empty() && !is_last {
            let problem =
                format!("[[event]] {} has no when, so those behind it are never reached", at + 1);
            problems.push(Wrong { span: span.clone(), problem });
        }
        if is_last && !event.when.is_empty() {
            let problem = "the last [[event]] must have no when: say what becomes of all other kinds, best outcome = \"refuse\" or \"ignore\"";
            problems.push(Wrong { span, problem: problem.to_owned() });
        }
    }
}

/// What is refused must not look like what is taken.
fn answers(scheme: &Scheme, problems: &mut Vec<Wrong>) {
    let Some(refused) = scheme.acks.rule(Ack::BadSignature) else { return };
    let default_accepted = refused.status == 200
        && matches!(&refused.body, super::ack::AckBody::Fixed(body) if body.is_empty());
    let same = match scheme.acks.rule(Ack::Accepted) {
        Some(accepted) => accepted.status == refused.status && accepted.body == refused.body,
        None => default_accepted,
    };
    if same {
        let problem = "acks.bad_signature is the same answer as acks.accepted: a forged notice would look taken; give it another status or body";
        problems.push(Wrong { span: 0..0, problem: problem.to_owned() });
    }
    if let Some(unavailable) = scheme.acks.rule(Ack::Unavailable) {
        let same = match scheme.acks.rule(Ack::Accepted) {
            Some(taken) => taken.status == unavailable.status && taken.body == unavailable.body,
            None => unavailable.status == 200,
        };
        if same {
            let problem = "acks.unavailable is the same answer as acks.accepted: what is not stored would look stored";
            problems.push(Wrong { span: 0..0, problem: problem.to_owned() });
        }
    }
}

fn signs(scheme: &Scheme, problems: &mut Vec<Wrong>) {
    let last = scheme.signs.len().saturating_sub(1);
    // Whoever the account is; its constants only make the text more definite.
    let of = Of { merchant: "", constants: &BTreeMap::new(), opening: &[], values: &[] };
    for (at, sign) in scheme.signs.iter().enumerate() {
        if sign.algorithm == super::crypt::Algorithm::None && at != last {
            let problem = format!("[[sign]] {} takes anything, so it must be the last", sign.name);
            problems.push(Wrong { span: sign.span.clone(), problem });
        }
        if scheme.signs[..at].iter().any(|other| other.name == sign.name) {
            let problem = format!("two [[sign]] are named {}; give each its own name", sign.name);
            problems.push(Wrong { span: sign.span.clone(), problem });
        }
        if let Err(error) = Readings::of(scheme, sign, &of) {
            let problem = format!("[[sign]] {}: {error}", sign.name);
            problems.push(Wrong { span: sign.span.clone(), problem });
        }
    }
}

/// What deviates from the contract must be listed, and what is listed must deviate.
fn exceptions(scheme: &Scheme, with: TimeAndNonce, problems: &mut Vec<Wrong>) {
    let needed = needed(scheme, with);
    let mut wrong =
        |problem| problems.push(Wrong { span: scheme.exceptions_span.clone(), problem });
    for (name, why) in &needed {
        if !scheme.exceptions.iter().any(|listed| listed == name) {
            wrong(format!("{why}: an exception from the contract; add \"{name}\" to exceptions"));
        }
    }
    for listed in &scheme.exceptions {
        // Whether a key is short is known only where the keys are.
        if listed != "short_key" && !needed.iter().any(|(name, _)| name == listed) {
            wrong(format!("the exception {listed} is not needed; remove it from exceptions"));
        }
    }
}

/// The exceptions a scheme needs, each with what makes it one.
pub(super) fn needed(scheme: &Scheme, with: TimeAndNonce) -> Vec<(&'static str, String)> {
    let time = with.time;
    let mut needed = Vec::new();
    let mut add = |name, why: &str| {
        assert!(EXCEPTIONS.contains(&name), "{name} is an exception nobody can list");
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
    if scheme.acks.rule(Ack::BadSignature).is_some_and(|ack| ack.status < 300) {
        add("bad_signature_2xx", "a bad signature is answered with a success status");
    }
    if [Ack::NotAdmissible, Ack::Stale, Ack::Unavailable]
        .into_iter()
        .any(|ack| scheme.acks.rule(ack).is_some_and(|ack| ack.status < 300))
    {
        add("refusal_2xx", "a refusal is answered with a success status");
    }
    if scheme.acks.rules[Ack::Accepted as usize].is_some() {
        add("own_ack", "the acknowledgement is not 200 with an empty body");
    }
    let weakest = weakest(scheme, with);
    if scheme.signs.iter().any(|sign| sign.algorithm.is_weak()) || weakest.contains(&Keeps::Weakly)
    {
        add("weak_algorithm", "MD5 or SHA-1 signs");
    }
    if weakest.contains(&Keeps::ButForCase) {
        add(
            "case_folded",
            "what decides is signed in one letter case, or without the blanks around it",
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
    if scheme.confirm != Confirm::Never {
        add("needs_confirmation", "the signature does not cover all that decides money");
    }
    let is_paid = |event: &EventRule| {
        event.outcome == Outcome::Status(payfold_schemas::ipn::Status::Success)
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

/// Every token of a scheme.
pub(super) fn every_token(scheme: &Scheme) -> Vec<&Token> {
    let mut tokens: Vec<&Token> = Vec::new();
    let map = &scheme.map;
    let mut templates: Vec<&Template> = scheme.texts.iter().collect();
    templates.extend(scheme.documents.iter().map(|rule| &rule.from));
    for rule in scheme.documents.iter().filter_map(|rule| rule.decrypt.as_ref()) {
        templates.extend([&rule.nonce, &rule.associated_data]);
    }
    templates.extend(scheme.signs.iter().map(|sign| &sign.text));
    templates.extend(scheme.require.iter().flat_map(|rule| [&rule.value, &rule.equals]));
    templates.extend(scheme.key.id.as_ref());
    templates.extend(map.merchant.as_ref());
    templates.extend(scheme.time.as_ref().map(|(template, _)| template));
    let places = scheme.events.iter().map(|event| &event.places).chain([&map.places]);
    for places in places {
        let all = [
            &places.order,
            &places.provider_ref,
            &places.amount,
            &places.currency,
            &places.paid_at,
            &places.event,
            &places.nonce,
        ];
        templates.extend(all.into_iter().flatten());
    }
    tokens.extend(templates.into_iter().flat_map(Template::tokens));
    tokens.extend(scheme.signs.iter().filter_map(|sign| sign.signature.as_ref()));
    tokens.extend(scheme.fields.iter().map(|rule| &rule.at));
    let conditions = scheme.events.iter().flat_map(|event| &event.when);
    tokens.extend(conditions.map(|condition| &condition.value));
    tokens
}
