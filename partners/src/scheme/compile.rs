//! Owns compiling a profile's TOML into a scheme: every name is resolved, every template parsed and
//! every value checked against its bounds. Compiling goes on after a mistake, so that all mistakes
//! are reported at once.

mod call;
mod call_checks;
mod common;
pub(crate) mod compiler;
mod create;
mod credential;
pub(crate) mod lint_mode;
mod map;
mod oauth;
mod query;
mod records;
mod sign;
mod time_format;

use std::collections::BTreeMap;

use payfold_schemas::ids::PartnerCode;
use regex::Regex;

use super::file::read;
use super::lint;
use super::pairs::{PairList, PairOrder, PairSelection};
use super::template::{Template, TemplateToken, path};
use crate::profile::Profile;
use crate::profile::mistake::ProfileMistake;
use crate::profile::spanned::Spanned;
use crate::scheme::compile::compiler::ProfileCompiler;
use crate::scheme::compile::lint_mode::LintMode;
use crate::scheme::compiled::Scheme;
use crate::scheme::file::scheme_file::SchemeFile;
use crate::scheme::file::tables::{
    DocumentFile, DocumentKind, FieldFile, METHODS, NoticeFile, PairsFile, RequireFile, SpannedText,
};
use crate::scheme::rules::{
    DecryptRule, DocumentContent, DocumentRule, FieldRule, ITEM, ItemsRule, KeptParts,
    NoticeFormat, OpenParts, Requirement,
};

pub(crate) use self::records::records_of;

/// Names that `[[document]]`, `[[pairs]]` and `[[text]]` can't have: tokens use them already.
const RESERVED: [&str; 8] = ["f", "q", "i", "h", "c", "p", "t", "body"];

/// Reads and checks a profile of a custom scheme. Errors: all mistakes, in the order of the file.
pub(crate) fn parse(
    partner: &PartnerCode,
    text: &str,
    lint: LintMode,
) -> Result<Profile, Vec<ProfileMistake>> {
    let (file, wrong) = read(text);
    let has_certificate = file.head.as_ref().is_some_and(|head| head.client_certificate);
    let has_token = file.oauth.is_some();
    let mut compiler =
        ProfileCompiler { wrong, lint, has_certificate, has_token, ..ProfileCompiler::default() };
    let profile = compiler.compile_profile(partner, text, file);
    compiler.wrong.sort_by_key(|wrong| wrong.span.start);
    match profile {
        Some(profile) if compiler.wrong.is_empty() => Ok(profile),
        _ => Err(compiler.wrong),
    }
}

impl ProfileCompiler {
    pub(super) fn report(&mut self, span: std::ops::Range<usize>, problem: impl Into<String>) {
        self.wrong.push(ProfileMistake { span, problem: problem.into() });
    }

    fn compile_profile(
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
                self.report(0..0, format!("the section [{name}] is missing"));
            }
        }
        // A section that can't be read does not keep the others from being checked.
        let common =
            head.as_ref().and_then(|head| self.compile_common(partner, text, (head, &file)));
        let records = file.records.take().map(|records| self.compile_records(&records));
        let scheme = self.compile_scheme(file);
        let (common, mut scheme) = (common?, scheme?);
        lint::complete_lists(&mut scheme);
        scheme.open = OpenParts::find(&scheme);
        scheme.kept = KeptParts::collect(&scheme);
        let with = crate::scheme::lint::facts::TimeAndNonce {
            time: common.time.kind,
            nonce: common.nonce,
        };
        scheme.needs_one_reading = lint::needs_one_reading(&scheme, with);
        lint::complete_signs(&mut scheme);
        if self.lint == LintMode::Checked {
            for wrong in lint::check(&scheme, &common) {
                self.report(wrong.span, wrong.problem);
            }
        }
        Some(Profile::of_scheme(common, scheme).with_records(records.flatten()))
    }

    fn compile_scheme(&mut self, mut file: SchemeFile) -> Option<Scheme> {
        self.names.documents = ["f", "q", "i"].map(str::to_owned).to_vec();
        self.names.constants = file.constants.keys().cloned().collect();
        let constants: BTreeMap<_, _> = std::mem::take(&mut file.constants)
            .into_iter()
            .map(|(name, value)| (name, Some(value).filter(|value| !value.is_empty())))
            .collect();
        let (head, notice) = (file.head.take(), file.notice.take());
        let methods = notice.as_ref().map(|notice| self.compile_methods(notice));
        let documents =
            file.documents.iter().filter_map(|file| self.compile_document(file)).collect();
        let items = file.items.take().and_then(|items| self.compile_items(&items.at, items.forged));
        let pairs = file.pairs.iter().filter_map(|pairs| self.compile_pairs(pairs)).collect();
        let texts = self.compile_texts(&file);
        self.texts.clone_from(&texts);
        let key = self.compile_key(&file);
        let signs =
            file.signs.iter().enumerate().filter_map(|(at, sign)| self.compile_sign(at, sign));
        let signs: Vec<_> = signs.collect();
        let require =
            file.require.iter().filter_map(|rule| self.compile_requirement(rule)).collect();
        let fields = file.fields.iter().filter_map(|rule| self.compile_field(rule)).collect();
        let map = file.map.take().map(|map| {
            self.check_event_formats(&map, &file.events);
            self.compile_map(&map)
        });
        let events: Vec<_> =
            file.events.iter().filter_map(|event| self.compile_event(event)).collect();
        let time = file.time.as_ref().map(|time| self.compile_time(time));
        let acks = self.compile_acks(&file.acks);
        let query = file.query.as_ref().and_then(|query| self.compile_query(query));
        let create = file.create.as_ref().and_then(|create| self.compile_create(create));
        let oauth = file.oauth.as_ref().map(|oauth| {
            let calls =
                [query.as_ref().map(|query| &query.question), create.as_ref().map(|c| &c.rule)];
            // A section that can't be read might name {access_token}, so only complete calls are
            // checked.
            if calls.map(|call| call.is_some()) == [file.query.is_some(), file.create.is_some()] {
                self.check_token_use(oauth, calls);
            }
            self.compile_oauth(oauth)
        });
        let (head, notice, map, time) = (head?, notice?, map?, time?);
        let (methods, content) = methods?;
        let exceptions = head.exceptions.as_ref().map(Spanned::get_ref).into_iter().flatten();
        Some(Scheme {
            methods,
            content,
            case: notice.case,
            content_types: notice.content_types.clone().unwrap_or_else(|| content.usual_types()),
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
            exceptions: exceptions.map(|name| lint::exception_name(name.get_ref())).collect(),
            exceptions_span: head.exceptions.as_ref().map_or(0..0, Spanned::span),
            open: OpenParts::default(),
            kept: KeptParts::default(),
            needs_one_reading: true,
        })
    }

    fn compile_methods(&mut self, notice: &NoticeFile) -> (Vec<String>, NoticeFormat) {
        let content = *notice.content.get_ref();
        let default = if content == NoticeFormat::Query { "GET" } else { "POST" };
        let mut methods = vec![default.to_owned()];
        if let Some(listed) = &notice.methods {
            methods = listed.get_ref().iter().map(|method| method.get_ref().clone()).collect();
            let is_known = |method: &String| METHODS.contains(&method.as_str());
            if methods.is_empty() || !methods.iter().all(is_known) {
                self.report(listed.span(), "notice.methods may have \"POST\" and \"GET\"");
            }
            if methods.iter().any(|m| m == "GET") && content != NoticeFormat::Query {
                let problem = "a GET has no body; notice.content must be \"query\"";
                self.report(notice.content.span(), problem);
            }
        }
        (methods, content)
    }

    /// Parses a template. `None` after reporting a mistake.
    pub(super) fn parse_template(&mut self, text: &SpannedText) -> Option<Template> {
        match Template::parse(text.get_ref(), &self.names) {
            Ok(template) => Some(template),
            Err(error) => {
                self.report(text.span(), error.0);
                None
            }
        }
    }

    /// Parses a template that must be one token of a header or a document.
    pub(super) fn parse_token(&mut self, text: &SpannedText) -> Option<TemplateToken> {
        let template = self.parse_template(text)?;
        let token = template.single().filter(|token| token.is_place());
        if token.is_none() {
            let problem =
                "write one place here, such as \"{f.status}\", \"{q.status}\" or \"{h.X-Status}\"";
            self.report(text.span(), problem);
        }
        token.cloned()
    }

    fn compile_document(&mut self, file: &DocumentFile) -> Option<DocumentRule> {
        let from = self.parse_template(&file.from)?;
        let decrypt = match &file.decrypt {
            None => None,
            Some(decrypt) => Some(DecryptRule {
                nonce: self.parse_template(&decrypt.nonce)?,
                associated_data: match &decrypt.associated_data {
                    Some(text) => self.parse_template(text)?,
                    None => Template::default(),
                },
            }),
        };
        let one = |text: &Option<SpannedText>, default: &str| {
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
        self.check_name(&file.name, "document");
        self.names.documents.push(file.name.get_ref().clone());
        let name = file.name.get_ref().clone();
        Some(DocumentRule { name, from, decode: file.decode, decrypt, content })
    }

    fn check_name(&mut self, name: &SpannedText, what: &str) {
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
                "{what} needs a name of letters, digits and _ that is not used yet and is none of \
                 {}",
                RESERVED.join(", ")
            );
            self.report(name.span(), problem);
        }
    }

    /// Parses a place: `f`, `q`, `i` or a document's name, and a path if there is one.
    fn parse_place(&mut self, text: &SpannedText) -> Option<(usize, Vec<String>)> {
        let (name, rest) = text.get_ref().split_once('.').unwrap_or((text.get_ref(), ""));
        let Some(document) = self.names.documents.iter().position(|known| known == name) else {
            let known = self.names.documents.join(", ");
            self.report(
                text.span(),
                format!("there is no document {name} before this; there are: {known}"),
            );
            return None;
        };
        match if rest.is_empty() { Ok(Vec::new()) } else { path(rest) } {
            Ok(path) => Some((document, path)),
            Err(error) => {
                self.report(text.span(), error.0);
                None
            }
        }
    }

    fn compile_items(
        &mut self,
        at: &SpannedText,
        forged: crate::scheme::rules::ForgedItemPolicy,
    ) -> Option<ItemsRule> {
        let of = self.parse_place(at)?;
        if of.0 == ITEM {
            self.report(at.span(), "items.at must be a place of f or of a document");
        }
        Some(ItemsRule { of, forged })
    }

    fn compile_pairs(&mut self, file: &PairsFile) -> Option<PairList> {
        let of = self.parse_place(&file.of)?;
        let pick = match (&file.keys, &file.prefix) {
            (Some(keys), Some(_)) => {
                self.report(keys.span(), "pairs take keys or a prefix, not both");
                return None;
            }
            (Some(keys), None) => PairSelection::Listed(keys.get_ref().clone()),
            (None, Some(prefix)) => PairSelection::Prefix(prefix.get_ref().clone()),
            (None, None) => PairSelection::All,
        };
        let default = if matches!(pick, PairSelection::Listed(_)) {
            PairOrder::AsIs
        } else {
            PairOrder::Sorted
        };
        self.check_name(&file.name, "pairs");
        self.names.pairs.push(file.name.get_ref().clone());
        Some(PairList {
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

    fn compile_texts(&mut self, file: &SchemeFile) -> Vec<Template> {
        let mut texts = Vec::new();
        for text in &file.texts {
            let Some(template) = self.parse_template(&text.text) else { continue };
            self.check_name(&text.name, "text");
            self.names.texts.push(text.name.get_ref().clone());
            texts.push(template);
        }
        texts
    }

    fn compile_requirement(&mut self, file: &RequireFile) -> Option<Requirement> {
        let (value, equals) =
            (self.parse_template(&file.value)?, self.parse_template(&file.equals)?);
        Some(Requirement { value, equals })
    }

    fn compile_field(&mut self, file: &FieldFile) -> Option<FieldRule> {
        let at = self.parse_token(&file.at)?;
        let pattern = match &file.pattern {
            None => None,
            Some(pattern) => match compile_whole_match(pattern.get_ref()) {
                Ok(regex) => Some(regex),
                Err(problem) => {
                    self.report(pattern.span(), problem);
                    None
                }
            },
        };
        Some(FieldRule { at, pattern, shape: file.shape, refuses_empty: file.refuse_empty })
    }
}

/// Compiles a pattern that must match the whole value. The pattern is compiled alone first, because
/// `a)|(?:b` would be valid between `^(?:` and `)$` and match a part. Named groups are refused:
/// `unique` joins the patterns into one. Errors: why the pattern can't be used.
fn compile_whole_match(pattern: &str) -> Result<Regex, &'static str> {
    const WRONG: &str = "this is no regular expression of the regex crate";
    Regex::new(pattern).map_err(|_| WRONG)?;
    let whole = Regex::new(&format!("^(?:{pattern})$")).map_err(|_| WRONG)?;
    if whole.capture_names().any(|name| name.is_some()) {
        return Err("a group has a name; write (…) for (?P<name>…)");
    }
    Ok(whole)
}
