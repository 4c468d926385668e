//! Owns the question for which account a signed notice is. A secret of an account says it by itself. A public key, or a
//! key that two accounts have, says only which partner signed: then the signed text has to say it.

use super::coverage::covered_by;
use crate::profile::file::Wrong;
use crate::scheme::crypt::KeyKind;
use crate::scheme::template::{Source, Template};
use crate::scheme::{Confirm, Scheme, SignRule};

/// A partner's public key signs the notices of all its merchants.
pub(super) fn binding(scheme: &Scheme, problems: &mut Vec<Wrong>) {
    let public = scheme.signs.iter().filter(|sign| sign.algorithm.key_kind() == KeyKind::Public);
    for sign in
        public.filter(|sign| scheme.confirm != Confirm::Always && !scheme.says_account(sign))
    {
        let problem = format!(
            "[[sign]] {} is made with the partner's own key, for all its merchants alike, and its text does not say for \
             which of them a notice is: whoever has an account there could have a payment of his own counted as yours; map \
             merchant to a place in the signed text, or write a [[require]] that a place in it equals a constant every account \
             has its own of (empty in [constants]), or write confirm = \"always\"",
            sign.name
        );
        problems.push(Wrong { span: sign.span.clone(), problem });
    }
}

impl Scheme {
    /// Whether a notice that passes this `[[sign]]` says for which account it is, and nobody could have changed it.
    pub(crate) fn says_account(&self, sign: &SignRule) -> bool {
        let is_confirmed = match self.confirm {
            Confirm::Always => true,
            Confirm::WhenUnsigned => !sign.algorithm.signs_the_text(),
            Confirm::Never => false,
        };
        // An account's own query confirms no payment of another one.
        let is_sure = |template: &Template| {
            let tokens = template.tokens();
            !tokens.is_empty()
                && tokens.iter().all(|token| is_sent(&token.source))
                && (is_confirmed || tokens.iter().all(|token| covered_by(self, sign, token)))
        };
        let required = self.require.iter().any(|rule| {
            (is_sure(&rule.value) && self.is_of_account(&rule.equals))
                || (is_sure(&rule.equals) && self.is_of_account(&rule.value))
        });
        required || self.map.merchant.as_ref().is_some_and(is_sure)
    }

    /// Whether a template is another text for every account, whatever the notice.
    fn is_of_account(&self, template: &Template) -> bool {
        let tokens = template.tokens();
        let is_own = |source: &Source| match source {
            Source::Merchant => true,
            Source::Constant(name) => self.constants.get(name).is_some_and(Option::is_none),
            _ => false,
        };
        tokens.iter().any(|token| is_own(&token.source))
            && !tokens.iter().any(|token| is_sent(&token.source))
    }
}

/// Whether it is part of what the sender sends.
const fn is_sent(source: &Source) -> bool {
    !matches!(
        source,
        Source::Secret | Source::Merchant | Source::Constant(_) | Source::Value(_) | Source::Method
    )
}
