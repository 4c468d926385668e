//! Owns what makes a partner's own scheme safe to run. What decides money must be covered by every signature that may
//! let a notice pass, or be confirmed by a query; a refusal must not look like an acceptance; the last event must
//! say what becomes of all the rest; and whatever deviates from the contract must be listed as an exception.

use super::ack::Ack;
use super::filter::Keeps;
use super::pairs::Write;
use super::template::{Piece, Source, Template, Token};
use super::{BODY, Confirm, Content, EventRule, ITEM, Outcome, QUERY, Scheme, SignRule};
use crate::profile::file::Wrong;
use crate::profile::{Common, NonceRule, TimeKind};

/// Everything that is wrong with a scheme that compiles.
pub(super) fn check(scheme: &Scheme, common: &Common) -> Vec<Wrong> {
    let mut problems = Vec::new();
    places(scheme, &mut problems);
    events(scheme, &mut problems);
    coverage(scheme, &mut problems);
    answers(scheme, &mut problems);
    signs(scheme, &mut problems);
    if common.nonce == NonceRule::Required && scheme.map.places.nonce.is_none() {
        let problem = "nonce = \"required\" needs map.nonce: where it stands".to_owned();
        problems.push(Wrong { span: 0..0, problem });
    }
    exceptions(scheme, common, &mut problems);
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

/// What decides money is signed, or confirmed; values that stand side by side can be told apart.
fn coverage(scheme: &Scheme, problems: &mut Vec<Wrong>) {
    if scheme.confirm == Confirm::Always {
        return;
    }
    for sign in &scheme.signs {
        let mut wrong = |problem: String| problems.push(Wrong { span: sign.span.clone(), problem });
        if !sign.algorithm.signs_the_text() {
            if scheme.confirm == Confirm::Never {
                wrong(format!(
                    "[[sign]] {} signs nothing of the notice; write confirm = \"when_unsigned\" or \"always\", so that a query confirms it",
                    sign.name
                ));
            }
            continue;
        }
        for (name, token) in deciding(scheme) {
            if covered(scheme, &sign.text, token, 0) == Keeps::Nothing {
                wrong(format!(
                    "[[sign]] {} does not cover {}, which decides {name}: anybody could change it; map a signed place, or write \
                     confirm = \"always\", so that a query confirms it",
                    sign.name, token.written
                ));
            }
        }
        for (first, second) in side_by_side(scheme, &sign.text) {
            wrong(format!(
                "[[sign]] {}: nothing stands between {first} and {second}, so text could slide from one into the other; say what \
                 {first} looks like with a [[field]] (type or pattern), or write confirm = \"always\"",
                sign.name
            ));
        }
        for number in 0..scheme.pairs.len() {
            let list = &scheme.pairs[number];
            let has_no_marks = list.write == Write::Values && list.separator.is_empty();
            if has_no_marks && mentions(&sign.text, &Source::Pairs(number)) {
                wrong(format!(
                    "[[sign]] {}: values with nothing between them can't be told apart; write confirm = \"always\"",
                    sign.name
                ));
            }
        }
    }
}

/// Values of a text that stand side by side, the first of them of no known shape.
fn side_by_side(scheme: &Scheme, text: &Template) -> Vec<(String, String)> {
    let value = |piece: &Piece| match piece {
        Piece::Token(token) if matches!(token.source, Source::Header(_) | Source::Field(..)) => {
            Some(token.clone())
        }
        Piece::Token(_) | Piece::Literal(_) | Piece::Optional(_) => None,
    };
    let has_shape = |token: &Token| {
        scheme.fields.iter().any(|rule| {
            rule.at.source == token.source && (rule.pattern.is_some() || rule.shape.is_some())
        })
    };
    let pairs =
        text.pieces.windows(2).filter_map(|pair| Some((value(&pair[0])?, value(&pair[1])?)));
    pairs
        .filter(|(first, _)| !has_shape(first))
        .map(|(first, second)| (first.written, second.written))
        .collect()
}

/// Every place whose value decides something, the time and whom it is for among them.
pub(super) fn deciding_sources(scheme: &Scheme) -> Vec<&Source> {
    let mut sources: Vec<&Source> =
        deciding(scheme).into_iter().map(|(_, token)| &token.source).collect();
    let templates = scheme.map.merchant.iter().chain(scheme.time.iter().map(|(time, _)| time));
    let templates = templates.chain(scheme.require.iter().map(|rule| &rule.value));
    let places = scheme.events.iter().map(|event| &event.places).chain([&scheme.map.places]);
    let others = places.flat_map(|p| [&p.event, &p.paid_at, &p.nonce]).flatten();
    sources.extend(templates.chain(others).flat_map(Template::tokens).map(|token| &token.source));
    sources
}

/// Tells every list of pairs which of its members decide something.
pub(super) fn mark_deciding(scheme: &mut Scheme) {
    let places: Vec<(usize, Vec<String>)> = deciding_sources(scheme)
        .into_iter()
        .filter_map(|source| match source {
            Source::Field(document, path) => Some((*document, path.clone())),
            _ => None,
        })
        .collect();
    for list in &mut scheme.pairs {
        let members = places.iter().filter_map(|(document, path)| list.member((*document, path)));
        let mut deciding: Vec<String> = members.collect();
        deciding.sort();
        deciding.dedup();
        list.deciding = deciding;
    }
}

/// The tokens that decide money, and what each decides.
fn deciding<'s>(scheme: &'s Scheme) -> Vec<(&'static str, &'s Token)> {
    let mut tokens: Vec<(&'static str, &'s Token)> = Vec::new();
    let all = &scheme.map.places;
    for (_, event) in facts(scheme) {
        let own = &event.places;
        let of = |name, template: Option<&'s Template>| template.map(|t| (name, t));
        let chosen = [
            of("the order", own.order.as_ref().or(all.order.as_ref())),
            of("the ref", own.provider_ref.as_ref().or(all.provider_ref.as_ref())),
            of("the amount", own.amount.as_ref().or(all.amount.as_ref())),
            of("the currency", own.currency.as_ref().or(all.currency.as_ref())),
        ];
        for (name, template) in chosen.into_iter().flatten() {
            tokens.extend(template.tokens().into_iter().map(|token| (name, token)));
        }
    }
    for event in &scheme.events {
        tokens.extend(event.when.iter().map(|condition| ("the status", &condition.value)));
    }
    tokens.retain(|(_, token)| {
        matches!(
            token.source,
            Source::Header(_) | Source::Field(..) | Source::Pairs(_) | Source::Text(_)
        )
    });
    let mut seen: Vec<&Source> = Vec::new();
    tokens.retain(|(_, token)| {
        let is_new = !seen.contains(&&token.source);
        seen.push(&token.source);
        is_new
    });
    tokens
}

/// How much of what a token stands for is left in the text.
fn covered(scheme: &Scheme, text: &Template, wanted: &Token, depth: usize) -> Keeps {
    if depth > 16 {
        return Keeps::Nothing;
    }
    let of = |token: &Token| {
        let filters = token.filters.iter().map(|filter| filter.keeps()).min();
        let keeps = filters.unwrap_or(Keeps::All);
        let nested = match &token.source {
            Source::Text(number) if token.source != wanted.source => {
                covered(scheme, &scheme.texts[*number], wanted, depth + 1)
            }
            _ if token_covers(scheme, token, wanted, depth) => Keeps::All,
            _ => Keeps::Nothing,
        };
        keeps.min(nested)
    };
    let mut best = Keeps::Nothing;
    for piece in &text.pieces {
        let here = match piece {
            Piece::Literal(_) => Keeps::Nothing,
            Piece::Token(token) => of(token),
            // With others beside it, it is left out when one of those is empty.
            Piece::Optional(inside) => {
                let tokens = Template { pieces: inside.clone() };
                match tokens.tokens().as_slice() {
                    [only] => of(only),
                    _ => Keeps::Nothing,
                }
            }
        };
        best = best.max(here);
    }
    best
}

fn token_covers(scheme: &Scheme, token: &Token, wanted: &Token, depth: usize) -> bool {
    if token.source == wanted.source {
        return true;
    }
    let of_wrapped = |document: usize| {
        // A wrapped document is covered where all it is unwrapped from is.
        let Some(rule) = document.checked_sub(ITEM + 1).and_then(|at| scheme.documents.get(at))
        else {
            return false;
        };
        let from = rule.from.tokens();
        !from.is_empty() && from.iter().all(|inner| token_covers(scheme, token, inner, depth + 1))
    };
    match (&token.source, &wanted.source) {
        (Source::Body, Source::Field(BODY | ITEM, _)) => scheme.content != Content::Query,
        (Source::Query | Source::Url, Source::Field(QUERY, _)) => true,
        (Source::Pairs(number), Source::Field(document, path)) => {
            scheme.pairs[*number].covers((*document, path)) || of_wrapped(*document)
        }
        (Source::Text(number), _) => {
            covered(scheme, &scheme.texts[*number], wanted, depth + 1) > Keeps::Nothing
        }
        // A part of what stands in the text as a whole.
        (Source::Field(outer, path), Source::Field(inner, whole)) if outer == inner => {
            whole.starts_with(path)
        }
        (_, Source::Field(document, _)) => of_wrapped(*document),
        _ => false,
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
    for (at, sign) in scheme.signs.iter().enumerate() {
        if sign.algorithm == super::crypt::Algorithm::None && at != last {
            let problem = format!("[[sign]] {} takes anything, so it must be the last", sign.name);
            problems.push(Wrong { span: sign.span.clone(), problem });
        }
        if scheme.signs[..at].iter().any(|other| other.name == sign.name) {
            let problem = format!("two [[sign]] are named {}; give each its own name", sign.name);
            problems.push(Wrong { span: sign.span.clone(), problem });
        }
    }
}

/// What deviates from the contract must be listed, and what is listed must deviate.
fn exceptions(scheme: &Scheme, common: &Common, problems: &mut Vec<Wrong>) {
    let needed = needed(scheme, common.time.kind);
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
pub(super) fn needed(scheme: &Scheme, time: TimeKind) -> Vec<(&'static str, String)> {
    let mut needed = Vec::new();
    let mut add = |name, why: &str| needed.push((name, why.to_owned()));
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
    let weakest = weakest(scheme);
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

/// What is left of each deciding value in each text that is signed.
fn weakest(scheme: &Scheme) -> Vec<Keeps> {
    if scheme.confirm == Confirm::Always {
        return Vec::new();
    }
    let signs = scheme.signs.iter().filter(|sign| sign.algorithm.signs_the_text());
    let of = |sign: &SignRule| -> Vec<Keeps> {
        let deciding = deciding(scheme).into_iter();
        deciding.map(|(_, token)| covered(scheme, &sign.text, token, 0)).collect()
    };
    signs.flat_map(of).collect()
}

fn is_time_signed(scheme: &Scheme) -> bool {
    let Some((time, _)) = &scheme.time else { return true };
    let mut signs = scheme.signs.iter().filter(|sign| sign.algorithm.signs_the_text());
    signs.all(|sign| {
        let mut tokens = time.tokens().into_iter();
        tokens.all(|token| covered(scheme, &sign.text, token, 0) > Keeps::Nothing)
    })
}

/// Whether a template has a token of this source.
pub(super) fn mentions(template: &Template, source: &Source) -> bool {
    template.tokens().iter().any(|token| token.source == *source)
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
