//! Owns the list of accounts that commands search when they are given only an order id or a
//! reference.

use payfold_schemas::ids::{MerchantCode, PartnerCode};

use crate::settings::Loaded;
use crate::vault;

/// Every account of the vault. Errors: the vault can't be opened.
pub(crate) fn accounts(loaded: &Loaded) -> anyhow::Result<Vec<(PartnerCode, MerchantCode)>> {
    let entries = vault::read(&loaded.settings)?.accounts;
    Ok(entries.iter().map(|entry| (entry.partner.clone(), entry.merchant_code.clone())).collect())
}
