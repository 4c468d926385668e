//! Owns the planning of one attempt: what will be claimed, appended and sent, with everything that can be wrong on
//! our side looked at before anything is claimed. An attempt that was planned can be called once, by whoever holds
//! its claim.

use std::sync::Arc;

use payfold_engines::orders::Scan;
use payfold_partners::create::CreateRequest;
use payfold_partners::directory::{Account, Directory};
use payfold_partners::profile::{CreateField, CreateTerms};
use payfold_partners::remote::{Call, CallError};
use payfold_partners::shops::ShopEntry;
use payfold_schemas::fact::{Create, Fact};
use payfold_schemas::ids::{OrderId, OrderKey};
use payfold_schemas::record::{FactRecord, Record};
use payfold_schemas::time::Time;

use crate::checkout::{Checkout, Receipt};
use crate::problem::{Kind, Problem, kinds};
use crate::request::{PaymentRequest, cleaned};

/// Earlier attempts are counted up to here.
const ATTEMPTS_COUNTED_MAX: usize = 1_000;

/// One attempt, ready to be claimed and made.
pub(crate) struct Attempt {
    pub(crate) key: OrderKey,
    pub(crate) create: Create,
    pub(crate) account: Arc<Account>,
    /// As it is sent to the partner.
    pub(crate) description: String,
    /// The encoded C fact: what the key is claimed with.
    pub(crate) record: Vec<u8>,
    pub(crate) receipt: Receipt,
    /// The signed call; making it uses it up.
    pub(crate) call: Call,
}

/// Plans an attempt. Errors: the field, account or setting that can't be used.
pub(crate) async fn plan(
    checkout: &Checkout,
    shop: &ShopEntry,
    asked: &PaymentRequest,
    receipt: Receipt,
) -> Result<Attempt, Problem> {
    let account = account(&checkout.parts.directory.load(), shop, asked)?;
    let terms = account.profile().create_terms().ok_or_else(not_supported)?;
    let order_id = format!("ord-{}", receipt.request_id);
    let key = OrderKey {
        partner: account.partner().clone(),
        merchant_code: account.merchant_code().clone(),
        order_id: OrderId::parse(&order_id).expect("a request id is hex digits and hyphens"),
    };
    let request = create_request(checkout, &account, &key, asked, receipt.received_at)?;
    let description = request.description.clone();
    let call = prepare(checkout, &account, &request, receipt.received_at)?;
    let create = Create {
        amount: asked.amount,
        currency: asked.currency,
        reference: asked.reference.clone(),
        attempt: 1 + earlier_attempts(checkout, &key, asked).await?,
        deadline: deadline(&terms, asked, receipt.received_at),
    };
    let fact = FactRecord {
        order: key.clone(),
        fact: Fact::CreateRequested(create.clone()),
        request_id: receipt.request_id,
        received_at: receipt.received_at,
        source: None,
    };
    let record = Record::of_fact(fact, asked.canonical()).encode();
    Ok(Attempt { key, create, account, description, record, receipt, call })
}

/// The account that is meant. One outside the shop's list is as unknown as one that is not there.
fn account(
    directory: &Directory,
    shop: &ShopEntry,
    asked: &PaymentRequest,
) -> Result<Arc<Account>, Problem> {
    let enabled = shop
        .accounts
        .iter()
        .filter(|account| account.partner == asked.partner)
        .filter_map(|account| directory.account(&account.partner, &account.merchant_code));
    match &asked.merchant_code {
        Some(merchant_code) => enabled
            .into_iter()
            .find(|account| account.merchant_code() == merchant_code)
            .cloned()
            .ok_or_else(|| Problem::at(&kinds::UNKNOWN_ACCOUNT, "/merchantCode")),
        None => {
            let mut all = enabled;
            match (all.next(), all.next()) {
                (Some(only), None) => Ok(Arc::clone(only)),
                (None, _) => Err(Problem::at(&kinds::UNKNOWN_ACCOUNT, "/partner")),
                (Some(_), Some(_)) => Err(Problem::at(&kinds::MISSING_FIELD, "/merchantCode")
                    .because("the shop has several accounts at this partner: name one")),
            }
        }
    }
}

fn create_request(
    checkout: &Checkout,
    account: &Account,
    key: &OrderKey,
    asked: &PaymentRequest,
    now: Time,
) -> Result<CreateRequest, Problem> {
    let addresses = &checkout.parts.addresses;
    let profile = account.profile();
    let terms = profile.create_terms().ok_or_else(not_supported)?;
    if asked.expires_at.is_some_and(|expires_at| expires_at <= now) {
        return Err(Problem::at(&kinds::EXPIRES_AT_PAST, "/expiresAt"));
    }
    if asked.presentation.is_some() && !terms.asks_presentation {
        return Err(Problem::at(&kinds::PRESENTATION_NOT_SUPPORTED, "/presentation"));
    }
    let description = cleaned(&asked.description, profile.text_separator());
    if description.trim().is_empty() {
        return Err(Problem::at(&kinds::EMPTY_FIELD, "/description"));
    }
    let base = addresses.public_url.trim_end_matches('/');
    let return_url = match &asked.return_to {
        None => format!("{base}/api/payment/result"),
        Some(name) if addresses.return_to.contains(name) => {
            format!("{base}/api/payment/result/{name}")
        }
        Some(_) => return Err(Problem::at(&kinds::UNKNOWN_RETURN_TO, "/returnTo")),
    };
    Ok(CreateRequest {
        merchant_code: key.merchant_code.clone(),
        order_id: key.order_id.clone(),
        amount: asked.amount,
        currency: asked.currency,
        description,
        return_url,
        ipn_url: match profile.scheme() {
            None => format!("{base}/api/payment/ipn"),
            Some(_) => format!("{base}/api/payment/ipn/{}", account.partner()),
        },
        expires_at: asked.expires_at,
        wish: asked.presentation.map(|presentation| presentation.wish()),
        reference: Some(asked.reference.clone()),
        payer_ip: asked.payer_ip,
    })
}

fn prepare(
    checkout: &Checkout,
    account: &Arc<Account>,
    request: &CreateRequest,
    now: Time,
) -> Result<Call, Problem> {
    let api_url = checkout.parts.addresses.api_urls.get(account.partner());
    let api_url = api_url.filter(|url| !url.is_empty()).ok_or_else(not_supported)?;
    checkout.parts.remote.prepare(account, api_url, request, now).map_err(|error| match error {
        CallError::NoCreate(_) => not_supported(),
        CallError::Ambiguous(ambiguous) => ambiguous_field(ambiguous.0),
        CallError::Currency(_) => Problem::at(&kinds::CURRENCY_NOT_SUPPORTED, "/currency"),
        CallError::Amount(_) => Problem::at(&kinds::AMOUNT_NOT_SUPPORTED, "/amount"),
        CallError::Expiry(_) => {
            Problem::at(&kinds::EXPIRES_AT_PAST, "/expiresAt").because(error.to_string())
        }
        CallError::PayerIp(_) => Problem::at(&kinds::MISSING_FIELD, "/payerIp")
            .because("this partner is told the payer's address"),
        CallError::NoKey(_)
        | CallError::NoCertificate(_)
        | CallError::Address(_)
        | CallError::Uncallable(..) => {
            tracing::error!(partner = %account.partner(), %error, "payments can't be created");
            Problem::new(&kinds::ACCOUNT_NOT_READY)
        }
    })
}

fn not_supported() -> Problem {
    Problem::at(&kinds::CREATE_NOT_SUPPORTED, "/partner")
}

/// A field of the shop's is its to mend; the others are of our settings.
fn ambiguous_field(field: CreateField) -> Problem {
    let kind: &'static Kind = &kinds::SEPARATOR_IN_FIELD;
    match field {
        CreateField::MerchantCode
        | CreateField::Amount
        | CreateField::Currency
        | CreateField::Description
        | CreateField::ExpiresAt => Problem::at(kind, format!("/{field}")),
        CreateField::OrderId | CreateField::ReturnUrl | CreateField::IpnUrl => {
            Problem::new(&kinds::ACCOUNT_NOT_READY)
                .because(format!("{field} holds the separator of the partner's signing text"))
        }
    }
}

/// When the order expires while no session is known.
fn deadline(terms: &CreateTerms, asked: &PaymentRequest, now: Time) -> Time {
    let of_terms = now.plus_ms(terms.max_session_ms);
    let of_shop = asked.expires_at.map(|expires_at| expires_at.plus_ms(terms.grace_ms));
    of_shop.map_or(of_terms, |of_shop| of_shop.min(of_terms))
}

/// How many orders of the account are known for the reference.
async fn earlier_attempts(
    checkout: &Checkout,
    key: &OrderKey,
    asked: &PaymentRequest,
) -> Result<u32, Problem> {
    let OrderKey { partner, merchant_code, .. } = key.clone();
    let scan = Scan::Reference(partner, merchant_code, asked.reference.clone());
    let page = checkout.parts.store.scan(scan, None, ATTEMPTS_COUNTED_MAX);
    let page = checkout.in_time(page).await?;
    Ok(u32::try_from(page.entries.len()).unwrap_or(u32::MAX - 1))
}
