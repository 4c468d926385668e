//! Owns the shops: who may call the shop listener, with which token, for which accounts (design 7: what a
//! shop key may see is what it lists). Tokens are kept as hashes; a hash tells nothing by the time it takes.

use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{MerchantCode, PartnerCode, ShopName};
use payfold_schemas::time::Time;
use serde::{Deserialize, Serialize};

use crate::document::VaultDocument;

/// One shop, as the vault has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShopEntry {
    /// Its name.
    pub name: ShopName,
    /// The accounts it may use and see.
    pub accounts: Vec<ShopAccount>,
    /// Its tokens, the oldest first.
    #[serde(default)]
    pub tokens: Vec<ShopToken>,
}

/// An account a shop may use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShopAccount {
    /// Which partner.
    pub partner: PartnerCode,
    /// Which account there.
    pub merchant_code: MerchantCode,
}

impl std::fmt::Display for ShopAccount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.partner, self.merchant_code)
    }
}

/// One token of a shop; the token itself is not kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShopToken {
    /// The SHA-256 of the token.
    pub sha256: Digest,
    /// When it was made.
    pub created_at: Time,
    /// Until when it counts; absent = until retired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until: Option<Time>,
}

impl ShopToken {
    /// Whether it counts at `now`.
    pub fn is_valid_at(&self, now: Time) -> bool {
        self.valid_until.is_none_or(|until| now < until)
    }

    fn end_at(&mut self, at: Time) {
        self.valid_until = Some(self.valid_until.map_or(at, |until| until.min(at)));
    }
}

impl VaultDocument {
    /// Gives a shop one more token; the shop is made if it is new, its accounts are added to those it has. Its
    /// other tokens count until `overlap_ms` after `now`.
    pub fn add_shop_token(
        &mut self,
        name: &ShopName,
        accounts: &[ShopAccount],
        token: ShopToken,
        overlap_ms: i64,
    ) {
        let now = token.created_at;
        let place = self.shops.iter().position(|shop| shop.name == *name).unwrap_or_else(|| {
            let (accounts, tokens) = (Vec::new(), Vec::new());
            self.shops.push(ShopEntry { name: name.clone(), accounts, tokens });
            self.shops.len() - 1
        });
        let shop = &mut self.shops[place];
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

    /// Ends every token of a shop at `at`. `None` if there is no such shop.
    pub fn retire_shop(&mut self, name: &ShopName, at: Time) -> Option<()> {
        let shop = self.shops.iter_mut().find(|shop| shop.name == *name)?;
        shop.tokens.iter_mut().for_each(|token| token.end_at(at));
        Some(())
    }
}

/// Every shop of one moment.
#[derive(Clone, Debug, Default)]
pub struct Shops(Vec<ShopEntry>);

impl Shops {
    /// The shops of a vault.
    pub fn of(vault: &VaultDocument) -> Self {
        Self(vault.shops.clone())
    }

    /// Whose token this is. Hashes are compared, so timing tells nothing of a token.
    pub fn authenticate(&self, token: &[u8], now: Time) -> Option<&ShopEntry> {
        let sha256 = Digest::of_bytes(token);
        self.0.iter().find(|shop| {
            shop.tokens.iter().any(|known| known.sha256 == sha256 && known.is_valid_at(now))
        })
    }
}

impl ShopEntry {
    /// Whether this shop may use and see an account.
    pub fn may_see(&self, partner: &PartnerCode, merchant_code: &MerchantCode) -> bool {
        self.accounts.iter().any(|a| a.partner == *partner && a.merchant_code == *merchant_code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_token_counts_until_its_overlap_ends() {
        let mut vault = VaultDocument::default();
        let name = ShopName::parse("web").unwrap();
        vault.add_shop_token(&name, &[account("A")], token("old", 0), 0);
        vault.add_shop_token(&name, &[account("A"), account("B")], token("new", 10), 5_000);
        let who = |vault: &VaultDocument, text: &str, second| {
            Shops::of(vault)
                .authenticate(text.as_bytes(), at(second))
                .map(|shop| shop.name.to_string())
        };
        assert_eq!(who(&vault, "old", 14).as_deref(), Some("web"));
        assert_eq!(who(&vault, "old", 15), None);
        assert_eq!(who(&vault, "new", 15).as_deref(), Some("web"));
        assert_eq!(who(&vault, "other", 1), None);
        assert_eq!(vault.shops[0].accounts, [account("A"), account("B")]);
        assert!(vault.shops[0].may_see(&account("B").partner, &account("B").merchant_code));
        assert!(!vault.shops[0].may_see(&account("B").partner, &account("C").merchant_code));
        vault.retire_shop(&name, at(20)).unwrap();
        assert_eq!(who(&vault, "new", 20), None);
        assert!(vault.retire_shop(&ShopName::parse("other").unwrap(), at(1)).is_none());
    }
}
