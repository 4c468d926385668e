//! Owns the trace of people's tokens: what changes in the vault becomes an event, so that making a
//! token is seen. The time is this system's, not the vault's.

use std::collections::BTreeMap;

use payfold_engines::log::Message;
use payfold_partners::token::{LOCAL_OWNER, TokenEntry};
use payfold_schemas::event::EventAttributes;
use payfold_schemas::time::Time;
use payfold_schemas::token::{TOKEN_RECORDED_TYPE, TokenChange, TokenRecorded};

use super::error::ReconcileError;
use super::ledger::Ledger;
use super::publish::{append, message};
use crate::shared::SharedContext;

/// The changes of tokens between the ledger and a vault, found at this time. A token with another
/// owner or role is a new one: names that are exchanged in the vault make no token older. Pure.
fn changes(ledger: &Ledger, vault: &[TokenEntry], at: Time) -> Vec<TokenRecorded> {
    let mut of_people = BTreeMap::new();
    for token in vault.iter().filter(|token| token.name.as_str() != LOCAL_OWNER) {
        // The first of two entries with one token counts, as it does for a call.
        of_people.entry(token.sha256).or_insert_with(|| TokenRecorded {
            owner: token.name.clone(),
            token: token.sha256,
            role: token.role,
            change: TokenChange::Added,
            at,
        });
    }
    let known = ledger.tokens();
    let removed = known.values().filter(|known| !of_people.contains_key(&known.token));
    let removed = removed
        .map(|known| TokenRecorded { change: TokenChange::Removed, at, ..known.clone() })
        .collect::<Vec<_>>();
    let added = of_people
        .into_values()
        .filter(|token| known.get(&token.token).is_none_or(|known| !known.is_same_as(token)));
    removed.into_iter().chain(added).collect()
}

/// Publishes the changes of tokens since the last time. Errors: a halt.
pub(crate) async fn record_tokens(
    shared: &SharedContext,
    vault: &[TokenEntry],
    ledger: &mut Ledger,
) -> Result<(), ReconcileError> {
    let found = changes(ledger, vault, shared.storage.clock.now());
    for recorded in found {
        tracing::info!(
            owner = %recorded.owner, role = recorded.role.as_str(), change = ?recorded.change,
            "a token of a person was added or removed"
        );
        append(&shared.storage, vec![event_of(&recorded)]).await?;
        ledger.add_token(recorded);
    }
    Ok(())
}

fn event_of(recorded: &TokenRecorded) -> Message {
    let (id, kind, time) = (recorded.event_id(), TOKEN_RECORDED_TYPE, recorded.at);
    message(recorded.owner.to_string(), EventAttributes { id, kind, time }, recorded)
}

#[cfg(test)]
mod tests {
    use payfold_schemas::digest::Digest;
    use payfold_schemas::ids::Author;
    use payfold_schemas::token::TokenRole;

    use super::*;

    const DAY_MS: i64 = 24 * 3_600 * 1_000;

    fn token(name: &str, role: TokenRole) -> TokenEntry {
        let name = Author::parse(name).unwrap();
        let sha256 = Digest::of_bytes(name.as_str().as_bytes());
        TokenEntry { name, sha256, role }
    }

    fn at(day: i64) -> Time {
        Time::from_unix_ms(day * DAY_MS)
    }

    fn record(ledger: &mut Ledger, vault: &[TokenEntry], day: i64) -> Vec<String> {
        let found = changes(ledger, vault, at(day));
        let in_words =
            |one: &TokenRecorded| format!("{} {} {:?}", one.owner, one.role.as_str(), one.change);
        let said = found.iter().map(in_words).collect();
        found.into_iter().for_each(|one| assert!(ledger.add_token(one)));
        said
    }

    /// A second entry with the same token.
    fn once_more(first: &TokenEntry) -> TokenEntry {
        TokenEntry {
            name: Author::parse("carl").unwrap(),
            role: TokenRole::Viewer,
            ..first.clone()
        }
    }

    #[test]
    fn each_change_of_the_vault_is_recorded_once() {
        let mut ledger = Ledger::in_memory().unwrap();
        let (ann, bob) = (token("ann", TokenRole::Finance), token("bob", TokenRole::Admin));
        let local = token(LOCAL_OWNER, TokenRole::Admin);
        let both = [ann.clone(), bob.clone(), local.clone()];
        assert_eq!(record(&mut ledger, &both, 1), ["ann finance Added", "bob admin Added"]);
        assert_eq!(record(&mut ledger, &both, 2), [""; 0]);
        let promoted = TokenEntry { role: TokenRole::Admin, ..ann };
        let after = [promoted, local];
        assert_eq!(record(&mut ledger, &after, 3), ["bob admin Removed", "ann admin Added"]);
        assert_eq!(record(&mut ledger, &after, 4), [""; 0]);
        // Ann's token under bob's name is a new one of bob.
        let exchanged = [TokenEntry { name: bob.name, ..after[0].clone() }, once_more(&after[0])];
        assert_eq!(record(&mut ledger, &exchanged, 5), ["bob admin Added"]);
        assert_eq!(record(&mut ledger, &exchanged, 6), [""; 0]);
    }
}
