//! Owns what refusing a notice of a custom scheme costs: as many signature checks whether the account it names exists
//! or not, so that the time of a 401 does not tell which accounts there are. Counted are checks, by `[[sign]]`.

use std::sync::Arc;

use payfold_schemas::time::Time;

use super::claims::{claimed, read_claims};
use super::crypt::Ready;
use super::reading::Context;
use super::signed_text::SignedTextDigest;
use super::{Scheme, SignRule};
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
