//! Owns templates: the small texts a profile puts together from what a notice carries, and their parsing.
//!
//! `{token}` is replaced, `{token|filter|filter}` is changed on the way, `[…]` is left out when a token inside it is
//! empty, and `{{`, `}}`, `[[`, `]]` are those characters themselves. A token that is absent or `null` is empty.

use std::fmt;

use reqwest::header::HeaderName;

use super::filter::Filter;

/// Where a token's value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The whole body.
    Body,
    Method,
    Path,
    /// What stands behind `?`.
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
    /// A place in a document, by the document's number.
    Field(usize, Vec<String>),
    /// A list of pairs, by number.
    Pairs(usize),
    /// A text of the profile, by number.
    Text(usize),
    /// A value of the question, by number.
    Value(usize),
}

/// One `{…}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) source: Source,
    pub(crate) filters: Vec<Filter>,
    /// As it is written in the profile.
    pub(crate) written: String,
}

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Literal(String),
    Token(Token),
    Optional(Vec<Piece>),
}

/// A parsed template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Template {
    pub(crate) pieces: Vec<Piece>,
}

/// The names a template may use: those defined before it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// `f`, `q`, `i` and the profile's own documents, in the order of their numbers.
    pub(crate) documents: Vec<String>,
    pub(crate) pairs: Vec<String>,
    pub(crate) texts: Vec<String>,
    pub(crate) constants: Vec<String>,
    /// What a question is made of; none in what is read of a notice.
    pub(crate) values: Vec<String>,
}

/// Why a text is no template. The message says how to mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TemplateError(pub(crate) String);

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// As it is written in a profile.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn write(pieces: &[Piece], f: &mut fmt::Formatter<'_>) -> fmt::Result {
            for piece in pieces {
                match piece {
                    Piece::Literal(literal) => {
                        for c in literal.chars() {
                            match c {
                                '{' | '}' | '[' | ']' => write!(f, "{c}{c}")?,
                                c if c.is_control() => write!(f, "{}", c.escape_default())?,
                                c => write!(f, "{c}")?,
                            }
                        }
                    }
                    Piece::Token(token) => f.write_str(&token.written)?,
                    Piece::Optional(pieces) => {
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
    pub(crate) fn parse(text: &str, names: &Names) -> Result<Self, TemplateError> {
        let mut parser = Parser { rest: text, names };
        let pieces = parser.pieces(0)?;
        Ok(Self { pieces })
    }

    /// Every token, those of optional pieces included.
    pub(crate) fn tokens(&self) -> Vec<&Token> {
        fn walk<'t>(pieces: &'t [Piece], into: &mut Vec<&'t Token>) {
            for piece in pieces {
                match piece {
                    Piece::Literal(_) => {}
                    Piece::Token(token) => into.push(token),
                    Piece::Optional(pieces) => walk(pieces, into),
                }
            }
        }
        let mut tokens = Vec::new();
        walk(&self.pieces, &mut tokens);
        tokens
    }

    /// Every text between tokens, those of optional pieces included.
    pub(crate) fn literals(&self) -> Vec<&str> {
        fn walk<'t>(pieces: &'t [Piece], into: &mut Vec<&'t str>) {
            for piece in pieces {
                match piece {
                    Piece::Literal(literal) => into.push(literal),
                    Piece::Token(_) => {}
                    Piece::Optional(pieces) => walk(pieces, into),
                }
            }
        }
        let mut literals = Vec::new();
        walk(&self.pieces, &mut literals);
        literals
    }

    /// Whether it has a token of this source that is not optional.
    pub(crate) fn needs(&self, source: &Source) -> bool {
        self.pieces.iter().any(|piece| match piece {
            Piece::Token(token) => token.source == *source,
            Piece::Literal(_) | Piece::Optional(_) => false,
        })
    }

    /// The same with every token's value changed by this filter at last: nothing done after it can undo it.
    pub(crate) fn escaped(mut self, filter: &Filter) -> Self {
        fn walk(pieces: &mut [Piece], filter: &Filter) {
            for piece in pieces {
                match piece {
                    Piece::Literal(_) => {}
                    Piece::Token(token) if token.filters.last() == Some(filter) => {}
                    Piece::Token(token) => token.filters.push(filter.clone()),
                    Piece::Optional(pieces) => walk(pieces, filter),
                }
            }
        }
        walk(&mut self.pieces, filter);
        self
    }

    /// The only token of a template that is nothing else.
    pub(crate) fn single(&self) -> Option<&Token> {
        match self.pieces.as_slice() {
            [Piece::Token(token)] => Some(token),
            _ => None,
        }
    }
}

struct Parser<'t> {
    rest: &'t str,
    names: &'t Names,
}

impl Parser<'_> {
    fn pieces(&mut self, depth: usize) -> Result<Vec<Piece>, TemplateError> {
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
                    pieces.push(Piece::Token(self.token()?));
                }
                '[' if depth == 0 => {
                    flush(&mut literal, &mut pieces);
                    self.rest = &self.rest[1..];
                    pieces.push(Piece::Optional(self.pieces(1)?));
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

    fn token(&mut self) -> Result<Token, TemplateError> {
        let Some(end) = end_of_token(self.rest) else {
            return bad("a { without its }; write {{ for the character");
        };
        let inside = &self.rest[1..end];
        let written = self.rest[..=end].to_owned();
        self.rest = &self.rest[end + 1..];
        let mut parts = inside.split('|');
        let name = parts.next().unwrap_or_default().trim();
        let source = source(name, self.names)?;
        let filters = parts.map(|part| Filter::parse(part.trim())).collect::<Result<_, _>>()?;
        Ok(Token { source, filters, written })
    }
}

/// The offset of the `}` that ends the token at the start, quotes skipped.
fn end_of_token(text: &str) -> Option<usize> {
    let mut is_quoted = false;
    let end = text.char_indices().skip(1).find(|(_, character)| {
        is_quoted ^= *character == '"';
        matches!(character, '{' | '}') && !is_quoted
    });
    end.filter(|(_, character)| *character == '}').map(|(at, _)| at)
}

fn flush(literal: &mut String, pieces: &mut Vec<Piece>) {
    if !literal.is_empty() {
        pieces.push(Piece::Literal(std::mem::take(literal)));
    }
}

fn bad<T>(problem: impl Into<String>) -> Result<T, TemplateError> {
    Err(TemplateError(problem.into()))
}

/// What a token's name means.
fn source(name: &str, names: &Names) -> Result<Source, TemplateError> {
    let simple = match name {
        "body" => Some(Source::Body),
        "method" => Some(Source::Method),
        "path" => Some(Source::Path),
        "query" => Some(Source::Query),
        "url" => Some(Source::Url),
        "secret" => Some(Source::Secret),
        "merchant" => Some(Source::Merchant),
        _ => None,
    };
    let value = names.values.iter().position(|value| value == name).map(Source::Value);
    if let Some(simple) = simple.or(value) {
        return Ok(simple);
    }
    let Some((kind, rest)) = name.split_once('.') else {
        let values = names.values.iter().map(|value| format!("{value}, ")).collect::<String>();
        return bad(format!(
            "{{{name}}} names nothing; tokens are {values}body, method, path, query, url, secret, merchant, h.<header>, \
             c.<constant>, p.<pairs>, t.<text>, and f.<path>, q.<name> or <document>.<path>"
        ));
    };
    let known = |list: &[String], what: &str| {
        list.iter().position(|other| other == rest).ok_or_else(|| {
            let known = if list.is_empty() { "none".to_owned() } else { list.join(", ") };
            TemplateError(format!(
                "there is no {what} {rest} that this may name (documents are read first, then pairs, then texts); there are: {known}"
            ))
        })
    };
    match kind {
        "h" if HeaderName::from_bytes(rest.as_bytes()).is_err() => {
            bad(format!("{{{name}}}: {rest:?} is no header's name; write h.X-Signature"))
        }
        "h" => Ok(Source::Header(rest.to_owned())),
        "c" => {
            known(&names.constants, "constant")?;
            Ok(Source::Constant(rest.to_owned()))
        }
        "p" => known(&names.pairs, "[[pairs]] named").map(Source::Pairs),
        "t" => known(&names.texts, "[[text]] named").map(Source::Text),
        _ => match names.documents.iter().position(|other| other == kind) {
            Some(number) => Ok(Source::Field(number, path(rest)?)),
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

/// The steps of `a.b.0."c.d"`.
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

    fn names() -> Names {
        let list = |text: &str| text.split(' ').map(str::to_owned).collect();
        Names {
            documents: list("f q i data"),
            pairs: list("all"),
            texts: list("first"),
            constants: list("app"),
            values: Vec::new(),
        }
    }

    #[test]
    fn what_is_written_is_parsed() {
        let parsed =
            Template::parse("a={f.a.0.b}&[x={q.x|upper}&]{{}}{h.X-Sig}", &names()).unwrap();
        let written: Vec<_> = parsed.tokens().iter().map(|token| token.written.as_str()).collect();
        assert_eq!(written, ["{f.a.0.b}", "{q.x|upper}", "{h.X-Sig}"]);
        assert_eq!(parsed.pieces.len(), 6);
        let quoted = Template::parse("{data.\"a.b}\".c}", &names()).unwrap();
        let steps = vec!["a.b}".to_owned(), "c".to_owned()];
        assert_eq!(quoted.single().unwrap().source, Source::Field(3, steps));
        for (text, source) in [
            ("{body}", Source::Body),
            ("{p.all}", Source::Pairs(0)),
            ("{t.first}", Source::Text(0)),
            ("{c.app}", Source::Constant("app".into())),
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
