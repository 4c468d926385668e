//! Owns finding the key of one account that signed a notice of a custom scheme.

use std::sync::Arc;

use payfold_schemas::ids::KeyId;
use payfold_schemas::time::Time;

use super::candidates::names_this_account;
use super::crypt::SignAlgorithm;
use super::message::TemplateContext;
use super::refusal_work::TriedKeys;
use crate::directory::account::Account;
use crate::key_window::tried_at;
use crate::scheme::keys::SchemeKey;
use crate::signed_content::SignedContent;

/// The account and key that signed a notice.
#[derive(Clone, Debug)]
pub(super) struct NoticeSigner {
    pub(super) account: Arc<Account>,
    pub(super) key_id: KeyId,
    pub(super) key_begins: Option<Time>,
    pub(super) sign: usize,
    pub(super) signed_text: SignedContent,
}

/// Finds the key of this account that signed the notice. `None` if the notice is not for this
/// account or no key matches.
pub(super) fn find_account_signer(
    account: &Arc<Account>,
    bare: TemplateContext<'_>,
    now: Time,
    tried: &mut TriedKeys,
) -> Option<NoticeSigner> {
    let scheme = bare.message.scheme();
    if !is_for_account(bare) {
        return None;
    }
    let wanted = scheme.key.id.as_ref().map(|id| bare.render_string(id).ok());
    let keys = &account.scheme_keys().keys;
    for (place, sign) in scheme.signs.iter().enumerate() {
        if sign.algorithm == SignAlgorithm::None {
            // No key has signed; a fact still records how the notice was accepted.
            let key_id = KeyId::parse("unsigned").expect("a key id");
            let (account, signed_text) = (Arc::clone(account), SignedContent::text(&[]));
            let key_begins = None;
            return Some(NoticeSigner { account, key_id, key_begins, sign: place, signed_text });
        }
        for key in tried_at(keys, SchemeKey::window, now) {
            let is_wanted = wanted.as_ref().is_none_or(|id| id.as_deref() == Some(key.name()));
            let Some(ready) = key.ready[place].as_ref().filter(|_| is_wanted) else { continue };
            if let Some(signed_text) = tried.check(place, ready, bare) {
                let (account, key_id) = (Arc::clone(account), key.id.clone());
                let key_begins = key.window.is_early_at(now).then_some(key.window.begins);
                let signer = NoticeSigner { account, key_id, key_begins, sign: place, signed_text };
                return Some(signer);
            }
        }
    }
    None
}

/// Whether the values that the scheme compares fit this account.
fn is_for_account(bare: TemplateContext<'_>) -> bool {
    let scheme = bare.message.scheme();
    let same = |value, equals| {
        let value = bare.render(value).ok()?;
        (value == bare.render(equals).ok()?).then_some(())
    };
    names_this_account(bare)
        && scheme.require.iter().all(|rule| same(&rule.value, &rule.equals).is_some())
}
