//! Owns compiling `[oauth]`. It refuses a token call that does not authenticate us, and a token
//! that no call carries.

use super::create::authenticates_us;
use crate::profile::bounds;
use crate::profile::spanned::Spanned;
use crate::scheme::call::rule::{ACCESS_TOKEN, CallRule};
use crate::scheme::compile::compiler::ProfileCompiler;
use crate::scheme::compiled::Scheme;
use crate::scheme::file::call::MethodFile;
use crate::scheme::file::oauth::{GrantFile, OauthFile};
use crate::scheme::file::tables::SpannedText;
use crate::scheme::oauth::rule::{SchemeOauth, TokenGrantRule};
use crate::scheme::template::Template;

/// The default templates of the answer (RFC 6749, 5.1 and 5.2).
const TOKEN: &str = "{a.access_token}";
const EXPIRES_IN: &str = "{a.expires_in}";
const REFUSAL: &str = "{a.error}";

impl ProfileCompiler {
    pub(super) fn compile_oauth(&mut self, file: &OauthFile) -> Option<SchemeOauth> {
        let outer = self.begin_call_names(&[]);
        let method = match file.call.head.method.as_ref().map(Spanned::get_ref) {
            Some(MethodFile::Get) => crate::scheme::call::rule::CallMethod::Get,
            Some(MethodFile::Post) | None => crate::scheme::call::rule::CallMethod::Post,
        };
        let rule = self.compile_call("oauth", &file.call, method);
        self.begin_answer_names();
        let grant = self.compile_grant(&file.answer);
        self.names = outer;
        let head = &file.head;
        let ttl_s = self.bounded_or_default("oauth.ttl_s", &head.ttl_s, (300, bounds::TOKEN_TTL_S));
        let timeout_s =
            self.bounded_or_default("oauth.timeout_s", &head.timeout_s, (10, bounds::TIMEOUT_S));
        let rule = rule?;
        if !authenticates_us(&rule) && !self.has_certificate {
            let problem = "the call does not authenticate us: write a credential, or {secret} into \
                a field, or client_certificate = true";
            self.report(file.call.head.path.span(), problem);
        }
        Some(SchemeOauth {
            rule,
            grant: TokenGrantRule { ttl_s: u64::try_from(ttl_s).unwrap_or(1), ..grant? },
            timeout_ms: u64::try_from(timeout_s).unwrap_or(1).saturating_mul(1_000),
        })
    }

    fn compile_grant(&mut self, file: &GrantFile) -> Option<TokenGrantRule> {
        let GrantFile { success, refusal, token, expires_in } = file;
        let conditions = success.iter().map(|condition| &condition.get_ref().value);
        for text in [refusal, token, expires_in].into_iter().flatten().chain(conditions) {
            self.check_answer_template(text);
        }
        let success: Vec<_> = success.iter().map(|c| self.compile_condition(c)).collect();
        let mut place = |text: &Option<SpannedText>, default: &str| match text {
            Some(text) => self.parse_template(text),
            None => Template::parse(default, &self.names).ok(),
        };
        let places = [(refusal, REFUSAL), (token, TOKEN), (expires_in, EXPIRES_IN)]
            .map(|(t, d)| place(t, d));
        let [refusal, token, expires_in] = places;
        Some(TokenGrantRule {
            success: success.into_iter().collect::<Option<_>>()?,
            refusal: refusal?,
            token: token?,
            expires_in: expires_in?,
            ttl_s: 0,
        })
    }

    /// Checks that some call carries the token.
    pub(super) fn check_token_use(&mut self, file: &OauthFile, calls: [Option<&CallRule>; 2]) {
        if !calls.into_iter().flatten().any(|rule| rule.names(ACCESS_TOKEN)) {
            let problem = "no call uses {access_token}; write credential = \"bearer\" and \
                token = \"{access_token}\" into [create] or [query]";
            self.report(file.call.span.clone(), problem);
        }
    }
}

impl Scheme {
    /// Every call of the scheme.
    pub(crate) fn calls(&self) -> impl Iterator<Item = &CallRule> {
        let create = self.create.as_ref().map(|create| &create.rule);
        let query = self.query.as_ref().map(|query| &query.question);
        let oauth = self.oauth.as_ref().map(|oauth| &oauth.rule);
        [create, query, oauth].into_iter().flatten()
    }
}
