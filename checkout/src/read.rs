//! Owns the reading of payments: one by its name, with entity tags and a long poll, and the attempts at a reference.

use std::time::Duration;

use actix_web::http::header;
use actix_web::{HttpRequest, HttpResponse};
use payfold_engines::orders::Scan;
use payfold_partners::shops::{ShopAccount, ShopEntry};
use payfold_schemas::ids::{OrderKey, Reference};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::NO_STORE;
use crate::call::{Call, no_such_payment};
use crate::checkout::Checkout;
use crate::payment::Payment;
use crate::problem::{Problem, kinds};
use crate::rows::Row;
use crate::version::Version;

/// Seconds of a long poll at most.
pub(crate) const WAIT_S_MAX: u64 = 60;
/// Payments of a page, asked for and at most.
pub(crate) const PAGE: usize = 100;
pub(crate) const PAGE_MAX: usize = 500;
/// Attempts at one reference that are listed, over all accounts.
const ATTEMPTS_MAX: usize = 10_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PaymentQuery {
    wait: Option<u64>,
    version: Option<String>,
}

/// `GET /v1/payments/{partner}/{merchantCode}/{orderId}`
pub(crate) async fn payment(call: &mut Call) -> Result<HttpResponse, Problem> {
    let shop = call.shop()?;
    let key = call.order_key(&shop)?;
    let query: PaymentQuery = call.query()?;
    let (checkout, tags) = (&call.checkout, Tags::of(&call.request));
    let known = match &query.version {
        None => tags.newest(),
        Some(text) => Some(text.parse::<Version>().map_err(|_| {
            Problem::new(&kinds::BAD_PARAMETER).because("version is written generation.version")
        })?),
    };
    let row = match query.wait {
        None | Some(0) => checkout.row(&key).await?,
        Some(seconds) => newer(checkout, &key, known, seconds.min(WAIT_S_MAX)).await?,
    };
    let row = row.ok_or_else(no_such_payment)?;
    let etag = (header::ETAG, Version::of(&row).etag());
    if tags.name(Version::of(&row)) {
        return Ok(HttpResponse::NotModified()
            .insert_header(etag)
            .insert_header(NO_STORE)
            .finish());
    }
    let payment = Payment::of(&row, checkout.now());
    Ok(HttpResponse::Ok().insert_header(etag).insert_header(NO_STORE).json(payment))
}

/// The row as soon as it is newer than `known` (there at all, if nothing is), or as it is when the wait or the
/// process ends.
async fn newer(
    checkout: &Checkout,
    key: &OrderKey,
    known: Option<Version>,
    seconds: u64,
) -> Result<Option<Row>, Problem> {
    let mut watcher = checkout.watch(key)?;
    let is_newer = |row: &Row| known.is_none_or(|known| Version::of(row) > known);
    tokio::select! {
        row = watcher.until(is_newer) => {
            row.map(Some).map_err(|error| checkout.facts.failed(&error))
        }
        () = tokio::time::sleep(Duration::from_secs(seconds)) => checkout.row(key).await,
        () = checkout.drained() => checkout.row(key).await,
    }
}

/// The entity tags of If-None-Match (RFC 9110); a weak one is as good as a strong one here.
struct Tags(Vec<String>);

impl Tags {
    fn of(request: &HttpRequest) -> Self {
        let headers = request.headers().get_all(header::IF_NONE_MATCH);
        let texts = headers.filter_map(|value| value.to_str().ok());
        let tags = texts.flat_map(|text| text.split(','));
        Self(tags.map(|tag| tag.trim().trim_start_matches("W/").to_owned()).collect())
    }

    fn name(&self, version: Version) -> bool {
        self.0.iter().any(|tag| tag == "*" || *tag == version.etag())
    }

    fn newest(&self) -> Option<Version> {
        self.0.iter().filter_map(|tag| tag.trim_matches('"').parse().ok()).max()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    reference: Option<String>,
    limit: Option<usize>,
    after: Option<String>,
}

/// Attempts at one reference, the newest last.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PaymentList {
    /// Over all accounts of the shop, in the order of their orderIds, which is that of their creation.
    payments: Vec<Payment>,
    /// Put this into `after` for the next page; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// `GET /v1/payments?reference=R`
pub(crate) async fn by_reference(call: &mut Call) -> Result<HttpResponse, Problem> {
    let shop = call.shop()?;
    let query: ListQuery = call.query()?;
    let bad = |detail: String| Problem::new(&kinds::BAD_PARAMETER).because(detail);
    let reference = query.reference.ok_or_else(|| bad("reference is needed".to_owned()))?;
    let reference = Reference::parse(&reference).map_err(|error| bad(error.to_string()))?;
    let limit = query.limit.unwrap_or(PAGE);
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(bad(format!("limit is 1 to {PAGE_MAX}")));
    }
    let after = query.after.as_deref().map(OrderKey::parse).transpose();
    let after = after.map_err(|_| bad("after is not of this listing".to_owned()))?;

    let checkout = &call.checkout;
    let mut keys = attempts(checkout, &shop, &reference).await?;
    keys.sort_by(|a, b| place(a).cmp(&place(b)));
    let from = after.map_or(0, |after| keys.partition_point(|key| place(key) <= place(&after)));
    let page: Vec<_> = keys[from..].iter().take(limit).cloned().collect();
    let next = page.last().filter(|_| from + page.len() < keys.len()).map(OrderKey::to_string);
    let rows = checkout.rows(page).await?;
    let now = checkout.now();
    // A view entry is there before its row: what has no row yet is not listed yet.
    let payments = rows.iter().flatten().map(|row| Payment::of(row, now)).collect();
    Ok(HttpResponse::Ok().insert_header(NO_STORE).json(PaymentList { payments, next }))
}

/// What a listing is sorted by: ids made here begin with their time.
fn place(key: &OrderKey) -> (&str, &str, &str) {
    (key.order_id.as_str(), key.partner.as_str(), key.merchant_code.as_str())
}

/// The names of all attempts at a reference in the shop's accounts, in no order.
async fn attempts(
    checkout: &Checkout,
    shop: &ShopEntry,
    reference: &Reference,
) -> Result<Vec<OrderKey>, Problem> {
    let mut keys = Vec::new();
    for ShopAccount { partner, merchant_code } in &shop.accounts {
        let mut cursor = None;
        loop {
            let scan = Scan::Reference(partner.clone(), merchant_code.clone(), reference.clone());
            let page = checkout.in_time(checkout.parts.store.scan(scan, cursor, PAGE_MAX)).await?;
            keys.extend(page.entries.into_iter().map(|(key, _)| key));
            cursor = page.next;
            if keys.len() > ATTEMPTS_MAX {
                return Err(Problem::new(&kinds::BAD_PARAMETER)
                    .because(format!("over {ATTEMPTS_MAX} attempts have this reference")));
            }
            if cursor.is_none() {
                break;
            }
        }
    }
    Ok(keys)
}
