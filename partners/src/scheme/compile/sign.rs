//! Owns the compiling of `[key]` and `[[sign]]`: how a secret becomes a key, and how a notice may be signed.

use super::Compiler;
use crate::scheme::crypt::{Algorithm, Output};
use crate::scheme::file::{SchemeFile, SignFile};
use crate::scheme::template::Template;
use crate::scheme::{KeyRule, SignRule};

impl Compiler {
    pub(super) fn key(&mut self, file: &SchemeFile) -> KeyRule {
        let Some(key) = &file.key else { return KeyRule::default() };
        let id = key.id.as_ref().and_then(|id| self.template(id));
        KeyRule { encoding: key.encoding, prefix: key.prefix.clone(), id }
    }

    pub(super) fn sign(&mut self, at: usize, file: &SignFile) -> Option<SignRule> {
        let (algorithm, span) = (*file.algorithm.get_ref(), file.algorithm.span());
        let text = match &file.text {
            Some(text) => self.template(text)?,
            None if !algorithm.signs_the_text() => Template::default(),
            None => {
                self.wrong(span, "this algorithm needs a text: what is signed");
                return None;
            }
        };
        let signature = match &file.signature {
            Some(place) => {
                let token = self.token(place)?;
                if !token.filters.is_empty() {
                    let problem = "a signature is read as it stands: no filter changes it; see prefix, split and output";
                    self.wrong(place.span(), problem);
                }
                Some(token)
            }
            None if algorithm == Algorithm::None => None,
            None => {
                self.wrong(span, "this algorithm needs a signature: the place where it stands");
                return None;
            }
        };
        let output = match (&file.output, algorithm) {
            (Some(output), _) => *output.get_ref(),
            (None, Algorithm::None | Algorithm::Token) => Output::Text,
            (None, _) => {
                self.wrong(span, "this algorithm needs an output: hex-lower, hex-upper, hex, base64 or base64url");
                return None;
            }
        };
        let name = file.name.clone().unwrap_or_else(|| format!("sign-{}", at + 1));
        let split = file.split.as_ref().map(|split| split.get_ref().clone());
        if algorithm.is_plain_digest() && !self.mentions_secret(&text) {
            self.wrong(
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
        })
    }
}
