//! Owns the compiling of `[oauth]`. What asks for a token without showing who asks, or a token no call carries, is refused.

use toml::Spanned;

use super::Compiler;
use super::create::shows_who;
use crate::scheme::Scheme;
use crate::scheme::call::{ACCESS_TOKEN, CallRule};
use crate::scheme::file::Text;
use crate::scheme::file::call::MethodFile;
use crate::scheme::file::oauth::{GrantFile, OauthFile};
use crate::scheme::oauth::{GrantRule, SchemeToken};
use crate::scheme::template::Template;

/// What stands where in the answer of RFC 6749, 5.1 and 5.2.
const TOKEN: &str = "{a.access_token}";
const EXPIRES_IN: &str = "{a.expires_in}";
const REFUSAL: &str = "{a.error}";

impl Compiler {
    pub(super) fn oauth(&mut self, file: &OauthFile) -> Option<SchemeToken> {
        let outer = self.begin_call(&[]);
        let method = match file.call.head.method.as_ref().map(Spanned::get_ref) {
            Some(MethodFile::Get) => crate::scheme::call::Method::Get,
            Some(MethodFile::Post) | None => crate::scheme::call::Method::Post,
        };
        let rule = self.call("oauth", &file.call, method);
        self.begin_answer();
        let grant = self.grant(&file.answer);
        self.names = outer;
        let head = &file.head;
        let ttl_s = self.or_default("oauth.ttl_s", &head.ttl_s, (300, 1..=86_400));
        let timeout_s = self.or_default("oauth.timeout_s", &head.timeout_s, (10, 1..=60));
        let rule = rule?;
        if !shows_who(&rule) && !self.has_certificate {
            let problem = "nothing shows who asks: write a credential, or {secret} into a field, or client_certificate = true";
            self.wrong(file.call.head.path.span(), problem);
        }
        Some(SchemeToken {
            rule,
            grant: GrantRule { ttl_s: u64::try_from(ttl_s).unwrap_or(1), ..grant? },
            timeout_ms: u64::try_from(timeout_s).unwrap_or(1).saturating_mul(1_000),
        })
    }

    fn grant(&mut self, file: &GrantFile) -> Option<GrantRule> {
        let GrantFile { success, refusal, token, expires_in } = file;
        let conditions = success.iter().map(|condition| &condition.get_ref().value);
        for text in [refusal, token, expires_in].into_iter().flatten().chain(conditions) {
            self.of_answer(text);
        }
        let success: Vec<_> = success.iter().map(|c| self.condition(c)).collect();
        let mut place = |text: &Option<Text>, default: &str| match text {
            Some(text) => self.template(text),
            None => Template::parse(default, &self.names).ok(),
        };
        let places = [(refusal, REFUSAL), (token, TOKEN), (expires_in, EXPIRES_IN)]
            .map(|(t, d)| place(t, d));
        let [refusal, token, expires_in] = places;
        Some(GrantRule {
            success: success.into_iter().collect::<Option<_>>()?,
            refusal: refusal?,
            token: token?,
            expires_in: expires_in?,
            ttl_s: 0,
        })
    }

    /// A token that no call carries is asked for by nobody.
    pub(super) fn token_is_used(&mut self, file: &OauthFile, calls: [Option<&CallRule>; 2]) {
        if !calls.into_iter().flatten().any(|rule| rule.names(ACCESS_TOKEN)) {
            let problem = "{access_token} stands in no call; write credential = \"bearer\" and token = \"{access_token}\" into \
                           [create] or [query]";
            self.wrong(file.call.span.clone(), problem);
        }
    }
}

impl Scheme {
    /// Every call that is made of it.
    pub(crate) fn calls(&self) -> impl Iterator<Item = &CallRule> {
        let create = self.create.as_ref().map(|create| &create.rule);
        let query = self.query.as_ref().map(|query| &query.question);
        let oauth = self.oauth.as_ref().map(|oauth| &oauth.rule);
        [create, query, oauth].into_iter().flatten()
    }
}
