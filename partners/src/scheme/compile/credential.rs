//! Owns compiling the credential and the signature of a call.

use super::call::CallPart;
use crate::profile::spanned::Spanned;
use crate::scheme::call::rule::{CallCredential, CallSign, names_source};
use crate::scheme::compile::compiler::ProfileCompiler;
use crate::scheme::crypt::SignAlgorithm;
use crate::scheme::file::call::{CallFile, CallSignFile, CredentialFile};
use crate::scheme::template::{Template, TokenSource};

impl ProfileCompiler {
    pub(super) fn compile_credential(&mut self, file: &CallFile) -> Option<CallCredential> {
        let head = &file.head;
        let kind = head.credential.as_ref().map(|kind| *kind.get_ref()).unwrap_or_default();
        let span = head.credential.as_ref().map_or_else(|| head.path.span(), Spanned::span);
        let given = [&head.user, &head.password, &head.token].map(Option::is_some);
        match (kind, given) {
            (CredentialFile::None, [false, false, false]) => Some(CallCredential::None),
            (CredentialFile::Basic, [true, _, false]) => {
                let user = head
                    .user
                    .as_ref()
                    .and_then(|text| self.parse_call_template(text, CallPart::Header));
                let password = match &head.password {
                    None => Some(Template::default()),
                    Some(text) => self.parse_call_template(text, CallPart::Header),
                };
                Some(CallCredential::Basic { user: user?, password: password? })
            }
            (CredentialFile::Bearer, [false, false, true]) => {
                let token = head.token.as_ref()?;
                self.parse_call_template(token, CallPart::Header).map(CallCredential::Bearer)
            }
            _ => {
                let problem = "a credential is none, \"basic\" with user and, if there is one, \
                    password, or \"bearer\" with token";
                self.report(span, problem);
                None
            }
        }
    }

    pub(super) fn compile_call_sign(&mut self, file: &CallSignFile) -> Option<CallSign> {
        let algorithm = *file.algorithm.get_ref();
        if !algorithm.signs_the_text() {
            let problem = "a call is signed with hmac-…, a plain digest, rsa-sha256, rsa-sha512 or \
                ed25519; for a token write credential = \"bearer\"";
            self.report(file.algorithm.span(), problem);
        }
        if algorithm == SignAlgorithm::RsaSha1 {
            let problem = "no call is signed with rsa-sha1, which can be forged; ask the partner \
                for rsa-sha256";
            self.report(file.algorithm.span(), problem);
        }
        let text = self.parse_call_template(&file.text, CallPart::SignText)?;
        if algorithm.is_plain_digest() && !names_source(&text, &TokenSource::Secret) {
            let problem = "a plain digest without {secret} in its text can be made by anybody";
            self.report(file.algorithm.span(), problem);
        }
        let separator = file.separator.as_ref().and_then(|separator| {
            let mut marks = separator.get_ref().chars();
            let mark = marks.next().filter(char::is_ascii_punctuation);
            if mark.is_none() || marks.next().is_some() {
                let problem = "separator is one ASCII punctuation mark, such as \"|\"";
                self.report(separator.span(), problem);
            }
            mark
        });
        Some(CallSign { algorithm, text, output: file.output, separator })
    }
}
