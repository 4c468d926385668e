//! Owns templates, the texts that a profile builds from the values of a notice or a call, and their
//! parser.
//!
//! `{token}` is replaced by its value, `{token|filter|filter}` by the filtered value. `[…]` is left
//! out if a token inside it is empty. `{{`, `}}`, `[[`, `]]` are the characters themselves. An
//! absent or `null` value is empty.

pub(crate) mod error;

use std::fmt;

use reqwest::header::HeaderName;

use super::filter::Filter;
use crate::scheme::template::error::TemplateError;

/// Where a token's value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenSource {
    /// The whole body.
    Body,
    Method,
    Path,
    /// The query, without its `?`.
    Query,
    /// Our address as the partner knows it, with path and query.
    Url,
    /// The account's secret.
    Secret,
    /// The account's merchantCode.
    Merchant,
    Header(String),
    /// A constant of the profile or the account.
    Constant(String),
    /// A path in a document, by the document's number.
    Field(usize, Vec<String>),
    /// A list of pairs, by number.
    Pairs(usize),
    /// A text of the profile, by number.
    Text(usize),
    /// A value of a call, by index.
    Value(usize),
}

/// One `{…}` of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TemplateToken {
    pub(crate) source: TokenSource,
    pub(crate) filters: Vec<Filter>,
    /// As it is written in the profile.
    pub(crate) written: String,
}

impl TemplateToken {
    /// Whether it is a place of a message: a header, or a field of a document.
    pub(crate) fn is_place(&self) -> bool {
        matches!(self.source, TokenSource::Header(_) | TokenSource::Field(..))
    }
}

/// A piece of a template: a literal, a token, or an optional `[…]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TemplatePiece {
    Literal(String),
    Token(TemplateToken),
    Optional(Vec<TemplatePiece>),
}

/// A parsed template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Template {
    pub(crate) pieces: Vec<TemplatePiece>,
}

/// The names a template may use: those defined before it in the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct TemplateNames {
    /// `f` (the body), `q` (the query), `i` (the item of an array) and the profile's own documents,
    /// in the order of their numbers.
    pub(crate) documents: Vec<String>,
    pub(crate) pairs: Vec<String>,
    pub(crate) texts: Vec<String>,
    pub(crate) constants: Vec<String>,
    /// The values of a call, by index. Empty for templates of notices.
    pub(crate) values: Vec<String>,
}

/// As it is written in a profile.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn write(pieces: &[TemplatePiece], f: &mut fmt::Formatter<'_>) -> fmt::Result {
            for piece in pieces {
                match piece {
                    TemplatePiece::Literal(literal) => {
                        for c in literal.chars() {
                            match c {
                                '{' | '}' | '[' | ']' => write!(f, "{c}{c}")?,
                                c if c.is_control() => write!(f, "{}", c.escape_default())?,
                                c => write!(f, "{c}")?,
                            }
                        }
                    }
                    TemplatePiece::Token(token) => f.write_str(&token.written)?,
                    TemplatePiece::Optional(pieces) => {
                        f.write_str("[")?;
                        write(pieces, f)?;
                        f.write_str("]")?;
                    }
                }
            }
            Ok(())
        }
        write(&self.pieces, f)
    }
}

impl Template {
    /// Parses a template.
    pub(crate) fn parse(text: &str, names: &TemplateNames) -> Result<Self, TemplateError> {
        let mut parser = TemplateParser { rest: text, names };
        let pieces = parser.pieces(0)?;
        Ok(Self { pieces })
    }

    /// Every token, those of optional pieces included.
    pub(crate) fn tokens(&self) -> Vec<&TemplateToken> {
        fn walk<'t>(pieces: &'t [TemplatePiece], into: &mut Vec<&'t TemplateToken>) {
            for piece in pieces {
                match piece {
                    TemplatePiece::Literal(_) => {}
                    TemplatePiece::Token(token) => into.push(token),
                    TemplatePiece::Optional(pieces) => walk(pieces, into),
                }
            }
        }
        let mut tokens = Vec::new();
        walk(&self.pieces, &mut tokens);
        tokens
    }

    /// Every literal, those of optional pieces included.
    pub(crate) fn literals(&self) -> Vec<&str> {
        fn walk<'t>(pieces: &'t [TemplatePiece], into: &mut Vec<&'t str>) {
            for piece in pieces {
                match piece {
                    TemplatePiece::Literal(literal) => into.push(literal),
                    TemplatePiece::Token(_) => {}
                    TemplatePiece::Optional(pieces) => walk(pieces, into),
                }
            }
        }
        let mut literals = Vec::new();
        walk(&self.pieces, &mut literals);
        literals
    }

    /// Whether it has a token of this source outside of optional pieces.
    pub(crate) fn needs(&self, source: &TokenSource) -> bool {
        self.pieces.iter().any(|piece| match piece {
            TemplatePiece::Token(token) => token.source == *source,
            TemplatePiece::Literal(_) | TemplatePiece::Optional(_) => false,
        })
    }

    /// Adds this filter as the last one of every token, so that no other filter can undo the
    /// escaping.
    pub(crate) fn escaped(mut self, filter: &Filter) -> Self {
        fn walk(pieces: &mut [TemplatePiece], filter: &Filter) {
            for piece in pieces {
                match piece {
                    TemplatePiece::Literal(_) => {}
                    TemplatePiece::Token(token) if token.filters.last() == Some(filter) => {}
                    TemplatePiece::Token(token) => token.filters.push(filter.clone()),
                    TemplatePiece::Optional(pieces) => walk(pieces, filter),
                }
            }
        }
        walk(&mut self.pieces, filter);
        self
    }

    /// The token of a template that is exactly one token.
    pub(crate) fn single(&self) -> Option<&TemplateToken> {
        match self.pieces.as_slice() {
            [TemplatePiece::Token(token)] => Some(token),
            _ => None,
        }
    }
}

struct TemplateParser<'t> {
    rest: &'t str,
    names: &'t TemplateNames,
}

impl TemplateParser<'_> {
    fn pieces(&mut self, depth: usize) -> Result<Vec<TemplatePiece>, TemplateError> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        while let Some(character) = self.rest.chars().next() {
            let doubled = self.rest[character.len_utf8()..].starts_with(character);
            match character {
                '{' | '}' | '[' | ']' if doubled => {
                    literal.push(character);
                    self.rest = &self.rest[2..];
                }
                '{' => {
                    flush(&mut literal, &mut pieces);
                    pieces.push(TemplatePiece::Token(self.token()?));
                }
                '[' if depth == 0 => {
                    flush(&mut literal, &mut pieces);
                    self.rest = &self.rest[1..];
                    pieces.push(TemplatePiece::Optional(self.pieces(1)?));
                }
                '[' => return bad("a [ ] inside a [ ]; write [[ for the character"),
                ']' if depth == 1 => {
                    self.rest = &self.rest[1..];
                    flush(&mut literal, &mut pieces);
                    return Ok(pieces);
                }
                ']' => return bad("a ] without its [; write ]] for the character"),
                '}' => return bad("a } without its {; write }} for the character"),
                _ => {
                    literal.push(character);
                    self.rest = &self.rest[character.len_utf8()..];
                }
            }
        }
        if depth > 0 {
            return bad("a [ without its ]; write [[ for the character");
        }
        flush(&mut literal, &mut pieces);
        Ok(pieces)
    }

    fn token(&mut self) -> Result<TemplateToken, TemplateError> {
        let Some(end) = end_of_token(self.rest) else {
            return bad("a { without its }; write {{ for the character");
        };
        let inside = &self.rest[1..end];
        let written = self.rest[..=end].to_owned();
        self.rest = &self.rest[end + 1..];
        // A quoted name may hold a bar. The arguments of filters are not quoted.
        let (mut in_name, mut is_quoted) = (true, false);
        let mut parts = inside.split(|character| {
            is_quoted ^= in_name && character == '"';
            let ends = character == '|' && !is_quoted;
            in_name &= !ends;
            ends
        });
        let name = parts.next().unwrap_or_default().trim();
        let source = source(name, self.names)?;
        let filters = parts.map(|part| Filter::parse(part.trim())).collect::<Result<_, _>>()?;
        Ok(TemplateToken { source, filters, written })
    }
}

/// The offset of the `}` that ends the token at the start. Quoted parts are skipped.
fn end_of_token(text: &str) -> Option<usize> {
    let mut is_quoted = false;
    let end = text.char_indices().skip(1).find(|(_, character)| {
        is_quoted ^= *character == '"';
        matches!(character, '{' | '}') && !is_quoted
    });
    end.filter(|(_, character)| *character == '}').map(|(at, _)| at)
}

fn flush(literal: &mut String, pieces: &mut Vec<TemplatePiece>) {
    if !literal.is_empty() {
        pieces.push(TemplatePiece::Literal(std::mem::take(literal)));
    }
}

fn bad<T>(problem: impl Into<String>) -> Result<T, TemplateError> {
    Err(TemplateError(problem.into()))
}

/// Resolves a token's name.
fn source(name: &str, names: &TemplateNames) -> Result<TokenSource, TemplateError> {
    let simple = match name {
        "body" => Some(TokenSource::Body),
        "method" => Some(TokenSource::Method),
        "path" => Some(TokenSource::Path),
        "query" => Some(TokenSource::Query),
        "url" => Some(TokenSource::Url),
        "secret" => Some(TokenSource::Secret),
        "merchant" => Some(TokenSource::Merchant),
        _ => None,
    };
    let value = names.values.iter().position(|value| value == name).map(TokenSource::Value);
    if let Some(simple) = simple.or(value) {
        return Ok(simple);
    }
    let Some((kind, rest)) = name.split_once('.') else {
        let values = names.values.iter().map(|value| format!("{value}, ")).collect::<String>();
        return bad(format!(
            "{{{name}}} names nothing; tokens are {values}body, method, path, query, url, secret, \
             merchant, h.<header>, c.<constant>, p.<pairs>, t.<text>, and f.<path>, q.<name> or \
             <document>.<path>"
        ));
    };
    let known = |list: &[String], what: &str| {
        list.iter().position(|other| other == rest).ok_or_else(|| {
            let known = if list.is_empty() { "none".to_owned() } else { list.join(", ") };
            TemplateError(format!(
                "there is no {what} {rest} that this may name (documents are read first, then \
                 pairs, then texts); there are: {known}"
            ))
        })
    };
    match kind {
        "h" if HeaderName::from_bytes(rest.as_bytes()).is_err() => {
            bad(format!("{{{name}}}: {rest:?} is no header's name; write h.X-Signature"))
        }
        "h" => Ok(TokenSource::Header(rest.to_owned())),
        "c" => {
            known(&names.constants, "constant")?;
            Ok(TokenSource::Constant(rest.to_owned()))
        }
        "p" => known(&names.pairs, "[[pairs]] named").map(TokenSource::Pairs),
        "t" => known(&names.texts, "[[text]] named").map(TokenSource::Text),
        _ => match names.documents.iter().position(|other| other == kind) {
            Some(number) => Ok(TokenSource::Field(number, path(rest)?)),
            None if names.documents.is_empty() => {
                bad(format!("{{{name}}} can't stand here: no document is read at this place"))
            }
            None => bad(format!(
                "there is no document {kind} before this; there are: {}",
                names.documents.join(", ")
            )),
        },
    }
}

/// Parses a path such as `a.b.0."c.d"` into its steps.
pub(crate) fn path(text: &str) -> Result<Vec<String>, TemplateError> {
    let mut steps = Vec::new();
    let mut rest = text;
    loop {
        let (step, after) = match rest.strip_prefix('"') {
            Some(quoted) => match quoted.split_once('"') {
                Some((step, after)) => (step, after),
                None => return bad(format!("{text}: a quote without its end")),
            },
            None => rest.split_at(rest.find('.').unwrap_or(rest.len())),
        };
        if step.is_empty() {
            return bad(format!("{text}: a step of the path is empty"));
        }
        steps.push(step.to_owned());
        match after.strip_prefix('.') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(steps),
            None => return bad(format!("{text}: a quoted step ends before the next point")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> TemplateNames {
        let list = |text: &str| text.split(' ').map(str::to_owned).collect();
        TemplateNames {
            documents: list("f q i data"),
            pairs: list("all"),
            texts: list("first"),
            constants: list("app"),
            values: Vec::new(),
        }
    }

    #[test]
    fn templates_are_parsed() {
        let parsed =
            Template::parse("a={f.a.0.b}&[x={q.x|upper}&]{{}}{h.X-Sig}", &names()).unwrap();
        let written: Vec<_> = parsed.tokens().iter().map(|token| token.written.as_str()).collect();
        assert_eq!(written, ["{f.a.0.b}", "{q.x|upper}", "{h.X-Sig}"]);
        assert_eq!(parsed.pieces.len(), 6);
        let quoted = Template::parse("{data.\"a.b}\".c}", &names()).unwrap();
        let steps = vec!["a.b}".to_owned(), "c".to_owned()];
        assert_eq!(quoted.single().unwrap().source, TokenSource::Field(3, steps));
        let with_bar = Template::parse("{f.\"a|b\"|upper}", &names()).unwrap();
        let token = with_bar.single().unwrap();
        assert_eq!(token.source, TokenSource::Field(0, vec!["a|b".to_owned()]));
        assert_eq!(token.filters, [Filter::parse("upper").unwrap()]);
        // A quotation mark in a filter's argument quotes nothing.
        let cut = Template::parse("{f.a|after:\"t\":\"|before:\"}", &names()).unwrap();
        let filters = ["after:\"t\":\"", "before:\""].map(|text| Filter::parse(text).unwrap());
        assert_eq!(cut.single().unwrap().filters, filters);
        for (text, source) in [
            ("{body}", TokenSource::Body),
            ("{p.all}", TokenSource::Pairs(0)),
            ("{t.first}", TokenSource::Text(0)),
            ("{c.app}", TokenSource::Constant("app".into())),
        ] {
            assert_eq!(Template::parse(text, &names()).unwrap().single().unwrap().source, source);
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("{f.a", "a { without its }"),
            ("f.a}", "a } without its {"),
            ("[{f.a}", "a [ without its ]"),
            ("{f.a}]", "a ] without its ["),
            ("[[{f.a}]", "a ] without its ["),
            ("[a[b]]", "a [ ] inside a [ ]"),
            ("{nothing}", "names nothing; tokens are body"),
            ("{x.a}", "no document x before this; there are: f, q, i, data"),
            ("{c.none}", "no constant none that this may name"),
            ("{t.second}", "no [[text]] named second"),
            ("{f.}", "a step of the path is empty"),
            ("{h.}", "\"\" is no header's name"),
            ("{h.X Sig}", "\"X Sig\" is no header's name"),
            ("{f.a|shout}", "no filter shout"),
        ] {
            let error = Template::parse(text, &names()).unwrap_err();
            assert!(error.0.contains(expected), "{text}: {error}");
        }
    }
}
