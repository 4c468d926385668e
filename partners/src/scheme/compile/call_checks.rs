//! Owns the checks of a whole call. A call that passes them has a plain path, no secret in its
//! address, and a signature over no part that holds the signature.

use crate::scheme::call::rule::{ACCESS_TOKEN, CallRule, SIGN, names_source};
use crate::scheme::compile::compiler::ProfileCompiler;
use crate::scheme::compile::lint_mode::LintMode;
use crate::scheme::file::call::CallFile;
use crate::scheme::file::tables::SpannedText;
use crate::scheme::rules::BODY;
use crate::scheme::template::{Template, TokenSource};

impl ProfileCompiler {
    /// Checks that the path begins with one `/`, and that its literals have no blanks, `#` or `\`.
    pub(super) fn check_path(&mut self, path: &SpannedText, template: Option<&Template>) {
        let text = path.get_ref();
        let is_plain = |literal: &&str| {
            literal.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '#' | '\\'))
        };
        let all_plain = template.is_none_or(|template| template.literals().iter().all(is_plain));
        if !text.starts_with('/') || text.starts_with("//") || !all_plain {
            let problem = format!(
                "{}.path must be a path that starts with /, without blanks and #",
                self.section
            );
            self.report(path.span(), problem);
        }
    }

    /// Checks that need the whole call: unknown fields, secrets in the address, and where `{sign}`
    /// is used.
    pub(super) fn check_whole_call(&mut self, file: &CallFile, rule: &CallRule) {
        let (at, section) = (file.head.path.span(), self.section);
        for template in rule.templates() {
            let unknown = template.tokens().into_iter().find(|token| match &token.source {
                TokenSource::Field(BODY, path) => rule.field(path).is_none(),
                _ => false,
            });
            if let Some(token) = unknown {
                let problem = format!("{} names no key of [{section}.fields]", token.written);
                self.report(at.clone(), problem);
            }
        }
        if let Some(written) = shown_in_address(rule) {
            let problem = format!(
                "{written} has the secret or an access token in it, which must not stand in an \
                 address; sign with it, or write a credential"
            );
            self.report(at.clone(), problem);
        }
        let stands = rule.sends(SIGN);
        match &rule.sign {
            None if stands => self.report(at, format!("{{sign}} needs [{section}.sign]")),
            Some(_) if !stands && self.lint == LintMode::Checked => {
                let problem = format!(
                    "[{section}.sign] makes {{sign}}, and nothing that is sent uses {{sign}}"
                );
                self.report(at, problem);
            }
            Some(sign) => {
                let over =
                    |sources: &[TokenSource]| sources.iter().any(|s| names_source(&sign.text, s));
                let (in_path, in_body) = rule.parts_with_signature();
                if (in_path && over(&[TokenSource::Path, TokenSource::Query, TokenSource::Url]))
                    || (in_body && over(&[TokenSource::Body]))
                    || rule.holds_sign(&sign.text)
                {
                    let problem = format!(
                        "{section}.sign.text includes the part of the request that holds {{sign}}; \
                         name the signed values instead"
                    );
                    self.report(at, problem);
                }
            }
            None => {}
        }
    }
}

/// The token, as written, that brings a secret into the path through a field. Addresses end up in
/// access logs.
fn shown_in_address(rule: &CallRule) -> Option<String> {
    let hidden = |template: &Template| {
        [TokenSource::Secret, TokenSource::Value(ACCESS_TOKEN)]
            .iter()
            .any(|one| names_source(template, one))
    };
    let shown = |source: &TokenSource| match source {
        TokenSource::Field(BODY, path) => rule.field(path).is_some_and(hidden),
        TokenSource::Pairs(_) => rule.fields.all.iter().any(|(_, field)| hidden(field)),
        _ => false,
    };
    let tokens = rule.path.tokens();
    tokens.into_iter().find(|token| shown(&token.source)).map(|token| token.written.clone())
}
