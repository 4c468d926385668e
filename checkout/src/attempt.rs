//! Owns the planning of one attempt to create a payment: what is claimed, appended and sent. Every
//! fault on our side is found here, before anything is claimed. A planned attempt can be called
//! once, by the process that holds its claim.

use std::sync::Arc;

use payfold_engines::orders::Scan;
use payfold_partners::create::CreateRequest;
use payfold_partners::directory::{Account, Directory};
use payfold_partners::profile::CreateTerms;
use payfold_partners::remote::{CreateCall, CreateError};
use payfold_partners::shops::ShopEntry;
use payfold_schemas::fact::{Create, Fact};
use payfold_schemas::ids::{OrderId, OrderKey};
use payfold_schemas::record::{FactRecord, Record};
use payfold_schemas::time::Time;

use crate::checkout::{Checkout, Receipt};
use crate::payment_request::{PaymentRequest, clean_description};
use crate::problem::{Problem, kinds};

/// The most earlier attempts that are counted.
const ATTEMPTS_COUNTED_MAX: usize = 1_000;

/// An attempt that is ready to be claimed and called.
pub(crate) struct PlannedAttempt {
    pub(crate) key: OrderKey,
    pub(crate) create: Create,
    pub(crate) account: Arc<Account>,
    /// The description as it is sent to the partner.
    pub(crate) description: String,
    /// The encoded `CreateRequested` record. The key is claimed with these bytes, and the same
    /// bytes are appended, so a retry can append them for a process that died in between.
    pub(crate) record: Vec<u8>,
    pub(crate) receipt: Receipt,
    /// The signed call; making the call consumes it.
    pub(crate) call: CreateCall,
}

/// Plans an attempt. Errors: a problem that names the field, account or setting that can't be used.
pub(crate) async fn plan_attempt(
    checkout: &Checkout,
    shop: &ShopEntry,
    wanted: &PaymentRequest,
    receipt: Receipt,
) -> Result<PlannedAttempt, Problem> {
    let account = choose_account(&checkout.parts.directory.load(), shop, wanted)?;
    let terms = account.profile().create_terms().ok_or_else(not_supported)?;
    let order_id = format!("ord-{}", receipt.request_id);
    let key = OrderKey {
        partner: account.partner().clone(),
        merchant_code: account.merchant_code().clone(),
        order_id: OrderId::parse(&order_id).expect("a request id is hex digits and hyphens"),
    };
    let request = build_create_request(checkout, &account, &key, wanted, receipt.received_at)?;
    let description = request.description.clone();
    let call = prepare_call(checkout, &account, &request, receipt.received_at)?;
    let create = Create {
        amount: wanted.amount,
        currency: wanted.currency,
        reference: wanted.reference.clone(),
        attempt: 1 + count_earlier_attempts(checkout, &key, wanted).await?,
        deadline: first_deadline(&terms, wanted, receipt.received_at),
    };
    let fact = FactRecord {
        order: key.clone(),
        fact: Fact::CreateRequested(create.clone()),
        request_id: receipt.request_id,
        received_at: receipt.received_at,
        source: None,
    };
    let record = Record::of_fact(fact, wanted.canonical_bytes()).encode();
    Ok(PlannedAttempt { key, create, account, description, record, receipt, call })
}

/// The account that a request names, or the shop's only account at the partner. An account that the
/// shop may not use is answered like one that does not exist.
fn choose_account(
    directory: &Directory,
    shop: &ShopEntry,
    wanted: &PaymentRequest,
) -> Result<Arc<Account>, Problem> {
    let enabled = shop
        .accounts
        .iter()
        .filter(|account| account.partner == wanted.partner)
        .filter_map(|account| directory.account(&account.partner, &account.merchant_code));
    match &wanted.merchant_code {
        Some(merchant_code) => enabled
            .into_iter()
            .find(|account| account.merchant_code() == merchant_code)
            .cloned()
            .ok_or_else(|| Problem::at_field(&kinds::UNKNOWN_ACCOUNT, "/merchantCode")),
        None => {
            let mut all = enabled;
            match (all.next(), all.next()) {
                (Some(only), None) => Ok(Arc::clone(only)),
                (None, _) => Err(Problem::at_field(&kinds::UNKNOWN_ACCOUNT, "/partner")),
                (Some(_), Some(_)) => {
                    Err(Problem::at_field(&kinds::MISSING_FIELD, "/merchantCode").with_detail(
                        "the shop has several accounts at this partner: name one of them",
                    ))
                }
            }
        }
    }
}

/// Builds the request that is sent to the partner. Errors: a field that can't be used.
fn build_create_request(
    checkout: &Checkout,
    account: &Account,
    key: &OrderKey,
    wanted: &PaymentRequest,
    now: Time,
) -> Result<CreateRequest, Problem> {
    let addresses = &checkout.parts.addresses;
    let profile = account.profile();
    let terms = profile.create_terms().ok_or_else(not_supported)?;
    if wanted.expires_at.is_some_and(|expires_at| expires_at <= now) {
        return Err(Problem::at_field(&kinds::EXPIRES_AT_PAST, "/expiresAt"));
    }
    if wanted.presentation.is_some() && !terms.asks_presentation {
        return Err(Problem::at_field(&kinds::PRESENTATION_NOT_SUPPORTED, "/presentation"));
    }
    let description = clean_description(&wanted.description, profile.text_separator());
    if description.trim().is_empty() {
        return Err(Problem::at_field(&kinds::EMPTY_FIELD, "/description"));
    }
    let base = addresses.public_url.trim_end_matches('/');
    let return_url = match &wanted.return_to {
        None => format!("{base}/api/payment/result"),
        Some(name) if addresses.return_to.contains(name) => {
            format!("{base}/api/payment/result/{name}")
        }
        Some(_) => return Err(Problem::at_field(&kinds::UNKNOWN_RETURN_TO, "/returnTo")),
    };
    Ok(CreateRequest {
        merchant_code: key.merchant_code.clone(),
        order_id: key.order_id.clone(),
        amount: wanted.amount,
        currency: wanted.currency,
        description,
        return_url,
        ipn_url: format!("{base}{}", profile.ipn_path()),
        expires_at: wanted.expires_at,
        presentation: wanted.presentation.map(|presentation| presentation.to_presentation_kind()),
        reference: Some(wanted.reference.clone()),
        payer_ip: wanted.payer_ip,
    })
}

fn prepare_call(
    checkout: &Checkout,
    account: &Arc<Account>,
    request: &CreateRequest,
    now: Time,
) -> Result<CreateCall, Problem> {
    let api_url = checkout.parts.addresses.api_urls.get(account.partner());
    let api_url = api_url.filter(|url| !url.is_empty()).ok_or_else(not_supported)?;
    checkout.parts.remote.prepare_create(account, api_url, request, now).map_err(
        |error| match error {
            CreateError::NoCreate(_) => not_supported(),
            CreateError::Currency(_) => {
                Problem::at_field(&kinds::CURRENCY_NOT_SUPPORTED, "/currency")
            }
            CreateError::Amount(_) => Problem::at_field(&kinds::AMOUNT_NOT_SUPPORTED, "/amount"),
            CreateError::Expiry(_) => Problem::at_field(&kinds::EXPIRES_AT_PAST, "/expiresAt")
                .with_detail(error.to_string()),
            CreateError::PayerIp(_) => Problem::at_field(&kinds::MISSING_FIELD, "/payerIp")
                .with_detail("this partner needs the payer's IP address"),
            CreateError::Call(_) => {
                tracing::error!(
                    partner = %account.partner(),
                    %error,
                    "payments can't be created: mend the account's keys or the partner's settings"
                );
                Problem::new(&kinds::ACCOUNT_NOT_READY)
            }
        },
    )
}

fn not_supported() -> Problem {
    Problem::at_field(&kinds::CREATE_NOT_SUPPORTED, "/partner")
}

/// The deadline of an order without a session: the longest session the partner allows, or the
/// shop's `expiresAt` and the grace time, if that is earlier.
fn first_deadline(terms: &CreateTerms, wanted: &PaymentRequest, now: Time) -> Time {
    let of_terms = now.plus_ms(terms.max_session_ms);
    let of_shop = wanted.expires_at.map(|expires_at| expires_at.plus_ms(terms.grace_ms));
    of_shop.map_or(of_terms, |of_shop| of_shop.min(of_terms))
}

/// How many orders the account has for the reference.
async fn count_earlier_attempts(
    checkout: &Checkout,
    key: &OrderKey,
    wanted: &PaymentRequest,
) -> Result<u32, Problem> {
    let OrderKey { partner, merchant_code, .. } = key.clone();
    let scan = Scan::Reference(partner, merchant_code, wanted.reference.clone());
    let page = checkout.parts.store.scan(scan, None, ATTEMPTS_COUNTED_MAX);
    let page = checkout.read_store(page).await?;
    Ok(u32::try_from(page.entries.len()).unwrap_or(u32::MAX - 1))
}
