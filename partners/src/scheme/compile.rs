//! Owns the way from a profile's TOML to a scheme: every name resolved, every template parsed, every value in its
//! bounds. It goes on after a mistake, so that all of them are told at once.

use std::collections::BTreeMap;

use payfold_schemas::ids::PartnerCode;
use regex::Regex;
use toml::Spanned;

use super::candidates::OpenParts;
use super::file::{
    DocumentFile, DocumentKind, FieldFile, PairsFile, RequireFile, SchemeFile, Text, read,
};
use super::pairs::{Order, Pairs, Pick};
use super::template::{Names, Source, Template, Token, path};
use super::{
    Content, DecryptRule, DocumentContent, DocumentRule, FieldRule, ITEM, ItemsRule, Requirement,
    Scheme, lint,
};
use crate::profile::Profile;
use crate::profile::file::Wrong;

mod call;
mod common;
mod create;
mod map;
mod oauth;
mod proof;
mod query;
mod records;
mod sign;

pub(crate) use self::records::records_of;

/// The version of the profile language this program reads.
pub(crate) const LANGUAGE: u32 = 1;
/// The section of a partner's books.
const RECORDS: &str = "records";
/// Names a document can't have.
const RESERVED: [&str; 8] = ["f", "q", "i", "h", "c", "p", "t", "body"];

/// Reads and checks a profile of a partner's own scheme. Errors: all that is wrong with it.
pub(crate) fn parse(partner: &PartnerCode, text: &str, lint: Lint) -> Result<Profile, Vec<Wrong>> {
    let (file, wrong) = read(text);
    let has_certificate = file.head.as_ref().is_some_and(|head| head.client_certificate);
    let has_token = file.oauth.is_some();
    let mut compiler = Compiler { wrong, lint, has_certificate, has_token, ..Compiler::default() };
    let profile = compiler.profile(partner, text, file);
    compiler.wrong.sort_by_key(|wrong| wrong.span.start);
    match profile {
        Some(profile) if compiler.wrong.is_empty() => Ok(profile),
        _ => Err(compiler.wrong),
    }
}

/// Whether a profile is held to what makes a scheme safe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lint {
    /// As every profile is that notices are admitted under.
    #[default]
    Held,
    /// Not: older programs admitted notices under it, and it only says how these are read.
    Skipped,
}

/// What has been read so far, and what is wrong with it.
#[derive(Default)]
pub(super) struct Compiler {
    pub(super) wrong: Vec<Wrong>,
    pub(super) names: Names,
    lint: Lint,
    texts: Vec<Template>,
    /// The section whose call or events are read.
    section: &'static str,
    /// Our side of a connection shows a certificate.
    has_certificate: bool,
    /// Calls may carry an access token.
    has_token: bool,
}

impl Compiler {
    pub(super) fn wrong(&mut self, span: std::ops::Range<usize>, problem: impl Into<String>) {
        self.wrong.push(Wrong { span, problem: problem.into() });
    }

    fn profile(
        &mut self,
        partner: &PartnerCode,
        text: &str,
        mut file: SchemeFile,
    ) -> Option<Profile> {
        let SchemeFile { head, limits, notice, .. } = &file;
        for (is_there, name) in [
            (limits.is_some(), "limits"),
            (notice.is_some(), "notice"),
            (file.map.is_some(), "map"),
            (file.time.is_some(), "time"),
            (!file.signs.is_empty(), "[sign]"),
            (!file.events.is_empty(), "[event]"),
        ] {
            if !is_there && self.wrong.is_empty() {
                self.wrong(0..0, format!("the section [{name}] is missing"));
            }
        }
        // A section that can't be read keeps none of the others from being looked at.
        let common = head.as_ref().and_then(|head| self.common(partner, text, (head, &file)));
        let records = file.records.take().map(|records| self.records(&records));
        let scheme = self.scheme(file);
        let (common, mut scheme) = (common?, scheme?);
        lint::complete_lists(&mut scheme);
        scheme.open = OpenParts::of(&scheme);
        let with = lint::TimeAndNonce { time: common.time.kind, nonce: common.nonce };
        scheme.needs_one_reading = lint::needs_one_reading(&scheme, with);
        if self.lint == Lint::Held {
            for wrong in lint::check(&scheme, &common) {
                self.wrong(wrong.span, wrong.problem);
            }
        }
        Some(Profile::of_scheme(common, scheme).with_records(records.flatten()))
    }

    fn scheme(&mut self, mut file: SchemeFile) -> Option<Scheme> {
        self.names.documents = ["f", "q", "i"].map(str::to_owned).to_vec();
        self.names.constants = file.constants.keys().cloned().collect();
        let constants: BTreeMap<_, _> = std::mem::take(&mut file.constants)
            .into_iter()
            .map(|(name, value)| (name, Some(value).filter(|value| !value.is_empty())))
            .collect();
        let (head, notice) = (file.head.take(), file.notice.take());
        let methods = notice.as_ref().map(|notice| self.methods(notice));
        let documents = file.documents.iter().filter_map(|file| self.document(file)).collect();
        let items = file.items.take().and_then(|items| self.items(&items.at, items.forged));
        let pairs = file.pairs.iter().filter_map(|pairs| self.pairs(pairs)).collect();
        let texts = self.texts(&file);
        self.texts.clone_from(&texts);
        let key = self.key(&file);
        let signs = file.signs.iter().enumerate().filter_map(|(at, sign)| self.sign(at, sign));
        let signs: Vec<_> = signs.collect();
        let require = file.require.iter().filter_map(|rule| self.requirement(rule)).collect();
        let fields = file.fields.iter().filter_map(|rule| self.field(rule)).collect();
        let map = file.map.take().map(|map| {
            self.formats_of_events(&map, &file.events);
            self.map(&map)
        });
        let events: Vec<_> = file.events.iter().filter_map(|event| self.event(event)).collect();
        let time = file.time.as_ref().map(|time| self.time(time));
        let acks = self.acks(&file.acks);
        let query = file.query.as_ref().and_then(|query| self.query(query));
        let create = file.create.as_ref().and_then(|create| self.create(create));
        let oauth = file.oauth.as_ref().map(|oauth| {
            let calls =
                [query.as_ref().map(|query| &query.question), create.as_ref().map(|c| &c.rule)];
            // What can't be read might carry it.
            if calls.map(|call| call.is_some()) == [file.query.is_some(), file.create.is_some()] {
                self.token_is_used(oauth, calls);
            }
            self.oauth(oauth)
        });
        let (head, notice, map, time) = (head?, notice?, map?, time?);
        let (methods, content) = methods?;
        let default_types = match content {
            Content::Json => vec!["application/json".to_owned()],
            Content::Form => vec!["application/x-www-form-urlencoded".to_owned()],
            Content::Query => Vec::new(),
        };
        let exceptions = head.exceptions.as_ref().map(Spanned::get_ref).into_iter().flatten();
        Some(Scheme {
            methods,
            content,
            content_types: notice.content_types.clone().unwrap_or(default_types),
            constants,
            documents,
            items,
            pairs,
            texts,
            key,
            signs,
            require,
            fields,
            map,
            events,
            time,
            confirm: head.confirm.as_ref().map(|c| *c.get_ref()).unwrap_or_default(),
            acks,
            query,
            create,
            oauth: oauth.map_or(Some(None), |oauth| oauth.map(Some))?,
            exceptions: exceptions.map(|name| name.get_ref().clone()).collect(),
            exceptions_span: head.exceptions.as_ref().map_or(0..0, Spanned::span),
            open: OpenParts::default(),
            needs_one_reading: true,
        })
    }

    fn methods(&mut self, notice: &super::file::NoticeFile) -> (Vec<String>, Content) {
        let content = *notice.content.get_ref();
        let default = if content == Content::Query { "GET" } else { "POST" };
        let mut methods = vec![default.to_owned()];
        if let Some(listed) = &notice.methods {
            methods = listed.get_ref().iter().map(|method| method.get_ref().clone()).collect();
            if methods.is_empty() || methods.iter().any(|m| m != "POST" && m != "GET") {
                self.wrong(listed.span(), "notice.methods may have \"POST\" and \"GET\"");
            }
            if methods.iter().any(|m| m == "GET") && content != Content::Query {
                let problem = "a GET has no body; notice.content must be \"query\"";
                self.wrong(notice.content.span(), problem);
            }
        }
        (methods, content)
    }

    /// Parses a template; a mistake is noted.
    pub(super) fn template(&mut self, text: &Text) -> Option<Template> {
        match Template::parse(text.get_ref(), &self.names) {
            Ok(template) => Some(template),
            Err(error) => {
                self.wrong(text.span(), error.0);
                None
            }
        }
    }

    /// A template that must be one token of a header or a document.
    pub(super) fn token(&mut self, text: &Text) -> Option<Token> {
        let template = self.template(text)?;
        let token = template
            .single()
            .filter(|token| matches!(token.source, Source::Header(_) | Source::Field(..)));
        if token.is_none() {
            let problem =
                "write one place here, such as \"{f.status}\", \"{q.status}\" or \"{h.X-Status}\"";
            self.wrong(text.span(), problem);
        }
        token.cloned()
    }

    fn document(&mut self, file: &DocumentFile) -> Option<DocumentRule> {
        let from = self.template(&file.from)?;
        let decrypt = match &file.decrypt {
            None => None,
            Some(decrypt) => Some(DecryptRule {
                nonce: self.template(&decrypt.nonce)?,
                associated_data: match &decrypt.associated_data {
                    Some(text) => self.template(text)?,
                    None => Template::default(),
                },
            }),
        };
        let one = |text: &Option<Text>, default: &str| {
            text.as_ref().map_or(default.to_owned(), |text| text.get_ref().clone())
        };
        let content = match file.content {
            DocumentKind::Json => DocumentContent::Json,
            DocumentKind::Form => DocumentContent::Form,
            DocumentKind::Parts => DocumentContent::Parts {
                separator: one(&file.separator, ","),
                assign: one(&file.assign, "="),
            },
        };
        self.new_name(&file.name, "document");
        self.names.documents.push(file.name.get_ref().clone());
        let name = file.name.get_ref().clone();
        Some(DocumentRule { name, from, decode: file.decode, decrypt, content })
    }

    fn new_name(&mut self, name: &Text, what: &str) {
        let text = name.get_ref();
        let is_plain = !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let known = match what {
            "document" => &self.names.documents,
            "pairs" => &self.names.pairs,
            _ => &self.names.texts,
        };
        if !is_plain || known.contains(text) || RESERVED.contains(&text.as_str()) {
            let problem = format!(
                "{what} needs a name of letters, digits and _ that is not used yet and is none of {}",
                RESERVED.join(", ")
            );
            self.wrong(name.span(), problem);
        }
    }

    /// `f`, `q`, `i`, a document's name, or one of them with a path behind it.
    fn place(&mut self, text: &Text) -> Option<(usize, Vec<String>)> {
        let (name, rest) = text.get_ref().split_once('.').unwrap_or((text.get_ref(), ""));
        let Some(document) = self.names.documents.iter().position(|known| known == name) else {
            let known = self.names.documents.join(", ");
            self.wrong(
                text.span(),
                format!("there is no document {name} before this; there are: {known}"),
            );
            return None;
        };
        match if rest.is_empty() { Ok(Vec::new()) } else { path(rest) } {
            Ok(path) => Some((document, path)),
            Err(error) => {
                self.wrong(text.span(), error.0);
                None
            }
        }
    }

    fn items(&mut self, at: &Text, forged: super::Forged) -> Option<ItemsRule> {
        let of = self.place(at)?;
        if of.0 == ITEM {
            self.wrong(at.span(), "items.at must be a place of f or of a document");
        }
        Some(ItemsRule { of, forged })
    }

    fn pairs(&mut self, file: &PairsFile) -> Option<Pairs> {
        let of = self.place(&file.of)?;
        let pick = match (&file.keys, &file.prefix) {
            (Some(keys), Some(_)) => {
                self.wrong(keys.span(), "pairs take keys or a prefix, not both");
                return None;
            }
            (Some(keys), None) => Pick::Listed(keys.get_ref().clone()),
            (None, Some(prefix)) => Pick::Prefix(prefix.get_ref().clone()),
            (None, None) => Pick::All,
        };
        let default = if matches!(pick, Pick::Listed(_)) { Order::AsIs } else { Order::Sorted };
        self.new_name(&file.name, "pairs");
        self.names.pairs.push(file.name.get_ref().clone());
        Some(Pairs {
            of,
            pick,
            except: file.except.clone(),
            order: file.order.unwrap_or(default),
            write: file.write,
            assign: file.assign.clone().unwrap_or_else(|| "=".to_owned()),
            separator: file.separator.clone().unwrap_or_else(|| "&".to_owned()),
            empty: file.empty,
            encoding: file.encoding,
            is_flat: false,
            deciding: Vec::new(),
        })
    }

    fn texts(&mut self, file: &SchemeFile) -> Vec<Template> {
        let mut texts = Vec::new();
        for text in &file.texts {
            let Some(template) = self.template(&text.text) else { continue };
            self.new_name(&text.name, "text");
            self.names.texts.push(text.name.get_ref().clone());
            texts.push(template);
        }
        texts
    }

    fn requirement(&mut self, file: &RequireFile) -> Option<Requirement> {
        let (value, equals) = (self.template(&file.value)?, self.template(&file.equals)?);
        Some(Requirement { value, equals })
    }

    fn field(&mut self, file: &FieldFile) -> Option<FieldRule> {
        let at = self.token(&file.at)?;
        let pattern = match &file.pattern {
            None => None,
            Some(pattern) => match whole(pattern.get_ref()) {
                Ok(regex) => Some(regex),
                Err(problem) => {
                    self.wrong(pattern.span(), problem);
                    None
                }
            },
        };
        Some(FieldRule { at, pattern, shape: file.shape })
    }
}

/// A pattern that the whole of a value has. By itself it must be one, too, or `a)|(?:b` would match a part; patterns
/// stand together where readings are looked for, so none has names. Errors: why it can't be used.
fn whole(pattern: &str) -> Result<Regex, &'static str> {
    const WRONG: &str = "this is no regular expression of the regex crate";
    Regex::new(pattern).map_err(|_| WRONG)?;
    let whole = Regex::new(&format!("^(?:{pattern})$")).map_err(|_| WRONG)?;
    if whole.capture_names().any(|name| name.is_some()) {
        return Err("a group has a name; write (…) for (?P<name>…)");
    }
    Ok(whole)
}
