//! Owns the marks that separate values in signed texts. A payer may choose a description. A request
//! that we sign with the secret of notices must not be readable as a notice, so the description
//! must not hold these marks.

use super::crypt::KeyKind;
use super::filter::Filter;
use super::template::{Template, TokenSource};
use crate::scheme::call::rule::CallRule;
use crate::scheme::compiled::Scheme;
use crate::scheme::rules::{BODY, SignRule};

impl Scheme {
    /// The marks between values in the texts of notices that are signed with a shared secret.
    pub(crate) fn notice_marks(&self) -> String {
        let mut marks = String::new();
        let is_shared = |sign: &&SignRule| sign.algorithm.key_kind() == KeyKind::Shared;
        for sign in self.signs.iter().filter(is_shared) {
            self.marks_of(&sign.text, &mut marks);
        }
        marks
    }

    /// Appends the marks of a template, its texts and its lists.
    fn marks_of(&self, template: &Template, into: &mut String) {
        into.push_str(&template.literals().concat());
        for token in template.tokens() {
            match &token.source {
                // This ends: a text names only texts before it.
                TokenSource::Text(number) => self.marks_of(&self.texts[*number], into),
                TokenSource::Pairs(number) => {
                    let list = &self.pairs[*number];
                    into.extend([list.separator.as_str(), list.assign.as_str()]);
                }
                _ => {}
            }
        }
    }
}

impl CallRule {
    /// The marks of the signed text and of `notices`, if the signed text holds one of `values`
    /// unencoded. A payer may choose such a value; with the marks in it, our signed text could be
    /// read as a notice that is signed with the same secret.
    pub(crate) fn marks_signed_with(&self, values: &[usize], notices: &str) -> Vec<char> {
        let shared = self.sign.as_ref().filter(|sign| sign.algorithm.key_kind() == KeyKind::Shared);
        let Some(sign) = shared else { return Vec::new() };
        let holds = |template: &Template| values.iter().any(|value| self.bares(template, *value));
        let mut marks = notices.to_owned();
        self.literals(&sign.text, &mut marks);
        let mut is_signed = holds(&sign.text);
        for token in sign.text.tokens() {
            match &token.source {
                TokenSource::Field(BODY, path) => {
                    if let Some(field) = self.field(path).filter(|field| holds(field)) {
                        is_signed = true;
                        self.literals(field, &mut marks);
                    }
                }
                TokenSource::Pairs(number) => {
                    let list = &self.fields.pairs[*number];
                    if list.lets_marks_through() && self.fields.all.iter().any(|(_, f)| holds(f)) {
                        is_signed = true;
                        marks.push_str(&list.separator);
                        marks.push_str(&list.assign);
                    }
                }
                _ => {}
            }
        }
        let is_mark = |c: &char| c.is_ascii_punctuation() || c.is_control();
        if is_signed { marks.chars().filter(is_mark).collect() } else { Vec::new() }
    }

    /// Whether a template writes this value with its punctuation, directly or through a text.
    fn bares(&self, template: &Template, value: usize) -> bool {
        template.tokens().iter().any(|token| {
            token.filters.iter().all(Filter::lets_marks_through)
                && match &token.source {
                    TokenSource::Text(number) => self.bares(&self.texts[*number], value),
                    other => *other == TokenSource::Value(value),
                }
        })
    }

    /// Appends the literals of a template and its texts.
    fn literals(&self, template: &Template, into: &mut String) {
        into.push_str(&template.literals().concat());
        for token in template.tokens() {
            if let TokenSource::Text(number) = &token.source {
                self.literals(&self.texts[*number], into);
            }
        }
    }
}
