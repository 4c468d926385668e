//! Inverts templates: finds the values that tokens must have so that a template renders a text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;

use crate::scheme::call::rule::{NONCE, NOW_MS, NOW_S};
use crate::scheme::filter::Filter;
use crate::scheme::template::{Template, TemplatePiece, TemplateToken, TokenSource};
use crate::scheme::template_values::TemplateInputs;

/// A token, and the text that it renders, filters included.
pub(super) type RenderedToken<'t> = (&'t TemplateToken, String);

/// Splits a text that a template rendered into the texts of its tokens. A token that is left out
/// with its `[…]` is missing, and so is one with a value of the account or the profile, which must
/// stand there. `texts` are the texts that the template may name. `None` if the template does not
/// render this text.
pub(super) fn split<'t>(
    template: &'t Template,
    texts: &'t [Template],
    inputs: &TemplateInputs<'_>,
    text: &str,
) -> Option<Vec<RenderedToken<'t>>> {
    match template.pieces.as_slice() {
        [] => return text.is_empty().then(Vec::new),
        [TemplatePiece::Literal(literal)] => return (literal == text).then(Vec::new),
        [TemplatePiece::Token(token)] if token.is_place() => {
            return Some(vec![(token, text.to_owned())]);
        }
        _ => {}
    }
    let mut pattern = PatternWriter { texts, inputs, pattern: "(?s)^".to_owned(), tokens: vec![] };
    pattern.write(&template.pieces);
    pattern.pattern.push('$');
    let captures = Regex::new(&pattern.pattern).ok()?.captures(text)?;
    let found = captures.iter().skip(1).zip(pattern.tokens);
    Some(found.filter_map(|(group, token)| Some((token, group?.as_str().to_owned()))).collect())
}

/// Writes the pattern of the texts that a template renders, with a group for each token.
struct PatternWriter<'t, 'i> {
    texts: &'t [Template],
    inputs: &'i TemplateInputs<'i>,
    pattern: String,
    tokens: Vec<&'t TemplateToken>,
}

impl<'t> PatternWriter<'t, '_> {
    fn write(&mut self, pieces: &'t [TemplatePiece]) {
        for piece in pieces {
            match piece {
                TemplatePiece::Literal(literal) => self.pattern.push_str(&regex::escape(literal)),
                TemplatePiece::Token(token) => self.write_token(token),
                TemplatePiece::Optional(pieces) => {
                    self.pattern.push_str("(?:");
                    self.write(pieces);
                    self.pattern.push_str(")?");
                }
            }
        }
    }

    fn write_token(&mut self, token: &'t TemplateToken) {
        let known = match &token.source {
            TokenSource::Text(number) if token.filters.is_empty() => {
                return self.write(&self.texts[*number].pieces);
            }
            TokenSource::Merchant => Some(self.inputs.merchant),
            TokenSource::Constant(name) => self.inputs.constants.get(name).map(String::as_str),
            _ => None,
        };
        if let Some(known) = known {
            let known = apply(&token.filters, known);
            self.pattern.push_str(&regex::escape(&String::from_utf8_lossy(&known)));
            return;
        }
        self.tokens.push(token);
        // A mark beside such a value may be part of another one, but not of this.
        self.pattern.push_str(match token.source {
            TokenSource::Value(NOW_S | NOW_MS) if keeps_digits(&token.filters) => "([0-9]*)",
            TokenSource::Value(NONCE) if keeps_digits(&token.filters) => "([0-9a-f]*)",
            _ => "(.*?)",
        });
    }
}

fn keeps_digits(filters: &[Filter]) -> bool {
    filters.iter().all(|filter| matches!(filter, Filter::Json | Filter::Url))
}

/// The values that these filters change into `text`, the most likely first. Empty if a filter does
/// not let its value be found.
pub(super) fn unfiltered(filters: &[Filter], text: &str) -> Vec<String> {
    let mut values = vec![text.to_owned()];
    for filter in filters.iter().rev() {
        values = values.iter().flat_map(|value| before(filter, value)).collect();
    }
    values.retain(|value| apply(filters, value) == text.as_bytes());
    values
}

/// Whether the value that these filters change into a text is known from the text.
pub(super) fn are_exact(filters: &[Filter]) -> bool {
    let is_lossy = |filter: &Filter| {
        matches!(
            filter,
            Filter::Upper | Filter::Lower | Filter::Trim | Filter::Ascii | Filter::First(_)
        )
    };
    !filters.iter().any(is_lossy)
}

/// What the filters make of a value.
pub(super) fn apply(filters: &[Filter], value: &str) -> Vec<u8> {
    filters.iter().fold(value.as_bytes().to_vec(), |value, filter| filter.apply(value))
}

/// Values that the filter may have changed into this one.
fn before(filter: &Filter, text: &str) -> Vec<String> {
    let one = |value: Option<String>| value.into_iter().collect();
    match filter {
        Filter::Raw
        | Filter::Upper
        | Filter::Lower
        | Filter::Trim
        | Filter::Ascii
        | Filter::First(_)
        | Filter::Uuid => vec![text.to_owned()],
        Filter::Json => one(serde_json::from_str(&format!("\"{text}\"")).ok()),
        Filter::Url => {
            let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
            one(decoded.ok().map(|decoded| decoded.into_owned()))
        }
        Filter::Base64 => {
            one(STANDARD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok()))
        }
        Filter::Reverse => vec![text.chars().rev().collect()],
        Filter::Compact => {
            let hyphened = String::from_utf8(Filter::Uuid.apply(text.into())).unwrap_or_default();
            let mut values = vec![hyphened, text.to_owned()];
            values.retain(|value| !value.is_empty());
            values
        }
        Filter::After(mark) => vec![format!("{mark}{text}")],
        Filter::Before(mark) => vec![format!("{text}{mark}")],
        Filter::Crc32
        | Filter::Md5Hex
        | Filter::Sha1Hex
        | Filter::Sha256Hex
        | Filter::Sha256Base64
        | Filter::Sha512Hex
        | Filter::UuidTime(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::scheme::template::TemplateNames;

    fn template(text: &str) -> Template {
        let values = ["order", "now", "now_s", "now_ms", "ref"].map(str::to_owned).into();
        let names = TemplateNames { values, ..TemplateNames::default() };
        Template::parse(text, &names).unwrap()
    }

    #[test]
    fn a_rendered_text_is_split_into_its_tokens() {
        for (written, text, expected) in [
            ("{order}", "o-1", Some("{order}=o-1")),
            ("fixed", "fixed", Some("")),
            ("fixed", "other", None),
            ("", "", Some("")),
            ("", "x", None),
            ("a={order}&b={ref}", "a=1&b=2", Some("{order}=1 {ref}=2")),
            ("a={order}&b={ref}", "a=1&c=2", None),
            ("{merchant}-{order}", "SHOP-1-o-1", Some("{order}=o-1")),
            ("{merchant}-{order}", "OTHER-o-1", None),
            ("{merchant|lower}", "shop-1", Some("")),
            // The dot is a dot.
            ("v1.{ref}", "v1x2", None),
            ("{order}[-{ref}]", "o-r", Some("{order}=o {ref}=r")),
            ("{order}[/{ref}]", "o", Some("{order}=o")),
            (
                "{order}-{now_ms},{order}",
                "o-1-2-345,o-1-2",
                Some("{order}=o-1-2 {now_ms}=345 {order}=o-1-2"),
            ),
        ] {
            let template = template(written);
            let inputs = TemplateInputs {
                merchant: "SHOP-1",
                constants: &BTreeMap::new(),
                decryption_keys: &[],
                values: &[],
            };
            let tokens = split(&template, &[], &inputs, text).map(|tokens| {
                let one = |(token, text): &RenderedToken<'_>| format!("{}={text}", token.written);
                tokens.iter().map(one).collect::<Vec<_>>().join(" ")
            });
            assert_eq!(tokens.as_deref(), expected, "{written} {text}");
        }
    }

    #[test]
    fn filters_are_undone_where_that_is_possible() {
        let uuid = "019c137e-c100-7abc-8000-00000000000f";
        let compact = uuid.replace('-', "");
        for (filters, text, expected) in [
            ("json", "a\\\"b", vec!["a\"b"]),
            ("json", "a\"b", vec![]),
            ("url", "a%20b%2F", vec!["a b/"]),
            ("base64", "aGk=", vec!["hi"]),
            ("base64", "?", vec![]),
            ("reverse", "cba", vec!["abc"]),
            ("upper", "ABC", vec!["ABC"]),
            ("upper", "abc", vec![]),
            ("first:2", "ab", vec!["ab"]),
            ("first:2", "abc", vec![]),
            ("after:_", "x", vec!["_x"]),
            ("before:_", "x", vec!["x_"]),
            ("compact", compact.as_str(), vec![uuid, compact.as_str()]),
            ("after:_|uuid", uuid, vec!["_019c137e-c100-7abc-8000-00000000000f"]),
            ("sha256_hex", "ab", vec![]),
            ("uuid_time:%y%m%d UTC", "260131", vec![]),
        ] {
            let template = template(&format!("{{order|{filters}}}"));
            let filters = &template.single().unwrap().filters;
            assert_eq!(unfiltered(filters, text), expected, "{filters:?} {text}");
        }
    }
}
