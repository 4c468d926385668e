//! Owns the admin call that lists the accounts in force.

use actix_web::web::Data;
use payfold_api::accounts::{ACCOUNTS, AccountInForce, Accounts, KeyInForce};
use payfold_partners::directory::Account;

use super::answer::{Answer, answer};
use super::router::Router;
use super::state::Admin;
use crate::key_metrics::own_keys;

/// The routes.
pub(super) fn route(router: &mut Router) {
    router.call(&ACCOUNTS, accounts);
}

async fn accounts(admin: Data<Admin>) -> Answer {
    let directory = admin.directory.load();
    let accounts = directory.accounts().iter().map(|account| in_force(account)).collect();
    answer(&ACCOUNTS, &Accounts { accounts })
}

fn in_force(account: &Account) -> AccountInForce {
    let keys = own_keys(account).flat_map(|(_, keys)| keys.keys());
    let profile = account.profile();
    AccountInForce {
        partner: account.partner().clone(),
        merchant_code: account.merchant_code().clone(),
        enabled: account.is_enabled(),
        stage: profile.stage().as_str().to_owned(),
        profile_version: profile.stamp().version,
        allow_sources: account.allow_sources().iter().map(ToString::to_string).collect(),
        rate_per_s: account.rate_per_s(),
        keys: keys
            .map(|key| KeyInForce {
                id: key.id().clone(),
                channel: key.channel(),
                valid_from: key.valid_from(),
                valid_until: key.valid_until(),
            })
            .collect(),
    }
}
