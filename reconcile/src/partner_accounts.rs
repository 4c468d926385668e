//! Owns a partner's profile and accounts, as they are when its records are read.

use std::sync::Arc;

use payfold_partners::directory::Directory;
use payfold_partners::profile::Profile;
use payfold_partners::records::RecordsSpec;
use payfold_schemas::ids::{MerchantCode, PartnerCode};

use super::error::ReconcileError;

/// A partner's profile, and the codes of its accounts.
#[derive(Clone)]
pub(crate) struct PartnerAccounts {
    pub(crate) partner: PartnerCode,
    pub(crate) profile: Arc<Profile>,
    pub(crate) merchant_codes: Vec<MerchantCode>,
}

impl PartnerAccounts {
    /// The accounts of a partner. Errors: it has none.
    pub(crate) fn of(directory: &Directory, partner: &PartnerCode) -> Result<Self, ReconcileError> {
        let accounts = || directory.accounts().iter().filter(|a| a.partner() == partner);
        let Some(first) = accounts().next() else {
            return Err(ReconcileError::Refused(format!(
                "there is no account at {partner}; `payfold partner list` lists the partners"
            )));
        };
        let (partner, profile) = (partner.clone(), Arc::clone(first.profile()));
        let codes = accounts().map(|account| account.merchant_code().clone());
        Ok(Self { partner, profile, merchant_codes: codes.collect() })
    }

    /// The section of the profile by which files are read. Errors: it has none.
    pub(crate) fn records_spec(&self) -> Result<&RecordsSpec, ReconcileError> {
        self.profile.records().ok_or_else(|| {
            let partner = &self.partner;
            ReconcileError::Refused(format!(
                "the profile of {partner} has no [records], so its files can't be read: add \
                 [records] (docs/reference/profiles.md), and try it with `payfold partner records \
                 {partner} FILE`"
            ))
        })
    }
}
