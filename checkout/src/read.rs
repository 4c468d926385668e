//! Owns the reading of payments: one payment, with entity tags and a long poll, and the list of
//! those with a reference or an order id.

use std::time::Duration;

use actix_web::http::header;
use actix_web::{HttpRequest, HttpResponse};
use payfold_engines::orders::Scan;
use payfold_partners::shops::{ShopAccount, ShopEntry};
use payfold_schemas::ids::{OrderId, OrderKey, Reference};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::NO_STORE;
use crate::checkout::Checkout;
use crate::payment::Payment;
use crate::problem::{Problem, kinds};
use crate::rows::OrderRow;
use crate::shop_request::{ShopRequest, no_such_payment};
use crate::version::Version;

/// The longest long poll, s.
pub(crate) const WAIT_S_MAX: u64 = 60;
/// Payments of a page by default, and at most.
pub(crate) const PAGE_DEFAULT: usize = 100;
pub(crate) const PAGE_MAX: usize = 500;
/// The most attempts at one reference that can be listed, over all accounts.
const ATTEMPTS_MAX: usize = 10_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PaymentQuery {
    wait: Option<u64>,
    version: Option<String>,
}

/// `GET /v1/payments/{partner}/{merchantCode}/{orderId}`
pub(crate) async fn payment(request: &mut ShopRequest) -> Result<HttpResponse, Problem> {
    let shop = request.authenticate_shop()?;
    let key = request.order_key(&shop)?;
    let query: PaymentQuery = request.parse_query()?;
    let (checkout, tags) = (&request.checkout, IfNoneMatch::from_request(&request.http));
    let known = match &query.version {
        None => tags.newest_version(),
        Some(text) => Some(text.parse::<Version>().map_err(|_| {
            Problem::new(&kinds::BAD_PARAMETER)
                .with_detail("version must be written epoch.version, such as 1.7")
        })?),
    };
    let row = match query.wait {
        None | Some(0) => checkout.load_row(&key).await?,
        Some(seconds) => wait_for_newer(checkout, &key, known, seconds.min(WAIT_S_MAX)).await?,
    };
    let row = row.ok_or_else(no_such_payment)?;
    let etag = (header::ETAG, row.shop_version().etag());
    if tags.match_version(row.shop_version()) {
        return Ok(HttpResponse::NotModified()
            .insert_header(etag)
            .insert_header(NO_STORE)
            .finish());
    }
    let payment = Payment::from_row(&row, checkout.now());
    Ok(HttpResponse::Ok().insert_header(etag).insert_header(NO_STORE).json(payment))
}

/// Waits for a row that is newer than `known`, or for any row if `known` is `None`. When the time
/// is over or the drain begins, returns the row as it is.
async fn wait_for_newer(
    checkout: &Checkout,
    key: &OrderKey,
    known: Option<Version>,
    seconds: u64,
) -> Result<Option<OrderRow>, Problem> {
    let mut watcher = checkout.watch_row(key)?;
    let is_newer = |row: &OrderRow| known.is_none_or(|known| row.shop_version() > known);
    tokio::select! {
        row = watcher.wait_until(is_newer) => {
            row.map(Some).map_err(|error| checkout.fact_log.note_read_failure(&error))
        }
        () = tokio::time::sleep(Duration::from_secs(seconds)) => checkout.load_row(key).await,
        () = checkout.drained() => checkout.load_row(key).await,
    }
}

/// The entity tags of an If-None-Match (RFC 9110). Weak tags count like strong ones.
struct IfNoneMatch(Vec<String>);

impl IfNoneMatch {
    fn from_request(request: &HttpRequest) -> Self {
        let headers = request.headers().get_all(header::IF_NONE_MATCH);
        let texts = headers.filter_map(|value| value.to_str().ok());
        let tags = texts.flat_map(|text| text.split(','));
        Self(tags.map(|tag| tag.trim().trim_start_matches("W/").to_owned()).collect())
    }

    /// Whether one of the tags is this version, or `*`.
    fn match_version(&self, version: Version) -> bool {
        self.0.iter().any(|tag| tag == "*" || *tag == version.etag())
    }

    /// The newest version among the tags.
    fn newest_version(&self) -> Option<Version> {
        self.0.iter().filter_map(|tag| tag.trim_matches('"').parse().ok()).max()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ListQuery {
    reference: Option<String>,
    order_id: Option<String>,
    limit: Option<usize>,
    after: Option<String>,
}

/// Attempts at one reference, the newest last; or the payment with an order id.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PaymentList {
    /// The payments in all accounts of the shop, ordered by orderId, which is the order of
    /// creation.
    payments: Vec<Payment>,
    /// The `after` of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// `GET /v1/payments?reference=R` or `?orderId=O`
pub(crate) async fn list(request: &mut ShopRequest) -> Result<HttpResponse, Problem> {
    let shop = request.authenticate_shop()?;
    let query: ListQuery = request.parse_query()?;
    let bad = |detail: String| Problem::new(&kinds::BAD_PARAMETER).with_detail(detail);
    let limit = query.limit.unwrap_or(PAGE_DEFAULT);
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(bad(format!("limit must be 1 to {PAGE_MAX}")));
    }
    let after = query.after.as_deref().map(OrderKey::parse).transpose();
    let after = after.map_err(|_| bad("after must be the next of the page before".to_owned()))?;

    let checkout = &request.checkout;
    let (mut keys, limit) = match (query.reference, query.order_id) {
        (Some(reference), None) => {
            let reference = Reference::parse(&reference).map_err(|error| bad(error.to_string()))?;
            (find_attempts(checkout, &shop, &reference).await?, limit)
        }
        // Of these keys hardly one has a payment: they are one page.
        (None, Some(id)) => {
            let id = OrderId::parse(&id).map_err(|error| bad(error.to_string()))?;
            (keys_of(&shop, &id), usize::MAX)
        }
        (Some(_), Some(_)) | (None, None) => {
            return Err(bad("either reference or orderId is required".to_owned()));
        }
    };
    keys.sort_by(|a, b| sort_key(a).cmp(&sort_key(b)));
    let from =
        after.map_or(0, |after| keys.partition_point(|key| sort_key(key) <= sort_key(&after)));
    let page: Vec<_> = keys[from..].iter().take(limit).cloned().collect();
    let next = page.last().filter(|_| from + page.len() < keys.len()).map(OrderKey::to_string);
    let rows = checkout.load_rows(page).await?;
    let now = checkout.now();
    // A view entry may be written before its row. An order without a row is not listed.
    let payments = rows.iter().flatten().map(|row| Payment::from_row(row, now)).collect();
    Ok(HttpResponse::Ok().insert_header(NO_STORE).json(PaymentList { payments, next }))
}

/// The sort key of a listing. Order ids begin with the time of creation, so the newest is last.
fn sort_key(key: &OrderKey) -> (&str, &str, &str) {
    (key.order_id.as_str(), key.partner.as_str(), key.merchant_code.as_str())
}

/// The keys that an order id may have in the shop's accounts.
fn keys_of(shop: &ShopEntry, order_id: &OrderId) -> Vec<OrderKey> {
    let key = |ShopAccount { partner, merchant_code }: &ShopAccount| OrderKey {
        partner: partner.clone(),
        merchant_code: merchant_code.clone(),
        order_id: order_id.clone(),
    };
    shop.accounts.iter().map(key).collect()
}

/// The keys of all attempts at a reference in the shop's accounts, in no order.
async fn find_attempts(
    checkout: &Checkout,
    shop: &ShopEntry,
    reference: &Reference,
) -> Result<Vec<OrderKey>, Problem> {
    let mut keys = Vec::new();
    for ShopAccount { partner, merchant_code } in &shop.accounts {
        let mut cursor = None;
        loop {
            let scan = Scan::Reference(partner.clone(), merchant_code.clone(), reference.clone());
            let page =
                checkout.read_store(checkout.parts.store.scan(scan, cursor, PAGE_MAX)).await?;
            keys.extend(page.entries.into_iter().map(|(key, _)| key));
            cursor = page.next;
            if keys.len() > ATTEMPTS_MAX {
                return Err(Problem::new(&kinds::BAD_PARAMETER)
                    .with_detail(format!("over {ATTEMPTS_MAX} attempts have this reference")));
            }
            if cursor.is_none() {
                break;
            }
        }
    }
    Ok(keys)
}
