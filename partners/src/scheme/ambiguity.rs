//! Owns the check that a signed text has one reading only, and that the notice was read in that
//! way. A signature is over a text. If values follow each other in the text, a payer can move text
//! from a value it chooses into one that decides, and the signature still holds. Such a text has
//! two readings, and its signature proves neither.
//!
//! Shapes limit the readings: a deciding value never holds the mark that follows it, a time has its
//! format, and a `[[field]]` may add a pattern. Any other value may be any text.

use regex::Regex;

use super::clock::TimeFormat;
use super::deciding::deciding_sources;
use super::fixed_texts::FixedTexts;
use super::message::TemplateContext;
use super::template::{Template, TemplatePiece, TemplateToken, TokenSource};
use super::template_values::TemplateInputs;
use crate::scheme::compiled::Scheme;
use crate::scheme::rules::{JsonType, NoticeFormat, SignRule};

/// Two readings of a signed text: the one with the shortest values and the one with the longest.
/// They differ if and only if the text has more than one reading.
#[derive(Clone, Debug)]
pub(crate) struct SignedTextReadings {
    shortest: Regex,
    longest: Regex,
    /// `None` if it has an optional piece, or two values follow each other.
    fixed_texts: Option<FixedTexts>,
    /// The values, in the order of their regex groups.
    values: Vec<SignedValue>,
}

/// A value of the signed text.
#[derive(Clone, Debug)]
struct SignedValue {
    token: TemplateToken,
    /// The pattern of its shape. `None` if it may be any text.
    shape: Option<Regex>,
    /// The tokens of the optional pieces it is in. If one of them is empty, the piece is left out.
    beside: Vec<TemplateToken>,
}

/// The joined pattern of a signed text exceeds the regex size limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the patterns of its fields are too large together; make their lengths smaller")]
pub(crate) struct PatternsTooLarge;

impl SignedTextReadings {
    /// Compiles the readings of a `[[sign]]` with an account's constants. `None` if the text has
    /// fewer than two values. Errors: the joined pattern is too large.
    pub(crate) fn compile(
        scheme: &Scheme,
        sign: &SignRule,
        inputs: &TemplateInputs<'_>,
    ) -> Result<Option<Self>, PatternsTooLarge> {
        let mut pattern = ReadingPattern {
            scheme,
            inputs,
            text: String::new(),
            values: Vec::new(),
            beside: Vec::new(),
            fixed_texts: vec![String::new()],
            has_optional: false,
        };
        pattern.template(&sign.text, "");
        if pattern.values.len() < 2 {
            return Ok(None);
        }
        // Each piece is escaped or was compiled before, so only the joined size can be refused.
        let compile = |flags: &str| {
            Regex::new(&format!("(?{flags})^{}$", pattern.text)).map_err(|_| PatternsTooLarge)
        };
        // `U` swaps greedy and lazy repetition, so one pattern gives both extremes. If they have
        // the same values, no other reading exists.
        let (shortest, longest) = (compile("s")?, compile("sU")?);
        let has_one_order = !pattern.has_optional;
        let fixed_texts = has_one_order.then(|| FixedTexts::new(pattern.fixed_texts)).flatten();
        Ok(Some(Self { shortest, longest, fixed_texts, values: pattern.values }))
    }

    /// The token of a value that could be another; `text` is rendered without the secret. `None` if
    /// there is one reading and its values are those of `context`. The comparison with `context` is
    /// needed: where every value decides, any text has one reading, and the notice may still hold
    /// the values differently. If the text does not fit the shapes, it is the first value that does
    /// not fit its shape.
    fn find_ambiguous_token(
        &self,
        text: &str,
        context: TemplateContext<'_>,
    ) -> Option<&TemplateToken> {
        let of = |token: &TemplateToken| context.render_token(token).unwrap_or_default();
        let stands = |value: &SignedValue| {
            let is_left_out = value.beside.iter().any(|token| of(token).is_empty());
            let bytes = if is_left_out { Vec::new() } else { of(&value.token) };
            String::from_utf8(bytes)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
        };
        let values: Vec<String> = self.values.iter().map(stands).collect();
        // A value may fit its shape alone and not in the text, if the shape looks beyond the value
        // (`^`, `\b`). The text then has no other reading either.
        let fits = |value: &SignedValue, stands: &String| {
            value.shape.as_ref().is_none_or(|shape| shape.is_match(stands))
        };
        let unfit = || self.values.iter().zip(&values).find(|(value, stands)| !fits(value, stands));
        if self.fixed_texts.as_ref().is_some_and(|fixed| fixed.separate(text, &values))
            && unfit().is_none()
        {
            return None;
        }
        let (Some(a), Some(b)) = (self.shortest.captures(text), self.longest.captures(text)) else {
            return unfit().map(|(value, _)| value).or(self.values.first()).map(|v| &v.token);
        };
        let is_other = |(number, stands): &(usize, &String)| {
            let group = group(*number);
            let [short, long] = [&a, &b].map(|read| range(read.name(&group)));
            let read = a.name(&group).map_or("", |read| read.as_str());
            short != long || *stands != read
        };
        let (number, _) = values.iter().enumerate().find(is_other)?;
        Some(&self.values[number].token)
    }
}

/// The regex group of a value. The prefix keeps it apart from groups in a profile's patterns.
fn group(number: usize) -> String {
    format!("signed_value_{number}")
}

fn range(group: Option<regex::Match<'_>>) -> Option<std::ops::Range<usize>> {
    group.map(|group| group.range())
}

/// Says what is ambiguous about a signed text. `None` if nothing is.
pub(crate) fn find_ambiguity(
    sign: &SignRule,
    readings: Option<&SignedTextReadings>,
    bare: TemplateContext<'_>,
) -> Option<String> {
    let scheme = bare.message.scheme();
    for number in pair_lists(scheme, &sign.text, 0) {
        if let Some(name) = bare.ambiguous_member(number) {
            let shown: String = name.chars().filter(|c| !c.is_control()).take(40).collect();
            return Some(format!("the member {shown:?} of a signed list is ambiguous"));
        }
    }
    let readings = readings?;
    let context = TemplateContext { secret: Some(b""), ..bare };
    // Bytes that are not UTF-8 are replaced, in the values as in the text: that moves no mark.
    let text = context.render(&sign.text).unwrap_or_default();
    let token = readings.find_ambiguous_token(&String::from_utf8_lossy(&text), context)?;
    Some(format!(
        "the end of {} in the signed text is ambiguous: it holds the text that follows, or does \
         not fit its shape; say in a [[field]] what it looks like",
        token.written
    ))
}

/// The lists of pairs that a text names, directly or through texts. `depth` bounds nested texts.
pub(super) fn pair_lists(scheme: &Scheme, text: &Template, depth: usize) -> Vec<usize> {
    let mut numbers = Vec::new();
    for token in text.tokens() {
        match &token.source {
            TokenSource::Pairs(number) => numbers.push(*number),
            TokenSource::Text(number) if depth < 16 => {
                numbers.extend(pair_lists(scheme, &scheme.texts[*number], depth + 1));
            }
            _ => {}
        }
    }
    numbers
}

struct ReadingPattern<'p> {
    scheme: &'p Scheme,
    inputs: &'p TemplateInputs<'p>,
    text: String,
    values: Vec<SignedValue>,
    /// The tokens of the optional pieces around the current position.
    beside: Vec<TemplateToken>,
    /// The text before each value, and the text after the last.
    fixed_texts: Vec<String>,
    has_optional: bool,
}

/// The pattern of a value that may be any text.
const ANY_TEXT: &str = ".*";

impl ReadingPattern<'_> {
    /// Appends the pattern of a template; `after` is the literal that follows it.
    fn template(&mut self, template: &Template, after: &str) {
        self.pieces(&template.pieces, after);
    }

    fn pieces(&mut self, pieces: &[TemplatePiece], after: &str) {
        for (at, piece) in pieces.iter().enumerate() {
            let next = self.literal_at(&pieces[at + 1..]).unwrap_or_else(|| after.to_owned());
            match piece {
                TemplatePiece::Literal(literal) => self.fixed_text(literal),
                TemplatePiece::Token(token) => self.token(token, &next),
                TemplatePiece::Optional(inside) => {
                    self.has_optional = true;
                    self.text.push_str("(?:");
                    let outside = self.beside.len();
                    let tokens = inside.iter().filter_map(|piece| match piece {
                        TemplatePiece::Token(token) => Some(token.clone()),
                        TemplatePiece::Literal(_) | TemplatePiece::Optional(_) => None,
                    });
                    self.beside.extend(tokens);
                    self.pieces(inside, &next);
                    self.beside.truncate(outside);
                    self.text.push_str(")?");
                }
            }
        }
    }

    fn fixed_text(&mut self, fixed: &str) {
        self.text.push_str(&regex::escape(fixed));
        if let Some(last) = self.fixed_texts.last_mut() {
            last.push_str(fixed);
        }
    }

    /// The literal at the beginning of these pieces; empty if a value comes first. `None` if there
    /// are no pieces.
    fn literal_at(&self, pieces: &[TemplatePiece]) -> Option<String> {
        match pieces.first()? {
            TemplatePiece::Literal(literal) => Some(literal.clone()),
            TemplatePiece::Token(token) => match &token.source {
                TokenSource::Secret => self.literal_at(&pieces[1..]),
                TokenSource::Constant(name) => self.inputs.constants.get(name).cloned(),
                _ => Some(String::new()),
            },
            TemplatePiece::Optional(inside) => self.literal_at(inside),
        }
    }

    fn token(&mut self, token: &TemplateToken, next: &str) {
        let is_plain = token.filters.is_empty();
        match &token.source {
            TokenSource::Secret => {}
            TokenSource::Constant(name) if is_plain => {
                let inputs = self.inputs;
                self.fixed_text(inputs.constants.get(name).map_or("", String::as_str));
            }
            TokenSource::Merchant if is_plain => self.fixed_text(self.inputs.merchant),
            TokenSource::Text(number) if is_plain => {
                let template = self.scheme.texts[*number].clone();
                self.template(&template, next);
            }
            _ => {
                let class = self.class(token, next);
                self.text.push_str(&format!("(?P<{}>{class})", group(self.values.len())));
                let shape = (class != ANY_TEXT).then(|| Regex::new(&format!("(?s)^(?:{class})$")));
                // A class that is no pattern is refused with the joined pattern.
                let Ok(shape) = shape.transpose() else { return };
                let (token, beside) = (token.clone(), self.beside.clone());
                self.values.push(SignedValue { token, shape, beside });
                self.fixed_texts.push(String::new());
            }
        }
    }

    /// The pattern of a value's shape.
    fn class(&self, token: &TemplateToken, next: &str) -> String {
        if let Some(shape) = shape(self.scheme, token) {
            return shape;
        }
        if !token.filters.is_empty() && !token.is_place() {
            return ANY_TEXT.to_owned();
        }
        let is_field = matches!(token.source, TokenSource::Field(..));
        let decides = matches!(token.source, TokenSource::Header(_))
            || (is_field && deciding_sources(self.scheme).contains(&&token.source));
        match next.chars().next() {
            _ if !decides => ANY_TEXT.to_owned(),
            Some(mark) => format!("[^\\x00-\\x1f{}]*", escaped_in_class(mark)),
            None => "[^\\x00-\\x1f]*".to_owned(),
        }
    }
}

/// A JSON document, behind a byte order mark or not. Its first and last characters show where it
/// begins and ends.
const JSON_SHAPE: &str = r"\x{feff}?[ \t\r\n]*[\{\[].*[\}\]][ \t\r\n]*";
/// The characters that a URL holds unescaped (RFC 3986).
const URL_SHAPE: &str = r#"[^\x00-\x20"<>\\^`{|}\[\]\x{feff}]*"#;

/// The pattern of a value's shape, independent of what follows it. `None` if it may be any text.
pub(super) fn shape(scheme: &Scheme, token: &TemplateToken) -> Option<String> {
    if let Some(filter) = token.filters.last() {
        return filter
            .shape()
            .map(str::to_owned)
            .or_else(|| token.is_place().then(|| shape_of_place(scheme, token)).flatten());
    }
    match &token.source {
        TokenSource::Field(..) | TokenSource::Header(_) => shape_of_place(scheme, token),
        TokenSource::Body if scheme.content == NoticeFormat::Json => Some(JSON_SHAPE.to_owned()),
        TokenSource::Method => Some("(?:GET|POST)".to_owned()),
        TokenSource::Url | TokenSource::Path | TokenSource::Query => Some(URL_SHAPE.to_owned()),
        _ => None,
    }
}

fn shape_of_place(scheme: &Scheme, token: &TemplateToken) -> Option<String> {
    let rule = scheme.fields.iter().find(|rule| rule.at.source == token.source);
    if let Some(rule) = rule {
        let pattern = rule.pattern.as_ref().map(|pattern| pattern.as_str());
        // The compiled pattern is `^(?:…)$`.
        let inside = pattern.and_then(|p| p.strip_prefix('^')?.strip_suffix('$'));
        match (inside, rule.shape) {
            (Some(inside), _) if scheme.always_signs(token) => {
                return Some(format!("(?:{inside})"));
            }
            (Some(inside), _) => return Some(format!("(?:{inside})?")),
            (None, Some(JsonType::Integer)) => return Some("-?[0-9]*".to_owned()),
            (None, Some(JsonType::Number)) => return Some("[-+.eE0-9]*".to_owned()),
            (None, Some(JsonType::Bool)) => return Some("(?:true|false)?".to_owned()),
            (None, Some(JsonType::String) | None) => {}
        }
    }
    let (template, format) = scheme.time.as_ref()?;
    template.single().filter(|time| time.source == token.source)?;
    match format {
        TimeFormat::UnixSeconds | TimeFormat::UnixMilliseconds => Some("[0-9]*".to_owned()),
        TimeFormat::Rfc3339 => {
            Some("(?:[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(?:Z|[-+][0-9:]+))?".to_owned())
        }
        TimeFormat::Pattern(..) => None,
    }
}

/// Whether the shapes of two adjacent values show where the first value ends.
pub(super) fn shapes_separate(
    scheme: &Scheme,
    first: &TemplateToken,
    second: &TemplateToken,
) -> bool {
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

/// Whether no value of this shape could be a part of a JSON document's beginning or end. It is
/// tested with samples; each notice is checked as well.
fn holds_no_brace(shape: Option<&str>) -> bool {
    let regex = shape.and_then(|shape| Regex::new(&format!("(?s)^(?:{shape})$")).ok());
    let pieces = ["{", "[", "}", "]", "{}", "0{", "a[", "}0", "]a", "{\"a\":0}"];
    regex.is_some_and(|regex| !pieces.iter().any(|piece| regex.is_match(piece)))
}

fn escaped_in_class(mark: char) -> String {
    format!("\\x{{{:x}}}", u32::from(mark))
}

#[cfg(test)]
mod tests;
