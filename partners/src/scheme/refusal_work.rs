//! Owns the cost of refusing a notice of a custom scheme: the same number of signature checks
//! whether the account it names exists or not, so that the response time of a 401 does not reveal
//! which accounts exist. It also owns which schemes sign all items of an array together, so that
//! one check is enough for them.

use std::sync::Arc;

use payfold_schemas::time::Time;

use super::crypt::ReadyKey;
use super::message::TemplateContext;
use super::signature_check::check_signature;
use super::template::{Template, TemplateToken, TokenSource};
use crate::directory::account::Account;
use crate::directory::key_count::KeyCount;
use crate::key_window::early_begins;
use crate::scheme::compiled::Scheme;
use crate::scheme::keys::{SchemeKey, SchemeKeys};
use crate::scheme::rules::ITEM;
use crate::signed_content::SignedContent;

/// The signature checks that every refusal costs.
#[derive(Debug, Default)]
pub(crate) struct RefusalWork {
    by_sign: Vec<SignWork>,
}

#[derive(Debug, Default)]
struct SignWork {
    /// The keys that one account has for this `[[sign]]`.
    keys: KeyCount,
    /// A key of some account, used for the checks that are made only for their time.
    key: Option<ReadyKey>,
}

/// The keys tried for one notice, and what the checks have cost.
#[derive(Debug)]
pub(crate) struct TriedKeys {
    /// The number of keys, by `[[sign]]`.
    by_sign: Vec<usize>,
    /// The bytes that the checks have hashed.
    pub(crate) bytes: usize,
}

impl TriedKeys {
    pub(crate) fn none(scheme: &Scheme) -> Self {
        Self { by_sign: vec![0; scheme.signs.len()], bytes: 0 }
    }

    /// Checks a notice under a key of the `[[sign]]` with this index.
    pub(crate) fn check(
        &mut self,
        sign: usize,
        key: &ReadyKey,
        bare: TemplateContext<'_>,
    ) -> Option<SignedContent> {
        self.by_sign[sign] += 1;
        let checked = check_signature(&bare.message.scheme().signs[sign], key, bare)?;
        self.bytes = self.bytes.saturating_add(checked.bytes);
        checked.signed
    }
}

impl RefusalWork {
    /// Computes the work for the accounts of one partner.
    pub(crate) fn compute(scheme: &Scheme, accounts: &[Arc<Account>]) -> Self {
        let keys = || accounts.iter().map(|account| account.scheme_keys());
        let names_key = scheme.key.id.is_some();
        let by_sign = (0..scheme.signs.len()).map(|sign| {
            let key = keys().find_map(|keys| keys.keys.iter().find_map(|k| k.ready[sign].clone()));
            let mut count = KeyCount::default();
            keys().for_each(|keys| {
                count.add(keys.most_at_once(sign), early_begins(&keys.keys, SchemeKey::window));
            });
            // A notice that names its key is checked with that key only.
            SignWork { keys: if names_key { count.of_named_key() } else { count }, key }
        });
        Self { by_sign: by_sign.collect() }
    }

    /// Makes the checks that `tried` lacks at `now` and discards their results.
    pub(crate) fn spend(&self, tried: &mut TriedKeys, bare: TemplateContext<'_>, now: Time) {
        for (sign, work) in self.by_sign.iter().enumerate() {
            let Some(key) = &work.key else { continue };
            while tried.by_sign[sign] < work.keys.most_at(now) {
                // Without black_box the compiler may drop a check because its result is not used.
                std::hint::black_box(tried.check(sign, key, bare));
            }
        }
    }
}

impl SchemeKeys {
    /// The most keys of the `[[sign]]` with this index that are valid at the same time.
    fn most_at_once(&self, sign: usize) -> usize {
        let fitting = || self.keys.iter().filter(|key| key.ready[sign].is_some());
        // The number of valid keys grows only when a key becomes valid.
        let begins = fitting().map(|key| key.window.begins);
        let count = |at: Time| fitting().filter(|key| key.is_valid_at(at)).count();
        begins.map(count).max().unwrap_or(0)
    }
}

impl Scheme {
    /// Whether all items of an array with the same merchant have the same signer. That holds if no
    /// item is part of the signed text, names the key, or decides which account the notice is for.
    pub(crate) fn signs_items_alike(&self) -> bool {
        let Some(_) = &self.items else { return false };
        let decrypts = self.documents.iter().filter_map(|rule| rule.decrypt.as_ref());
        let opening = decrypts.flat_map(|rule| [&rule.nonce, &rule.associated_data]);
        let documents = self.documents.iter().map(|rule| &rule.from).chain(opening);
        let texts = self.signs.iter().map(|sign| &sign.text);
        let required = self.require.iter().flat_map(|rule| [&rule.value, &rule.equals]);
        // A merchant that can be read without an account selects the accounts before any key is
        // tried.
        let merchant = self.map.merchant.as_ref().filter(|_| !self.open.names_account);
        let mut templates =
            documents.chain(texts).chain(required).chain(merchant).chain(&self.key.id);
        let mut signatures = self.signs.iter().filter_map(|sign| sign.signature.as_ref());
        !templates.any(|template| self.reads_item(template))
            && !signatures.any(|token| self.reads_item_at(token))
    }

    fn reads_item(&self, template: &Template) -> bool {
        template.tokens().into_iter().any(|token| self.reads_item_at(token))
    }

    fn reads_item_at(&self, token: &TemplateToken) -> bool {
        match &token.source {
            TokenSource::Field(document, _) => *document == ITEM,
            TokenSource::Pairs(number) => self.pairs[*number].of.0 == ITEM,
            TokenSource::Text(number) => self.reads_item(&self.texts[*number]),
            TokenSource::Body
            | TokenSource::Method
            | TokenSource::Path
            | TokenSource::Query
            | TokenSource::Url
            | TokenSource::Merchant
            | TokenSource::Secret
            | TokenSource::Constant(_)
            | TokenSource::Header(_)
            | TokenSource::Value(_) => false,
        }
    }
}
