//! Owns the list of accounts commands search in when only an id or a ref is given.

use payfold_schemas::ids::{MerchantCode, PartnerCode};

use crate::settings::Loaded;
use crate::vault;

/// Every account of the vault. Errors: the vault can't be opened.
pub fn accounts(loaded: &Loaded) -> anyhow::Result<Vec<(PartnerCode, MerchantCode)>> {
    let entries = vault::read(&loaded.settings)?.accounts;
    Ok(entries.iter().map(|entry| (entry.partner.clone(), entry.merchant_code.clone())).collect())
}
