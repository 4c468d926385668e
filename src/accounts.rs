//! Owns the list of accounts commands search in when only an id or a ref is given.

use payfold_partners::vault::Vault;
use payfold_schemas::ids::{MerchantCode, PartnerCode};

use crate::data_dir::DataDir;
use crate::settings::Loaded;

/// Every account of the vault. Errors: the vault can't be opened.
pub fn accounts(loaded: &Loaded) -> anyhow::Result<Vec<(PartnerCode, MerchantCode)>> {
    let data = DataDir::of(&loaded.settings);
    let vault = Vault::open(&data.vault(), &data.identity())?;
    let entries = &vault.document().accounts;
    Ok(entries.iter().map(|entry| (entry.partner.clone(), entry.merchant_code.clone())).collect())
}
