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
use super::{Content, Scheme, Shape, SignRule, lint};

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
    /// What it may look like.
    shape: Regex,
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

    /// The value of this text, made without the secret, that could be another; `None` if there is one reading, and its values
    /// are those of `context`: where every value decides there is one reading of any text, and the values may stand in
    /// another way all the same. The text itself may be none that the shapes allow: then it is the first value that is not
    /// of its shape.
    fn other(&self, text: &str, context: Context<'_>) -> Option<&Token> {
        let of = |token: &Token| context.token(token).unwrap_or_default();
        let stands = |value: &Value| {
            let is_left_out = value.beside.iter().any(|token| of(token).is_empty());
            if is_left_out { Vec::new() } else { of(&value.token) }
        };
        let (Some(a), Some(b)) = (self.shortest.captures(text), self.longest.captures(text)) else {
            let is_unfit = |value: &&Value| {
                let stands = String::from_utf8(stands(value)).unwrap_or_default();
                !value.shape.is_match(&stands)
            };
            let unfit = self.values.iter().find(is_unfit);
            return unfit.or(self.values.first()).map(|value| &value.token);
        };
        let is_other = |(number, value): &(usize, &Value)| {
            let group = group(*number);
            let [short, long] = [&a, &b].map(|read| range(read.name(&group)));
            let read = a.name(&group).map_or("", |read| read.as_str());
            short != long || stands(value) != read.as_bytes()
        };
        self.values.iter().enumerate().find(is_other).map(|(_, value)| &value.token)
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
    let Some(text) = text else { return Some("a signed value is no text".to_owned()) };
    let token = readings.other(&text, context)?;
    Some(format!(
        "where {} ends in the signed text can't be told: it holds what stands behind it, or has not its shape; say in a [[field]] \
         what it looks like",
        token.written
    ))
}

/// The lists of pairs a text is made of.
pub(super) fn lists(scheme: &Scheme, text: &Template, depth: usize) -> Vec<usize> {
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
                let Ok(shape) = Regex::new(&format!("(?s)^{class}$")) else { return };
                let (token, beside) = (token.clone(), self.beside.clone());
                self.values.push(Value { token, shape, beside });
            }
        }
    }

    /// What a value may look like.
    fn class(&self, token: &Token, next: &str) -> String {
        if let Some(shape) = shape(self.scheme, token) {
            return shape;
        }
        if !token.filters.is_empty()
            && !matches!(token.source, Source::Field(..) | Source::Header(_))
        {
            return ".*".to_owned();
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

/// A JSON document: nothing that ends before it begins so, and nothing that begins behind it ends so.
const JSON_SHAPE: &str = r"[ \t\r\n]*[\{\[].*[\}\]][ \t\r\n]*";
/// Of an address only what a URL has unescaped (RFC 3986).
const URL_SHAPE: &str = r#"[^\x00-\x20"<>\\^`{|}\[\]]*"#;

/// What a value looks like wherever it stands; `None` where it may be any text.
pub(super) fn shape(scheme: &Scheme, token: &Token) -> Option<String> {
    if let Some(filter) = token.filters.last() {
        return filter.shape().map(str::to_owned).or_else(|| {
            let is_place = matches!(token.source, Source::Field(..) | Source::Header(_));
            is_place.then(|| shape_of_place(scheme, token)).flatten()
        });
    }
    match &token.source {
        Source::Field(..) | Source::Header(_) => shape_of_place(scheme, token),
        Source::Body if scheme.content == Content::Json => Some(JSON_SHAPE.to_owned()),
        Source::Method => Some("(?:GET|POST)".to_owned()),
        Source::Url | Source::Path | Source::Query => Some(URL_SHAPE.to_owned()),
        _ => None,
    }
}

fn shape_of_place(scheme: &Scheme, token: &Token) -> Option<String> {
    let rule = scheme.fields.iter().find(|rule| rule.at.source == token.source);
    if let Some(rule) = rule {
        let pattern = rule.pattern.as_ref().map(|pattern| pattern.as_str());
        // As compiled it is `^(?:…)$`.
        let inside = pattern.and_then(|p| p.strip_prefix('^')?.strip_suffix('$'));
        match (inside, rule.shape) {
            (Some(inside), _) if scheme.always_signs(token) => {
                return Some(format!("(?:{inside})"));
            }
            (Some(inside), _) => return Some(format!("(?:{inside})?")),
            (None, Some(Shape::Integer)) => return Some("-?[0-9]*".to_owned()),
            (None, Some(Shape::Number)) => return Some("[-+.eE0-9]*".to_owned()),
            (None, Some(Shape::Bool)) => return Some("(?:true|false)?".to_owned()),
            (None, Some(Shape::String) | None) => {}
        }
    }
    let (template, format) = scheme.time.as_ref()?;
    template.single().filter(|time| time.source == token.source)?;
    match format {
        Format::UnixSeconds | Format::UnixMilliseconds => Some("[0-9]*".to_owned()),
        Format::Rfc3339 => {
            Some("(?:[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(?:Z|[-+][0-9:]+))?".to_owned())
        }
        Format::Pattern(..) => None,
    }
}

/// Whether a text of two values, one behind the other, tells where the first ends, as far as their shapes say it.
pub(super) fn tells_end(scheme: &Scheme, first: &Token, second: &Token) -> bool {
    let has_one_length = |shape: &Option<String>| {
        let parsed = shape.as_ref().and_then(|shape| regex_syntax::parse(shape).ok());
        parsed.is_some_and(|hir| {
            let properties = hir.properties();
            properties.minimum_len().is_some()
                && properties.minimum_len() == properties.maximum_len()
        })
    };
    let [a, b] = [first, second].map(|token| shape(scheme, token));
    let is_json = |shape: &Option<String>| shape.as_deref() == Some(JSON_SHAPE);
    has_one_length(&a)
        || has_one_length(&b)
        || (is_json(&b) && holds_no_brace(a.as_deref()))
        || (is_json(&a) && holds_no_brace(b.as_deref()))
}

/// Whether nothing of this shape could be a piece of a JSON document's edge, as far as some pieces show it; each notice is
/// held to its text all the same.
fn holds_no_brace(shape: Option<&str>) -> bool {
    let regex = shape.and_then(|shape| Regex::new(&format!("(?s)^(?:{shape})$")).ok());
    let pieces = ["{", "[", "}", "]", "{}", "0{", "a[", "}0", "]a", "{\"a\":0}"];
    regex.is_some_and(|regex| !pieces.iter().any(|piece| regex.is_match(piece)))
}

fn escaped_in_class(mark: char) -> String {
    format!("\\x{{{:x}}}", u32::from(mark))
}
