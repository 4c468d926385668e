//! Owns the marks that separate values in signed texts. A payer may have chosen a description; what we sign with a secret that
//! notices are signed with, too, must not read as a notice, so such texts hold none of them.

use super::call::CallRule;
use super::crypt::KeyKind;
use super::filter::Filter;
use super::template::{Source, Template};
use super::{BODY, Scheme, SignRule};

impl Scheme {
    /// What separates values in the notices' texts that a shared secret signs.
    pub(crate) fn notice_marks(&self) -> String {
        let mut marks = String::new();
        let is_shared = |sign: &&SignRule| sign.algorithm.key_kind() == KeyKind::Shared;
        for sign in self.signs.iter().filter(is_shared) {
            self.marks_of(&sign.text, &mut marks);
        }
        marks
    }

    /// Those of a template, of its texts and its lists.
    fn marks_of(&self, template: &Template, into: &mut String) {
        into.push_str(&template.literals().concat());
        for token in template.tokens() {
            match &token.source {
                // A text names only those before it.
                Source::Text(number) => self.marks_of(&self.texts[*number], into),
                Source::Pairs(number) => {
                    let list = &self.pairs[*number];
                    into.extend([list.separator.as_str(), list.assign.as_str()]);
                }
                _ => {}
            }
        }
    }
}

impl CallRule {
    /// What separates values in the signed text, if one of these stands among them as it is, and in `notices`, the texts that
    /// notices are signed by. A payer may choose such a value; with the marks in it, what we sign could be read as a notice of
    /// the partner's that is signed with the same secret.
    pub(crate) fn marks_signed_with(&self, values: &[usize], notices: &str) -> Vec<char> {
        let shared = self.sign.as_ref().filter(|sign| sign.algorithm.key_kind() == KeyKind::Shared);
        let Some(sign) = shared else { return Vec::new() };
        let holds = |template: &Template| values.iter().any(|value| self.bares(template, *value));
        let mut marks = notices.to_owned();
        self.literals(&sign.text, &mut marks);
        let mut is_signed = holds(&sign.text);
        for token in sign.text.tokens() {
            match &token.source {
                Source::Field(BODY, path) => {
                    if let Some(field) = self.field(path).filter(|field| holds(field)) {
                        is_signed = true;
                        self.literals(field, &mut marks);
                    }
                }
                Source::Pairs(number) => {
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

    /// Whether a template has this value with its own punctuation, itself or through a text.
    fn bares(&self, template: &Template, value: usize) -> bool {
        template.tokens().iter().any(|token| {
            token.filters.iter().all(Filter::lets_marks_through)
                && match &token.source {
                    Source::Text(number) => self.bares(&self.texts[*number], value),
                    other => *other == Source::Value(value),
                }
        })
    }

    /// What stands between the values of a template, that of its texts included.
    fn literals(&self, template: &Template, into: &mut String) {
        into.push_str(&template.literals().concat());
        for token in template.tokens() {
            if let Source::Text(number) = &token.source {
                self.literals(&self.texts[*number], into);
            }
        }
    }
}
