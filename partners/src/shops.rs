//! Owns the shops: the callers of the shop listener, with their tokens and the accounts that they
//! may use. A shop sees only the accounts that it lists. Tokens are stored as SHA-256; comparing
//! hashes reveals nothing about a token by its timing.

pub(crate) mod entry;

use payfold_schemas::digest::Digest;
use payfold_schemas::ids::ShopName;
use payfold_schemas::time::Time;

use crate::document::VaultDocument;

pub use self::entry::{ShopAccount, ShopEntry, ShopToken};

impl VaultDocument {
    /// Adds a token to a shop, which is created if it is new. `accounts` are added to the shop's
    /// accounts. Its other tokens end `overlap_ms` after the new token's creation.
    pub fn add_shop_token(
        &mut self,
        name: &ShopName,
        accounts: &[ShopAccount],
        token: ShopToken,
        overlap_ms: i64,
    ) {
        let now = token.created_at;
        let index = self.shops.iter().position(|shop| shop.name == *name).unwrap_or_else(|| {
            let (accounts, tokens) = (Vec::new(), Vec::new());
            self.shops.push(ShopEntry { name: name.clone(), accounts, tokens });
            self.shops.len() - 1
        });
        let shop = &mut self.shops[index];
        for account in accounts
            .iter()
            .filter(|account| !shop.accounts.contains(account))
            .cloned()
            .collect::<Vec<_>>()
        {
            shop.accounts.push(account);
        }
        shop.tokens.iter_mut().for_each(|old| old.end_at(now.plus_ms(overlap_ms)));
        shop.tokens.push(token);
    }

    /// Ends every token of a shop at `at`. `None` if the shop is unknown.
    pub fn retire_shop(&mut self, name: &ShopName, at: Time) -> Option<()> {
        let shop = self.shops.iter_mut().find(|shop| shop.name == *name)?;
        shop.tokens.iter_mut().for_each(|token| token.end_at(at));
        Some(())
    }
}

/// An immutable snapshot of all shops.
#[derive(Clone, Debug, Default)]
pub struct Shops(Vec<ShopEntry>);

impl Shops {
    /// The shops of a vault.
    pub fn of(vault: &VaultDocument) -> Self {
        Self(vault.shops.clone())
    }

    /// The shop that this token belongs to, if the token is valid at `now`. Only hashes are
    /// compared, so timing reveals nothing about a token.
    pub fn authenticate(&self, token: &[u8], now: Time) -> Option<&ShopEntry> {
        let sha256 = Digest::of_bytes(token);
        self.0.iter().find(|shop| {
            shop.tokens.iter().any(|known| known.sha256 == sha256 && known.is_valid_at(now))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use payfold_schemas::ids::{MerchantCode, PartnerCode};

    fn at(second: i64) -> Time {
        Time::from_unix_ms(second * 1_000)
    }

    fn token(text: &str, second: i64) -> ShopToken {
        let sha256 = Digest::of_bytes(text.as_bytes());
        ShopToken { sha256, created_at: at(second), valid_until: None }
    }

    fn account(merchant: &str) -> ShopAccount {
        let partner = PartnerCode::parse("acme").unwrap();
        ShopAccount { partner, merchant_code: MerchantCode::parse(merchant).unwrap() }
    }

    #[test]
    fn a_token_is_valid_until_its_overlap_ends() {
        let mut vault = VaultDocument::default();
        let name = ShopName::parse("web").unwrap();
        vault.add_shop_token(&name, &[account("A")], token("old", 0), 0);
        vault.add_shop_token(&name, &[account("A"), account("B")], token("new", 10), 5_000);
        let shop_of = |vault: &VaultDocument, text: &str, second| {
            Shops::of(vault)
                .authenticate(text.as_bytes(), at(second))
                .map(|shop| shop.name.to_string())
        };
        assert_eq!(shop_of(&vault, "old", 14).as_deref(), Some("web"));
        assert_eq!(shop_of(&vault, "old", 15), None);
        assert_eq!(shop_of(&vault, "new", 15).as_deref(), Some("web"));
        assert_eq!(shop_of(&vault, "other", 1), None);
        assert_eq!(vault.shops[0].accounts, [account("A"), account("B")]);
        assert!(vault.shops[0].may_see(&account("B").partner, &account("B").merchant_code));
        assert!(!vault.shops[0].may_see(&account("B").partner, &account("C").merchant_code));
        vault.retire_shop(&name, at(20)).unwrap();
        assert_eq!(shop_of(&vault, "new", 20), None);
        assert!(vault.retire_shop(&ShopName::parse("other").unwrap(), at(1)).is_none());
    }
}
