//! Owns the rules on what a signature covers. A signature covers a value if changing the value
//! changes the signed text. Every value that a fact is made of must be covered; constants and
//! literals need not be.

use crate::profile::mistake::ProfileMistake;
use crate::scheme::ambiguity::{pair_lists, shapes_separate};
use crate::scheme::compiled::Scheme;
use crate::scheme::deciding::{DecidingToken, UnsignedFallback, deciding_sources, deciding_tokens};
use crate::scheme::filter::SignatureCoverage;
use crate::scheme::lint::facts::TimeAndNonce;
use crate::scheme::rules::{
    BODY, ConfirmPolicy, DocumentContent, ITEM, NoticeFormat, QUERY, SignRule,
};
use crate::scheme::template::{Template, TemplatePiece, TemplateToken, TokenSource};

/// Checks that every deciding value is signed or confirmed by a query. Also checks that adjacent
/// values in the signed text can't be confused.
pub(super) fn check_coverage(
    scheme: &Scheme,
    with: TimeAndNonce,
    problems: &mut Vec<ProfileMistake>,
) {
    for sign in &scheme.signs {
        let mut wrong =
            |problem: String| problems.push(ProfileMistake { span: sign.span.clone(), problem });
        let signs_nothing = !sign.algorithm.signs_the_text();
        if signs_nothing && scheme.confirm == ConfirmPolicy::Never {
            wrong(format!(
                "[[sign]] {} signs nothing of the notice; write confirm = \"when_unsigned\" or \
                 \"always\", so that a query confirms it",
                sign.name
            ));
            continue;
        }
        let is_confirmed = scheme.confirms(sign);
        for DecidingToken { what, token, resort } in deciding_tokens(scheme, with) {
            if (is_confirmed && resort == UnsignedFallback::Query)
                || covered_by(scheme, sign, token)
            {
                continue;
            }
            let mend = match resort {
                UnsignedFallback::Query => {
                    ": anybody could change it; map a signed place, or write confirm = \"always\", \
                     so that a query confirms it"
                }
                UnsignedFallback::None(mend) => mend,
            };
            let (name, written) = (&sign.name, &token.written);
            wrong(format!("[[sign]] {name} does not cover {written}, which decides {what}{mend}"));
        }
        if !signs_nothing && needs_one_reading(scheme, with) {
            check_single_reading(scheme, sign, &mut wrong);
        }
    }
}

/// Whether a signed text must have one reading only: some value in it counts without a query.
pub(in crate::scheme) fn needs_one_reading(scheme: &Scheme, with: TimeAndNonce) -> bool {
    scheme.confirm != ConfirmPolicy::Always || {
        let deciding = deciding_tokens(scheme, with);
        let alone: Vec<_> =
            deciding.iter().filter(|one| one.resort != UnsignedFallback::Query).collect();
        let is_signed = |one: &&DecidingToken<'_>| {
            scheme.signs.iter().all(|sign| covered_by(scheme, sign, one.token))
        };
        !alone.is_empty() && alone.iter().all(is_signed)
    }
}

/// Checks that a signed text shows where each of its values ends, and that each value of its lists
/// is bound to a name.
fn check_single_reading(scheme: &Scheme, sign: &SignRule, wrong: &mut impl FnMut(String)) {
    for (first, second) in adjacent_values(scheme, &sign.text) {
        wrong(format!(
            "[[sign]] {}: nothing separates {first} and {second}, so text could move from one into \
             the other; say in a [[field]] what {first} looks like, with a pattern of one length \
             such as [0-9]{{13}}, or write confirm = \"always\"",
            sign.name
        ));
    }
    for number in pair_lists(scheme, &sign.text, 0) {
        if !scheme.pairs[number].binds_names() {
            wrong(format!(
                "[[sign]] {}: the text of its list does not bind values to names, so a value could \
                 be sent under another name; list its keys (and keep the empty ones, with a \
                 separator), or write confirm = \"always\"",
                sign.name
            ));
        }
    }
}

/// Pairs of adjacent values with shapes that don't show where the first value ends.
fn adjacent_values(scheme: &Scheme, text: &Template) -> Vec<(String, String)> {
    let value = |piece: &TemplatePiece| match piece {
        TemplatePiece::Token(token) => Some(token.clone()),
        TemplatePiece::Literal(_) | TemplatePiece::Optional(_) => None,
    };
    let is_text = |token: &TemplateToken| {
        matches!(
            token.source,
            TokenSource::Header(_)
                | TokenSource::Field(..)
                | TokenSource::Body
                | TokenSource::Url
                | TokenSource::Path
                | TokenSource::Query
                | TokenSource::Pairs(_)
        )
    };
    let pairs =
        text.pieces.windows(2).filter_map(|pair| Some((value(&pair[0])?, value(&pair[1])?)));
    pairs
        .filter(|(first, second)| is_text(first) && is_text(second))
        .filter(|(first, second)| !shapes_separate(scheme, first, second))
        .map(|(first, second)| (first.written, second.written))
        .collect()
}

/// Whether a document is a flat list of names and values.
fn is_flat(scheme: &Scheme, document: usize) -> bool {
    match document {
        BODY => scheme.content != NoticeFormat::Json,
        QUERY => true,
        // An item of an array is JSON.
        ITEM => false,
        own => scheme.documents[own - ITEM - 1].content != DocumentContent::Json,
    }
}

/// Sets in every list of pairs whether its document is flat, and which of its members decide about
/// money.
pub(in crate::scheme) fn complete_lists(scheme: &mut Scheme) {
    let places: Vec<(usize, Vec<String>)> = deciding_sources(scheme)
        .into_iter()
        .filter_map(|source| match source {
            TokenSource::Field(document, path) => Some((*document, path.clone())),
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

/// Sets in every `[[sign]]` whether it covers all that decides, and whether it covers the time.
pub(in crate::scheme) fn complete_signs(scheme: &mut Scheme) {
    let covers_all = |sign: &SignRule| {
        sign.algorithm.signs_the_text()
            && deciding_sources(scheme).into_iter().all(|source| covers(scheme, sign, source))
    };
    let covers_time = |sign: &SignRule| sign.algorithm.signs_the_text() && signs_time(scheme, sign);
    let covering = |sign: &SignRule| (covers_all(sign), covers_time(sign));
    let covering: Vec<_> = scheme.signs.iter().map(covering).collect();
    for (sign, (covers_all, covers_time)) in scheme.signs.iter_mut().zip(covering) {
        (sign.covers_all, sign.covers_time) = (covers_all, covers_time);
    }
}

/// Whether changing this value would change the text that this `[[sign]]` signs.
pub(super) fn covered_by(scheme: &Scheme, sign: &SignRule, token: &TemplateToken) -> bool {
    covers(scheme, sign, &token.source)
}

fn covers(scheme: &Scheme, sign: &SignRule, source: &TokenSource) -> bool {
    coverage_in(scheme, &sign.text, source, 0) > SignatureCoverage::Nothing
}

/// How well a signature over `text` protects a value.
fn coverage_in(
    scheme: &Scheme,
    text: &Template,
    wanted: &TokenSource,
    depth: usize,
) -> SignatureCoverage {
    if depth > 16 {
        return SignatureCoverage::Nothing;
    }
    let direct = coverage_of_occurrence(scheme, text, wanted, depth);
    if direct == SignatureCoverage::All {
        return direct;
    }
    let all_of = |templates: Vec<&TemplateToken>| {
        let parts = templates.into_iter();
        parts.map(|part| coverage_in(scheme, text, &part.source, depth + 1)).min()
    };
    let by_parts = match wanted {
        // The sender of a notice does not choose these.
        TokenSource::Constant(_)
        | TokenSource::Merchant
        | TokenSource::Secret
        | TokenSource::Value(_) => SignatureCoverage::All,
        TokenSource::Method if scheme.methods.len() == 1 => SignatureCoverage::All,
        TokenSource::Text(number) => {
            all_of(scheme.texts[*number].tokens()).unwrap_or(SignatureCoverage::All)
        }
        TokenSource::Pairs(number) => {
            let (document, path) = scheme.pairs[*number].of.clone();
            coverage_in(scheme, text, &TokenSource::Field(document, path), depth + 1)
        }
        // An item is covered if its array is.
        TokenSource::Field(ITEM, _) => {
            scheme.items.as_ref().map_or(SignatureCoverage::Nothing, |rule| {
                let (document, path) = rule.of.clone();
                coverage_in(scheme, text, &TokenSource::Field(document, path), depth + 1)
            })
        }
        // A wrapped document is covered if everything it is unwrapped from is.
        TokenSource::Field(document, _) if *document > ITEM => {
            let rule = &scheme.documents[*document - ITEM - 1];
            all_of(rule.from.tokens()).unwrap_or(SignatureCoverage::All)
        }
        TokenSource::Body
        | TokenSource::Method
        | TokenSource::Path
        | TokenSource::Query
        | TokenSource::Url
        | TokenSource::Header(_)
        | TokenSource::Field(..) => SignatureCoverage::Nothing,
    };
    direct.max(by_parts)
}

/// How well a signature protects a value that is in the text itself, or inside a larger value of
/// it.
fn coverage_of_occurrence(
    scheme: &Scheme,
    text: &Template,
    wanted: &TokenSource,
    depth: usize,
) -> SignatureCoverage {
    let of = |token: &TemplateToken| {
        let filters = token.filters.iter().map(|filter| filter.keeps()).min();
        let inside = match &token.source {
            TokenSource::Text(number) if token.source != *wanted => {
                coverage_in(scheme, &scheme.texts[*number], wanted, depth + 1)
            }
            source if contains(scheme, source, wanted) => SignatureCoverage::All,
            _ => SignatureCoverage::Nothing,
        };
        filters.unwrap_or(SignatureCoverage::All).min(inside)
    };
    let of_piece = |piece: &TemplatePiece| match piece {
        TemplatePiece::Literal(_) => SignatureCoverage::Nothing,
        TemplatePiece::Token(token) => of(token),
        // An optional piece with several tokens is left out if one of them is empty, so it covers
        // no token.
        TemplatePiece::Optional(inside) => {
            let tokens = Template { pieces: inside.clone() };
            match tokens.tokens().as_slice() {
                [only] => of(only),
                _ => SignatureCoverage::Nothing,
            }
        }
    };
    text.pieces.iter().map(of_piece).max().unwrap_or(SignatureCoverage::Nothing)
}

/// Whether the value of `outer` contains the whole value of `wanted`.
fn contains(scheme: &Scheme, outer: &TokenSource, wanted: &TokenSource) -> bool {
    match (outer, wanted) {
        (TokenSource::Body, TokenSource::Field(BODY, _)) => scheme.content != NoticeFormat::Query,
        (TokenSource::Query | TokenSource::Url, TokenSource::Field(QUERY, _))
        | (TokenSource::Url, TokenSource::Path | TokenSource::Query) => true,
        (TokenSource::Pairs(number), TokenSource::Field(document, path)) => {
            scheme.pairs[*number].covers((*document, path))
        }
        // In a form `a` and `a.b` are two names; in JSON `a` contains `a.b`.
        (TokenSource::Field(outer, path), TokenSource::Field(document, whole))
            if outer == document =>
        {
            let is_inside = whole.starts_with(path) && !is_flat(scheme, *document);
            whole == path || is_inside
        }
        _ => outer == wanted,
    }
}

/// How well each signed text protects each deciding value.
pub(super) fn deciding_coverages(scheme: &Scheme, with: TimeAndNonce) -> Vec<SignatureCoverage> {
    let signs = scheme.signs.iter().filter(|sign| sign.algorithm.signs_the_text());
    let of = |sign: &SignRule| -> Vec<SignatureCoverage> {
        let counts = |one: &DecidingToken<'_>| {
            scheme.confirm != ConfirmPolicy::Always || one.resort != UnsignedFallback::Query
        };
        let deciding = deciding_tokens(scheme, with).into_iter().filter(counts);
        deciding.map(|one| coverage_in(scheme, &sign.text, &one.token.source, 0)).collect()
    };
    signs.flat_map(of).collect()
}

pub(super) fn is_time_signed(scheme: &Scheme) -> bool {
    let mut signs = scheme.signs.iter().filter(|sign| sign.algorithm.signs_the_text());
    signs.all(|sign| signs_time(scheme, sign))
}

/// Whether this `[[sign]]` signs the notice's own time, if the notice has one.
fn signs_time(scheme: &Scheme, sign: &SignRule) -> bool {
    let mut tokens = scheme.time.iter().flat_map(|(time, _)| time.tokens());
    tokens.all(|token| covered_by(scheme, sign, token))
}
