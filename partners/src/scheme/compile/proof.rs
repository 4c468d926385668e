//! Owns the compiling of what shows who calls: the credential and the signature of a call of ours.

use toml::Spanned;

use super::Compiler;
use super::call::Part;
use crate::scheme::call::{CallSign, Credential, mentions};
use crate::scheme::crypt::Algorithm;
use crate::scheme::file::call::{CallFile, CallSignFile, CredentialFile};
use crate::scheme::template::{Source, Template};

impl Compiler {
    pub(super) fn credential(&mut self, file: &CallFile) -> Option<Credential> {
        let head = &file.head;
        let kind = head.credential.as_ref().map(|kind| *kind.get_ref()).unwrap_or_default();
        let span = head.credential.as_ref().map_or_else(|| head.path.span(), Spanned::span);
        let given = [&head.user, &head.password, &head.token].map(Option::is_some);
        match (kind, given) {
            (CredentialFile::None, [false, false, false]) => Some(Credential::None),
            (CredentialFile::Basic, [true, _, false]) => {
                let user = head.user.as_ref().and_then(|text| self.of_call(text, Part::Header));
                let password = match &head.password {
                    None => Some(Template::default()),
                    Some(text) => self.of_call(text, Part::Header),
                };
                Some(Credential::Basic { user: user?, password: password? })
            }
            (CredentialFile::Bearer, [false, false, true]) => {
                let token = head.token.as_ref()?;
                self.of_call(token, Part::Header).map(Credential::Bearer)
            }
            _ => {
                let problem = "a credential is none, \"basic\" with user and, if there is one, password, or \"bearer\" with token";
                self.wrong(span, problem);
                None
            }
        }
    }

    pub(super) fn call_sign(&mut self, file: &CallSignFile) -> Option<CallSign> {
        let algorithm = *file.algorithm.get_ref();
        if !algorithm.signs_the_text() {
            let problem = "a call is signed with hmac-…, a plain digest, rsa-sha256, rsa-sha512 or ed25519; for a token write \
                           credential = \"bearer\"";
            self.wrong(file.algorithm.span(), problem);
        }
        if algorithm == Algorithm::RsaSha1 {
            let problem = "no call is signed with rsa-sha1, which can be forged; ask the partner for rsa-sha256";
            self.wrong(file.algorithm.span(), problem);
        }
        let text = self.of_call(&file.text, Part::SignText)?;
        if algorithm.is_plain_digest() && !mentions(&text, &Source::Secret) {
            let problem = "a plain digest without {secret} in its text can be made by anybody";
            self.wrong(file.algorithm.span(), problem);
        }
        Some(CallSign { algorithm, text, output: file.output })
    }
}
