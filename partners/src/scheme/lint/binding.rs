//! Owns the rule that a signed notice shows which account it is for. If one account has the secret,
//! the signature is enough. A public key, or a secret that two accounts share, shows only which
//! partner signed; then the signed text must name the account.

use super::coverage::covered_by;
use crate::profile::mistake::ProfileMistake;
use crate::scheme::compiled::Scheme;
use crate::scheme::crypt::KeyKind;
use crate::scheme::rules::{ConfirmPolicy, SignRule};
use crate::scheme::template::{Template, TokenSource};

/// Checks every `[[sign]]` with a public key: the partner signs the notices of all its merchants
/// with it.
pub(super) fn check_binding(scheme: &Scheme, problems: &mut Vec<ProfileMistake>) {
    let public = scheme.signs.iter().filter(|sign| sign.algorithm.key_kind() == KeyKind::Public);
    for sign in public
        .filter(|sign| scheme.confirm != ConfirmPolicy::Always && scheme.bindings(sign).is_empty())
    {
        let problem = format!(
            "[[sign]] {} is checked with a public key of the partner, which signs the notices of \
             all its merchants, and the signed text does not name the merchant: a payment at \
             another merchant's account could count as yours; map merchant to a place in the \
             signed text, or write a [[require]] that a signed place equals a constant which every \
             account sets (empty in [constants]), or write confirm = \"always\"",
            sign.name
        );
        problems.push(ProfileMistake { span: sign.span.clone(), problem });
    }
}

/// A place of a notice that names its account.
pub(crate) struct AccountBinding<'s> {
    pub(crate) place: &'s Template,
    /// What the place equals; `None` if it is the account's merchant code.
    pub(crate) equals: Option<&'s Template>,
}

impl Scheme {
    /// The places by which a notice that passes this `[[sign]]` names its account: values that no
    /// third party can change, or that a query confirms.
    pub(crate) fn bindings(&self, sign: &SignRule) -> Vec<AccountBinding<'_>> {
        // A query is made with the account's own key, so it does not confirm a payment of another
        // account, and the name need not be signed.
        let is_confirmed = self.confirms(sign);
        let is_trusted = |template: &Template| {
            let tokens = template.tokens();
            !tokens.is_empty()
                && tokens.iter().all(|token| is_sent(&token.source))
                && (is_confirmed || tokens.iter().all(|token| covered_by(self, sign, token)))
        };
        let merchant = self.map.merchant.iter();
        let merchant = merchant.map(|place| AccountBinding { place, equals: None });
        let required = self.require.iter().flat_map(|rule| {
            let both_ways = [(&rule.value, &rule.equals), (&rule.equals, &rule.value)];
            both_ways.map(|(place, equals)| AccountBinding { place, equals: Some(equals) })
        });
        let is_binding = |binding: &AccountBinding<'_>| {
            is_trusted(binding.place)
                && binding.equals.is_none_or(|equals| self.is_of_account(equals))
        };
        merchant.chain(required).filter(is_binding).collect()
    }

    /// Whether a template differs between accounts and does not depend on the notice.
    fn is_of_account(&self, template: &Template) -> bool {
        let tokens = template.tokens();
        let is_own = |source: &TokenSource| match source {
            TokenSource::Merchant => true,
            TokenSource::Constant(name) => self.constants.get(name).is_some_and(Option::is_none),
            _ => false,
        };
        tokens.iter().any(|token| is_own(&token.source))
            && !tokens.iter().any(|token| is_sent(&token.source))
    }
}

/// Whether the sender of a notice chooses this value.
const fn is_sent(source: &TokenSource) -> bool {
    !matches!(
        source,
        TokenSource::Secret
            | TokenSource::Merchant
            | TokenSource::Constant(_)
            | TokenSource::Value(_)
            | TokenSource::Method
    )
}
