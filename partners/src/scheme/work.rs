//! Owns what refusing a notice of a custom scheme costs: as many signature checks whether the account it names exists
//! or not, so that the time of a 401 does not tell which accounts there are. Counted are checks, by `[[sign]]`. And which
//! schemes sign all items of an array alike, so that one check is enough for them.

use std::sync::Arc;

use payfold_schemas::time::Time;

use super::claims::{claimed, read_claims};
use super::crypt::Ready;
use super::reading::Context;
use super::signed_text::SignedTextDigest;
use super::template::{Source, Template, Token};
use super::{ITEM, Scheme, SignRule};
use crate::directory::Account;

/// The checks that a refusal costs at least.
#[derive(Debug, Default)]
pub(crate) struct SchemeWork {
    by_sign: Vec<SignWork>,
}

#[derive(Debug, Default)]
struct SignWork {
    /// The most keys that one account has for this `[[sign]]` at once.
    keys_max: usize,
    /// What the checks are made with that nobody's key is there for.
    key: Option<Ready>,
}

/// The keys tried for one notice, by `[[sign]]`.
#[derive(Debug)]
pub(crate) struct Tried(Vec<usize>);

impl Tried {
    pub(crate) fn none(scheme: &Scheme) -> Self {
        Self(vec![0; scheme.signs.len()])
    }

    /// Adds a key of the `[[sign]]` at this place.
    pub(crate) fn add(&mut self, sign: usize) {
        self.0[sign] += 1;
    }
}

impl SchemeWork {
    /// The work of the accounts of one partner.
    pub(crate) fn of(scheme: &Scheme, accounts: &[Arc<Account>]) -> Self {
        let keys = || accounts.iter().map(|account| account.scheme_keys());
        let names_key = scheme.key.id.is_some();
        let by_sign = (0..scheme.signs.len()).map(|sign| {
            let most = keys().map(|keys| keys.most_at_once(sign)).max().unwrap_or(0);
            let key = keys().find_map(|keys| keys.keys.iter().find_map(|k| k.ready[sign].clone()));
            // A notice that names its key is tried with that one alone.
            SignWork { keys_max: if names_key { most.min(1) } else { most }, key }
        });
        Self { by_sign: by_sign.collect() }
    }

    /// Makes the checks that `tried` lacks, and forgets what they say.
    pub(crate) fn spend(&self, tried: &Tried, bare: Context<'_>) {
        let signs = bare.reading.scheme().signs.iter().zip(&self.by_sign);
        for ((sign, work), tried) in signs.zip(&tried.0) {
            let Some(key) = &work.key else { continue };
            for _ in *tried..work.keys_max {
                std::hint::black_box(find_signed_text(sign, key, bare));
            }
        }
    }
}

impl super::SchemeKeys {
    /// The most keys for the `[[sign]]` at this place that count at any one instant.
    fn most_at_once(&self, sign: usize) -> usize {
        let fitting = || self.keys.iter().filter(|key| key.ready[sign].is_some());
        // The number that count only grows where one begins.
        let begins = fitting().map(|key| key.valid_from);
        let count = |at: Time| fitting().filter(|key| key.is_valid_at(at)).count();
        begins.map(count).max().unwrap_or(0)
    }
}

impl Scheme {
    /// Whether all items of an array that name one merchant have one signer: nothing of an item is signed, says which
    /// key signed, or says whether the notice is for an account.
    pub(crate) fn signs_items_alike(&self) -> bool {
        let Some(_) = &self.items else { return false };
        let decrypts = self.documents.iter().filter_map(|rule| rule.decrypt.as_ref());
        let opening = decrypts.flat_map(|rule| [&rule.nonce, &rule.associated_data]);
        let documents = self.documents.iter().map(|rule| &rule.from).chain(opening);
        let texts = self.signs.iter().map(|sign| &sign.text);
        let required = self.require.iter().flat_map(|rule| [&rule.value, &rule.equals]);
        // A merchant that no account's key is needed for chooses the accounts before any is tried.
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

    fn reads_item_at(&self, token: &Token) -> bool {
        match &token.source {
            Source::Field(document, _) => *document == ITEM,
            Source::Pairs(number) => self.pairs[*number].of.0 == ITEM,
            Source::Text(number) => self.reads_item(&self.texts[*number]),
            Source::Body
            | Source::Method
            | Source::Path
            | Source::Query
            | Source::Url
            | Source::Merchant
            | Source::Secret
            | Source::Constant(_)
            | Source::Header(_)
            | Source::Value(_) => false,
        }
    }
}

/// The digest of the signed text, if one of the signatures that were sent is this key's.
pub(crate) fn find_signed_text(
    sign: &SignRule,
    key: &Ready,
    bare: Context<'_>,
) -> Option<SignedTextDigest> {
    let context = Context { secret: key.secret(), ..bare };
    let claims = read_claims(sign, &claimed(sign, context));
    if claims.is_empty() {
        return None;
    }
    let text = context.text(&sign.text).ok()?;
    key.verifies_any(sign.algorithm, &text, &claims).then(|| SignedTextDigest::of(&text))
}
