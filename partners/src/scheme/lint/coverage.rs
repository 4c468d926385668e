//! Owns the question what a signature covers: whether a change of what decides would change the text that is signed.
//! Everything in a notice that a fact is made of decides; only constants and literals do not.

use super::{TimeAndNonce, facts};
use crate::profile::file::Wrong;
use crate::profile::{NonceRule, TimeKind};
use crate::scheme::filter::Keeps;
use crate::scheme::template::{Piece, Source, Template, Token};
use crate::scheme::unique::{lists, tells_end};
use crate::scheme::{
    BODY, Confirm, Content, DocumentContent, ITEM, Outcome, QUERY, Scheme, SignRule,
};

/// What an unsigned value can be left to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resort {
    /// A query's answer says it, too.
    Query,
    /// No answer says it; the text says what to do.
    None(&'static str),
}

/// A token whose value decides something.
struct Deciding<'s> {
    what: &'static str,
    token: &'s Token,
    resort: Resort,
}

/// What decides is signed, or confirmed by a query that says it; values that stand side by side can be told apart.
pub(super) fn coverage(scheme: &Scheme, with: TimeAndNonce, problems: &mut Vec<Wrong>) {
    for sign in &scheme.signs {
        let mut wrong = |problem: String| problems.push(Wrong { span: sign.span.clone(), problem });
        let signs_nothing = !sign.algorithm.signs_the_text();
        if signs_nothing && scheme.confirm == Confirm::Never {
            wrong(format!(
                "[[sign]] {} signs nothing of the notice; write confirm = \"when_unsigned\" or \"always\", so that a query confirms it",
                sign.name
            ));
            continue;
        }
        let is_confirmed = scheme.confirm == Confirm::Always || signs_nothing;
        for Deciding { what, token, resort } in deciding(scheme, with) {
            if (is_confirmed && resort == Resort::Query) || covered_by(scheme, sign, token) {
                continue;
            }
            let mend = match resort {
                Resort::Query => {
                    ": anybody could change it; map a signed place, or write confirm = \"always\", so that a query confirms it"
                }
                Resort::None(mend) => mend,
            };
            let (name, written) = (&sign.name, &token.written);
            wrong(format!("[[sign]] {name} does not cover {written}, which decides {what}{mend}"));
        }
        if !signs_nothing && needs_one_reading(scheme, with) {
            one_reading(scheme, sign, &mut wrong);
        }
    }
}

/// Whether a signed text must be read in one way: some of what it says counts without a query.
pub(in crate::scheme) fn needs_one_reading(scheme: &Scheme, with: TimeAndNonce) -> bool {
    scheme.confirm != Confirm::Always || {
        let deciding = deciding(scheme, with);
        let alone: Vec<_> = deciding.iter().filter(|one| one.resort != Resort::Query).collect();
        let is_signed = |one: &&Deciding<'_>| {
            scheme.signs.iter().all(|sign| covered_by(scheme, sign, one.token))
        };
        !alone.is_empty() && alone.iter().all(is_signed)
    }
}

/// Values of a signed text can be told apart, and so can the members of its lists.
fn one_reading(scheme: &Scheme, sign: &SignRule, wrong: &mut impl FnMut(String)) {
    for (first, second) in side_by_side(scheme, &sign.text) {
        wrong(format!(
            "[[sign]] {}: nothing stands between {first} and {second}, so text could slide from one into the other; say in a \
             [[field]] what {first} looks like, with a pattern of one length such as [0-9]{{13}}, or write confirm = \"always\"",
            sign.name
        ));
    }
    for number in lists(scheme, &sign.text, 0) {
        if !scheme.pairs[number].tells_names() {
            wrong(format!(
                "[[sign]] {}: the text of its list does not tell which value is whose, so anybody could send one under another's name; \
                 list its keys (and keep the empty ones, with a separator), or write confirm = \"always\"",
                sign.name
            ));
        }
    }
}

/// Values of a text that stand side by side and whose shapes don't say where the first ends.
fn side_by_side(scheme: &Scheme, text: &Template) -> Vec<(String, String)> {
    let value = |piece: &Piece| match piece {
        Piece::Token(token) => Some(token.clone()),
        Piece::Literal(_) | Piece::Optional(_) => None,
    };
    let is_text = |token: &Token| {
        matches!(
            token.source,
            Source::Header(_)
                | Source::Field(..)
                | Source::Body
                | Source::Url
                | Source::Path
                | Source::Query
                | Source::Pairs(_)
        )
    };
    let pairs =
        text.pieces.windows(2).filter_map(|pair| Some((value(&pair[0])?, value(&pair[1])?)));
    pairs
        .filter(|(first, second)| is_text(first) && is_text(second))
        .filter(|(first, second)| !tells_end(scheme, first, second))
        .map(|(first, second)| (first.written, second.written))
        .collect()
}

/// Every place whose value decides something, the time and whom it is for among them.
pub(in crate::scheme) fn deciding_sources(scheme: &Scheme) -> Vec<&Source> {
    let places = scheme.events.iter().map(|event| &event.places).chain([&scheme.map.places]);
    let places = places.flat_map(|place| {
        let money = [&place.order, &place.provider_ref, &place.amount, &place.currency];
        money.into_iter().chain([&place.event, &place.paid_at, &place.nonce]).flatten()
    });
    let time = scheme.time.iter().map(|(time, _)| time);
    let required = scheme.require.iter().flat_map(|rule| [&rule.value, &rule.equals]);
    let templates = places.chain(&scheme.map.merchant).chain(time).chain(required);
    let conditions = scheme.events.iter().flat_map(|event| &event.when);
    let tokens = templates.flat_map(Template::tokens);
    tokens.chain(conditions.map(|condition| &condition.value)).map(|token| &token.source).collect()
}

/// Whether a document is names and values without levels.
fn is_flat(scheme: &Scheme, document: usize) -> bool {
    match document {
        BODY => scheme.content != Content::Json,
        QUERY => true,
        // An item of an array is JSON.
        ITEM => false,
        own => scheme.documents[own - ITEM - 1].content != DocumentContent::Json,
    }
}

/// Tells every list of pairs what its document is, and which of its members decide something.
pub(in crate::scheme) fn complete_lists(scheme: &mut Scheme) {
    let places: Vec<(usize, Vec<String>)> = deciding_sources(scheme)
        .into_iter()
        .filter_map(|source| match source {
            Source::Field(document, path) => Some((*document, path.clone())),
            _ => None,
        })
        .collect();
    let flat: Vec<bool> = scheme.pairs.iter().map(|list| is_flat(scheme, list.of.0)).collect();
    for (list, is_flat) in scheme.pairs.iter_mut().zip(flat) {
        list.is_flat = is_flat;
        let members = places.iter().filter_map(|(document, path)| list.member((*document, path)));
        let mut deciding: Vec<String> = members.collect();
        deciding.sort();
        deciding.dedup();
        list.deciding = deciding;
    }
}

/// The tokens that decide something, and what each decides.
fn deciding(scheme: &Scheme, with: TimeAndNonce) -> Vec<Deciding<'_>> {
    const EVENT: Resort = Resort::None(
        ": anybody could make several refunds of one, and no query says it; map a signed place, or leave event out (then the \
         amount is all that went back so far)",
    );
    const PAID_AT: Resort = Resort::None(
        ": anybody could change it, and no query says it; map a signed place, or leave paid_at out",
    );
    const TIME: Resort = Resort::None(
        " with time.kind = \"event\": anybody could change it, and no query says it; read a signed time, or write kind = \
         \"none\"",
    );
    let mut found: Vec<Deciding<'_>> = Vec::new();
    let all = &scheme.map.places;
    for (_, event) in facts(scheme) {
        let own = &event.places;
        for (what, place, resort) in [
            ("the order", own.order.as_ref().or(all.order.as_ref()), Resort::Query),
            ("the ref", own.provider_ref.as_ref().or(all.provider_ref.as_ref()), Resort::Query),
            ("the amount", own.amount.as_ref().or(all.amount.as_ref()), Resort::Query),
            ("the currency", own.currency.as_ref().or(all.currency.as_ref()), Resort::Query),
            ("which event it is", own.event.as_ref().or(all.event.as_ref()), EVENT),
            ("when it was paid", own.paid_at.as_ref().or(all.paid_at.as_ref()), PAID_AT),
        ] {
            let tokens = place.into_iter().flat_map(Template::tokens);
            found.extend(tokens.map(|token| Deciding { what, token, resort }));
        }
    }
    let mut also = |what, token, resort| found.push(Deciding { what, token, resort });
    for condition in scheme.events.iter().flat_map(|event| &event.when) {
        also("the status", &condition.value, Resort::Query);
    }
    for template in scheme.require.iter().flat_map(|rule| [&rule.value, &rule.equals]) {
        for token in template.tokens() {
            also("whether it is ours", token, Resort::Query);
        }
    }
    if with.nonce != NonceRule::Unused {
        let places = scheme.events.iter().map(|event| &event.places).chain([all]);
        for token in places.filter_map(|place| place.nonce.as_ref()).flat_map(Template::tokens) {
            also("the nonce", token, Resort::Query);
        }
    }
    // The time of an event stands for the time of the payment where nothing else says it.
    let pays = |(_, event): (usize, &crate::scheme::EventRule)| {
        event.outcome == Outcome::Status(payfold_schemas::ipn::Status::Success)
    };
    if with.time == TimeKind::Event && facts(scheme).any(pays) {
        for token in scheme.time.iter().flat_map(|(time, _)| time.tokens()) {
            also("when it was paid", token, TIME);
        }
    }
    let mut seen: Vec<(&Source, Resort)> = Vec::new();
    found.retain(|one| {
        let key = (&one.token.source, one.resort);
        let is_new = !seen.contains(&key);
        seen.push(key);
        is_new
    });
    found
}

/// Whether a change of a value would change what this `[[sign]]` signs.
pub(super) fn covered_by(scheme: &Scheme, sign: &SignRule, token: &Token) -> bool {
    covered(scheme, &sign.text, &token.source, 0) > Keeps::Nothing
}

/// How much of a value is left in a text.
fn covered(scheme: &Scheme, text: &Template, wanted: &Source, depth: usize) -> Keeps {
    if depth > 16 {
        return Keeps::Nothing;
    }
    let direct = stands_in(scheme, text, wanted, depth);
    if direct == Keeps::All {
        return direct;
    }
    let all_of = |templates: Vec<&Token>| {
        let parts = templates.into_iter();
        parts.map(|part| covered(scheme, text, &part.source, depth + 1)).min()
    };
    let by_parts = match wanted {
        // Nobody who sends a notice chooses them.
        Source::Constant(_) | Source::Merchant | Source::Secret | Source::Value(_) => Keeps::All,
        Source::Method if scheme.methods.len() == 1 => Keeps::All,
        Source::Text(number) => all_of(scheme.texts[*number].tokens()).unwrap_or(Keeps::All),
        Source::Pairs(number) => {
            let (document, path) = scheme.pairs[*number].of.clone();
            covered(scheme, text, &Source::Field(document, path), depth + 1)
        }
        // An item is covered where the array is that it stands in.
        Source::Field(ITEM, _) => scheme.items.as_ref().map_or(Keeps::Nothing, |rule| {
            let (document, path) = rule.of.clone();
            covered(scheme, text, &Source::Field(document, path), depth + 1)
        }),
        // A wrapped document is covered where all it is unwrapped from is.
        Source::Field(document, _) if *document > ITEM => {
            let rule = &scheme.documents[*document - ITEM - 1];
            all_of(rule.from.tokens()).unwrap_or(Keeps::All)
        }
        Source::Body
        | Source::Method
        | Source::Path
        | Source::Query
        | Source::Url
        | Source::Header(_)
        | Source::Field(..) => Keeps::Nothing,
    };
    direct.max(by_parts)
}

/// How much of a value is left where it stands in a text, by itself or inside something larger.
fn stands_in(scheme: &Scheme, text: &Template, wanted: &Source, depth: usize) -> Keeps {
    let of = |token: &Token| {
        let filters = token.filters.iter().map(|filter| filter.keeps()).min();
        let inside = match &token.source {
            Source::Text(number) if token.source != *wanted => {
                covered(scheme, &scheme.texts[*number], wanted, depth + 1)
            }
            source if holds(scheme, source, wanted) => Keeps::All,
            _ => Keeps::Nothing,
        };
        filters.unwrap_or(Keeps::All).min(inside)
    };
    let of_piece = |piece: &Piece| match piece {
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
    text.pieces.iter().map(of_piece).max().unwrap_or(Keeps::Nothing)
}

/// Whether what stands at `outer` holds the whole of what stands at `wanted`.
fn holds(scheme: &Scheme, outer: &Source, wanted: &Source) -> bool {
    match (outer, wanted) {
        (Source::Body, Source::Field(BODY, _)) => scheme.content != Content::Query,
        (Source::Query | Source::Url, Source::Field(QUERY, _))
        | (Source::Url, Source::Path | Source::Query) => true,
        (Source::Pairs(number), Source::Field(document, path)) => {
            scheme.pairs[*number].covers((*document, path))
        }
        // Of a form `a` and `a.b` are two names.
        (Source::Field(outer, path), Source::Field(document, whole)) if outer == document => {
            let is_inside = whole.starts_with(path) && !is_flat(scheme, *document);
            whole == path || is_inside
        }
        _ => outer == wanted,
    }
}

/// What is left of each deciding value in each text that is signed.
pub(super) fn weakest(scheme: &Scheme, with: TimeAndNonce) -> Vec<Keeps> {
    let signs = scheme.signs.iter().filter(|sign| sign.algorithm.signs_the_text());
    let of = |sign: &SignRule| -> Vec<Keeps> {
        let counts =
            |one: &Deciding<'_>| scheme.confirm != Confirm::Always || one.resort != Resort::Query;
        let deciding = deciding(scheme, with).into_iter().filter(counts);
        deciding.map(|one| covered(scheme, &sign.text, &one.token.source, 0)).collect()
    };
    signs.flat_map(of).collect()
}

pub(super) fn is_time_signed(scheme: &Scheme) -> bool {
    let Some((time, _)) = &scheme.time else { return true };
    let mut signs = scheme.signs.iter().filter(|sign| sign.algorithm.signs_the_text());
    signs.all(|sign| time.tokens().into_iter().all(|token| covered_by(scheme, sign, token)))
}
