//! Owns an account at the simulated partner: its merchant code and its signing key.

use payfold_partners::mac::MacKey;
use payfold_schemas::ids::MerchantCode;

/// An account at the simulated partner.
#[derive(Debug)]
pub(crate) struct PartnerAccount {
    pub(crate) merchant_code: MerchantCode,
    pub(crate) key: MacKey,
}
