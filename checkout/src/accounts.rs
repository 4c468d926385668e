//! Owns the list of a shop's accounts: at which partners the shop can create payments, and how the
//! payments can be shown to the payer.

use actix_web::HttpResponse;
use payfold_partners::directory::{Account, Directory};
use payfold_partners::shops::ShopAccount;
use schemars::JsonSchema;
use serde::Serialize;

use crate::answer::NO_STORE;
use crate::checkout::Checkout;
use crate::payment_request::WantedPresentation;
use crate::problem::Problem;
use crate::shop_request::ShopRequest;

/// The accounts a shop may use.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AccountList {
    /// In the order of the shop's settings.
    accounts: Vec<AccountView>,
}

/// One account at a partner.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Account")]
pub(crate) struct AccountView {
    /// The gateway partner.
    partner: String,
    /// The account there.
    merchant_code: String,
    /// Whether payments can be created now: the account is enabled and has a key, and the partner's
    /// address is set.
    can_create: bool,
    /// The values of `presentation` that a create request may have. If this is empty, the partner
    /// decides.
    presentations: Vec<WantedPresentation>,
    /// Whether a create request must have `payerIp`, which is sent to the partner.
    needs_payer_ip: bool,
}

/// `GET /v1/partners`
pub(crate) async fn partners(request: &mut ShopRequest) -> Result<HttpResponse, Problem> {
    let shop = request.authenticate_shop()?;
    let directory = request.checkout.parts.directory.load();
    let view = |account: &ShopAccount| view_account(&request.checkout, &directory, account);
    let accounts = shop.accounts.iter().map(view).collect();
    Ok(HttpResponse::Ok().insert_header(NO_STORE).json(AccountList { accounts }))
}

fn view_account(checkout: &Checkout, directory: &Directory, account: &ShopAccount) -> AccountView {
    let ShopAccount { partner, merchant_code } = account;
    let known = directory.account(partner, merchant_code);
    let terms = known.and_then(|account| account.profile().create_terms());
    let asks = terms.is_some_and(|terms| terms.asks_presentation);
    AccountView {
        partner: partner.to_string(),
        merchant_code: merchant_code.to_string(),
        can_create: known.is_some_and(|account| can_create(checkout, account)),
        presentations: if asks { WantedPresentation::ALL.to_vec() } else { Vec::new() },
        needs_payer_ip: terms.is_some_and(|terms| terms.needs_payer_ip),
    }
}

fn can_create(checkout: &Checkout, account: &Account) -> bool {
    let has_address =
        checkout.parts.addresses.api_urls.get(account.partner()).is_some_and(|url| !url.is_empty());
    has_address && account.can_sign_creates(checkout.now())
}
