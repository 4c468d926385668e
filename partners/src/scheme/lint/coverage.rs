//! Owns the question what a signature covers: whether a change of what decides would change the text that is signed.

use super::facts;
use crate::profile::file::Wrong;
use crate::scheme::filter::Keeps;
use crate::scheme::template::{Piece, Source, Template, Token};
use crate::scheme::unique::{lists, tells_end};
use crate::scheme::{BODY, Confirm, Content, DocumentContent, ITEM, QUERY, Scheme, SignRule};

/// What decides money is signed, or confirmed; values that stand side by side can be told apart.
pub(super) fn coverage(scheme: &Scheme, problems: &mut Vec<Wrong>) {
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
    let mut sources: Vec<&Source> =
        deciding(scheme).into_iter().map(|(_, token)| &token.source).collect();
    let templates = scheme.map.merchant.iter().chain(scheme.time.iter().map(|(time, _)| time));
    let templates = templates.chain(scheme.require.iter().map(|rule| &rule.value));
    let places = scheme.events.iter().map(|event| &event.places).chain([&scheme.map.places]);
    let others = places.flat_map(|p| [&p.event, &p.paid_at, &p.nonce]).flatten();
    sources.extend(templates.chain(others).flat_map(Template::tokens).map(|token| &token.source));
    sources
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

/// What is left of each deciding value in each text that is signed.
pub(super) fn weakest(scheme: &Scheme) -> Vec<Keeps> {
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

pub(super) fn is_time_signed(scheme: &Scheme) -> bool {
    let Some((time, _)) = &scheme.time else { return true };
    let mut signs = scheme.signs.iter().filter(|sign| sign.algorithm.signs_the_text());
    signs.all(|sign| {
        let mut tokens = time.tokens().into_iter();
        tokens.all(|token| covered(scheme, &sign.text, token, 0) > Keeps::Nothing)
    })
}
