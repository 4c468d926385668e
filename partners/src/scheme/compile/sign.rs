//! Owns compiling `[key]` and `[[sign]]`: how a secret becomes a key, and how a notice may be
//! signed.

use crate::scheme::compile::compiler::ProfileCompiler;
use crate::scheme::crypt::SignAlgorithm;
use crate::scheme::file::scheme_file::SchemeFile;
use crate::scheme::file::tables::SignFile;
use crate::scheme::rules::{KeyRule, SignRule};
use crate::scheme::signature_encoding::SignatureEncoding;
use crate::scheme::template::Template;

impl ProfileCompiler {
    pub(super) fn compile_key(&mut self, file: &SchemeFile) -> KeyRule {
        let Some(key) = &file.key else { return KeyRule::default() };
        let id = key.id.as_ref().and_then(|id| self.parse_template(id));
        KeyRule { encoding: key.encoding, prefix: key.prefix.clone(), id }
    }

    pub(super) fn compile_sign(&mut self, at: usize, file: &SignFile) -> Option<SignRule> {
        let (algorithm, span) = (*file.algorithm.get_ref(), file.algorithm.span());
        let text = match &file.text {
            Some(text) => self.parse_template(text)?,
            None if !algorithm.signs_the_text() => Template::default(),
            None => {
                self.report(span, "this algorithm needs a text: what is signed");
                return None;
            }
        };
        let signature = match &file.signature {
            Some(place) => {
                let token = self.parse_token(place)?;
                if !token.filters.is_empty() {
                    let problem = "a signature is read as received, so it can't have filters; see \
                        prefix, split and output";
                    self.report(place.span(), problem);
                }
                Some(token)
            }
            None if algorithm == SignAlgorithm::None => None,
            None => {
                self.report(span, "this algorithm needs a signature: the place where it stands");
                return None;
            }
        };
        let output = match (&file.output, algorithm) {
            (Some(output), _) => *output.get_ref(),
            (None, SignAlgorithm::None | SignAlgorithm::Token) => SignatureEncoding::Text,
            (None, _) => {
                self.report(
                    span,
                    "this algorithm needs an output: hex-lower, hex-upper, hex, base64 or \
                     base64url",
                );
                return None;
            }
        };
        let name = file.name.clone().unwrap_or_else(|| format!("sign-{}", at + 1));
        let split = file.split.as_ref().map(|split| split.get_ref().clone());
        if algorithm.is_plain_digest() && !self.names_secret(&text) {
            self.report(
                span.clone(),
                "a plain digest without {secret} in its text can be made by anybody",
            );
        }
        Some(SignRule {
            span,
            name,
            algorithm,
            text,
            signature,
            split,
            prefix: file.prefix.clone(),
            output,
            covers_all: false,
            covers_time: false,
        })
    }
}
