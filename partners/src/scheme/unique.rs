//! Owns the check that a signing text can be read in one way only, and that it was read in that way. A signature is over a text; where values stand in it
//! one behind the other, text can be moved from a value the payer chooses into one that decides, and the signature still
//! holds. Of such a text there are two readings, and then even a valid signature proves nothing.
//!
//! What a value may look like bounds the readings: what decides never holds the mark that follows it, a time is
//! written as its format says, and a `[[field]]` may say more. All else may be any text.

use regex::Regex;

use super::clock::Format;
use super::reading::{Context, Of};
use super::template::{Piece, Source, Template, Token};
use super::{Scheme, Shape, SignRule, lint};

/// The two readings a text has if it has more than one: that of the shortest values and that of the longest.
#[derive(Clone, Debug)]
pub(crate) struct Readings {
    shortest: Regex,
    longest: Regex,
    /// In the order of their groups.
    values: Vec<Value>,
}

/// A value of the text.
#[derive(Clone, Debug)]
struct Value {
    token: Token,
    /// The tokens of the optional pieces it stands in: where one of them is empty, it is left out.
    beside: Vec<Token>,
}

/// The patterns of a signing text's fields can't be looked for together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the patterns of its fields are too large together; make their lengths smaller")]
pub(crate) struct TooLarge;

impl Readings {
    /// For an account's constants; `None` where there is only one value to read. Errors: the patterns of the fields
    /// are too large together.
    pub(crate) fn of(
        scheme: &Scheme,
        sign: &SignRule,
        of: &Of<'_>,
    ) -> Result<Option<Self>, TooLarge> {
        let mut pattern =
            Pattern { scheme, of, text: String::new(), values: Vec::new(), beside: Vec::new() };
        pattern.template(&sign.text, "");
        if pattern.values.len() < 2 {
            return Ok(None);
        }
        // Each piece is escaped or was compiled by itself, so only the size of all together can be wrong.
        let compile = |flags: &str| {
            Regex::new(&format!("(?{flags})^{}$", pattern.text)).map_err(|_| TooLarge)
        };
        let (shortest, longest) = (compile("s")?, compile("sU")?);
        Ok(Some(Self { shortest, longest, values: pattern.values }))
    }

    /// Whether this text, made without the secret, has one reading, and its values are those of `context`: where every
    /// value decides there is one reading of any text, and the values may stand in another way all the same.
    fn is_one(&self, text: &str, context: Context<'_>) -> bool {
        let (Some(a), Some(b)) = (self.shortest.captures(text), self.longest.captures(text)) else {
            return false;
        };
        let of = |token: &Token| context.token(token).unwrap_or_default();
        let is_read_so = |(number, value): (usize, &Value)| {
            let read = a.name(&group(number)).map_or("", |read| read.as_str());
            let is_left_out = value.beside.iter().any(|token| of(token).is_empty());
            let stands = if is_left_out { Vec::new() } else { of(&value.token) };
            stands == read.as_bytes()
        };
        a.iter().map(range).eq(b.iter().map(range))
            && self.values.iter().enumerate().all(is_read_so)
    }
}

/// The name of the group of a value; a profile's own patterns may have groups, too.
fn group(number: usize) -> String {
    format!("signed_value_{number}")
}

fn range(group: Option<regex::Match<'_>>) -> Option<std::ops::Range<usize>> {
    group.map(|group| group.range())
}

/// What is ambiguous about a text that was signed; `None` if nothing is.
pub(crate) fn ambiguous(
    sign: &SignRule,
    readings: Option<&Readings>,
    bare: Context<'_>,
) -> Option<String> {
    let scheme = bare.reading.scheme();
    for number in lists(scheme, &sign.text, 0) {
        if let Some(name) = bare.ambiguous_member(number) {
            let shown: String = name.chars().filter(|c| !c.is_control()).take(40).collect();
            return Some(format!(
                "the member {shown:?} of a signed list could be read another way"
            ));
        }
    }
    let readings = readings?;
    let context = Context { secret: Some(b""), ..bare };
    let text = context.text(&sign.text).ok().and_then(|text| String::from_utf8(text).ok());
    let is_one = text.is_some_and(|text| readings.is_one(&text, context));
    (!is_one).then(|| "a signed value holds what separates it from the next".to_owned())
}

/// The lists of pairs a text is made of.
fn lists(scheme: &Scheme, text: &Template, depth: usize) -> Vec<usize> {
    let mut numbers = Vec::new();
    for token in text.tokens() {
        match &token.source {
            Source::Pairs(number) => numbers.push(*number),
            Source::Text(number) if depth < 16 => {
                numbers.extend(lists(scheme, &scheme.texts[*number], depth + 1));
            }
            _ => {}
        }
    }
    numbers
}

struct Pattern<'p> {
    scheme: &'p Scheme,
    of: &'p Of<'p>,
    text: String,
    values: Vec<Value>,
    /// The tokens of the optional pieces the walk is in.
    beside: Vec<Token>,
}

impl Pattern<'_> {
    /// `after` is the literal behind the template.
    fn template(&mut self, template: &Template, after: &str) {
        self.pieces(&template.pieces, after);
    }

    fn pieces(&mut self, pieces: &[Piece], after: &str) {
        for (at, piece) in pieces.iter().enumerate() {
            let next = self.literal_at(&pieces[at + 1..]).unwrap_or_else(|| after.to_owned());
            match piece {
                Piece::Literal(literal) => self.text.push_str(&regex::escape(literal)),
                Piece::Token(token) => self.token(token, &next),
                Piece::Optional(inside) => {
                    self.text.push_str("(?:");
                    let outside = self.beside.len();
                    let tokens = inside.iter().filter_map(|piece| match piece {
                        Piece::Token(token) => Some(token.clone()),
                        Piece::Literal(_) | Piece::Optional(_) => None,
                    });
                    self.beside.extend(tokens);
                    self.pieces(inside, &next);
                    self.beside.truncate(outside);
                    self.text.push_str(")?");
                }
            }
        }
    }

    /// The text that surely stands at the beginning of these pieces; `None` if they are at the end.
    fn literal_at(&self, pieces: &[Piece]) -> Option<String> {
        match pieces.first()? {
            Piece::Literal(literal) => Some(literal.clone()),
            Piece::Token(token) => match &token.source {
                Source::Secret => self.literal_at(&pieces[1..]),
                Source::Constant(name) => self.of.constants.get(name).cloned(),
                _ => Some(String::new()),
            },
            Piece::Optional(inside) => self.literal_at(inside),
        }
    }

    fn token(&mut self, token: &Token, next: &str) {
        let is_plain = token.filters.is_empty();
        match &token.source {
            Source::Secret => {}
            Source::Constant(name) if is_plain => {
                let value = self.of.constants.get(name).map_or("", String::as_str);
                self.text.push_str(&regex::escape(value));
            }
            Source::Merchant if is_plain => self.text.push_str(&regex::escape(self.of.merchant)),
            Source::Text(number) if is_plain => {
                let template = self.scheme.texts[*number].clone();
                self.template(&template, next);
            }
            _ => {
                let class = self.class(token, next);
                self.text.push_str(&format!("(?P<{}>{class})", group(self.values.len())));
                self.values.push(Value { token: token.clone(), beside: self.beside.clone() });
            }
        }
    }

    /// What a value may look like.
    fn class(&self, token: &Token, next: &str) -> String {
        if !token.filters.is_empty()
            && !matches!(token.source, Source::Field(..) | Source::Header(_))
        {
            return ".*".to_owned();
        }
        let rule = self.scheme.fields.iter().find(|rule| rule.at.source == token.source);
        if let Some(rule) = rule {
            let pattern = rule.pattern.as_ref().map(|pattern| pattern.as_str());
            // As compiled it is `^(?:…)$`.
            let inside = pattern.and_then(|p| p.strip_prefix('^')?.strip_suffix('$'));
            match (inside, rule.shape) {
                (Some(inside), _) if self.scheme.always_signs(token) => {
                    return format!("(?:{inside})");
                }
                (Some(inside), _) => return format!("(?:{inside})?"),
                (None, Some(Shape::Integer)) => return "-?[0-9]*".to_owned(),
                (None, Some(Shape::Number)) => return "[-+.eE0-9]*".to_owned(),
                (None, Some(Shape::Bool)) => return "(?:true|false)?".to_owned(),
                (None, Some(Shape::String) | None) => {}
            }
        }
        if let Some((template, format)) = &self.scheme.time
            && template.single().is_some_and(|time| time.source == token.source)
        {
            match format {
                Format::UnixSeconds | Format::UnixMilliseconds => return "[0-9]*".to_owned(),
                Format::Rfc3339 => {
                    return "(?:[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(?:Z|[-+][0-9:]+))?".to_owned();
                }
                Format::Pattern(..) => {}
            }
        }
        let is_field = matches!(token.source, Source::Field(..));
        let decides = matches!(token.source, Source::Header(_))
            || (is_field && lint::deciding_sources(self.scheme).contains(&&token.source));
        match next.chars().next() {
            _ if !decides => ".*".to_owned(),
            Some(mark) => format!("[^\\x00-\\x1f{}]*", escaped_in_class(mark)),
            None => "[^\\x00-\\x1f]*".to_owned(),
        }
    }
}

fn escaped_in_class(mark: char) -> String {
    format!("\\x{{{:x}}}", u32::from(mark))
}
