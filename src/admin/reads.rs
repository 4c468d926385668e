//! Owns the admin calls that read: orders, findings and compared days.

use actix_web::HttpRequest;
use actix_web::web::{self, Data, Query};
use payfold_engines::EngineError;
use payfold_schemas::ids::{MerchantCode, OrderId, OrderKey, PartnerCode};
use payfold_views::error::ReadError;
use payfold_views::findings::ListFindings;
use payfold_views::orders::ListOrders;
use payfold_views::periods::ListPeriods;
use payfold_views::stuck::ListStuck;

use super::answer::{Answer, Refusal, answer, bad};
use super::backends::ReadBackend;
use super::router::Router;
use super::state::Admin;
use crate::api::reads::{FACTS, FINDINGS, ORDER, ORDERS, PERIODS, STUCK};

/// The names in the path of one order.
type OrderPath = web::Path<(String, String, String)>;

/// The routes.
pub(super) fn route(router: &mut Router) {
    router.call(&ORDERS, orders);
    router.call(&ORDER, order);
    router.call(&FACTS, facts);
    router.call(&STUCK, stuck);
    router.call(&FINDINGS, findings);
    router.call(&PERIODS, periods);
}

async fn orders(request: HttpRequest, asked: Query<ListOrders>, admin: Data<Admin>) -> Answer {
    admin.authorize(&request, &ORDERS)?;
    let directory = admin.directory.load();
    let accounts = directory.accounts().iter();
    let accounts: Vec<_> = accounts
        .map(|account| (account.partner().clone(), account.merchant_code().clone()))
        .collect();
    if asked.reference.is_some() && accounts.is_empty() {
        return Err(Refusal::NoOrders);
    }
    let page = backend(&admin)?.reader.orders(&accounts, &asked).await;
    answer(&ORDERS, &page.map_err(unread)?)
}

async fn order(request: HttpRequest, path: OrderPath, admin: Data<Admin>) -> Answer {
    admin.authorize(&request, &ORDER)?;
    let order = backend(&admin)?.reader.order(&key(path)?).await;
    answer(&ORDER, &order.map_err(unread)?)
}

async fn facts(request: HttpRequest, path: OrderPath, admin: Data<Admin>) -> Answer {
    admin.authorize(&request, &FACTS)?;
    let facts = backend(&admin)?.reader.facts(&key(path)?).await;
    answer(&FACTS, &facts.map_err(unread)?)
}

async fn stuck(request: HttpRequest, asked: Query<ListStuck>, admin: Data<Admin>) -> Answer {
    admin.authorize(&request, &STUCK)?;
    let ReadBackend { reader, rules } = backend(&admin)?;
    answer(&STUCK, &reader.stuck(rules, &asked, admin.clock.now()).await.map_err(unread)?)
}

async fn findings(request: HttpRequest, asked: Query<ListFindings>, admin: Data<Admin>) -> Answer {
    admin.authorize(&request, &FINDINGS)?;
    let ReadBackend { reader, rules } = backend(&admin)?;
    answer(&FINDINGS, &reader.findings(rules, &asked, admin.clock.now()).await.map_err(unread)?)
}

async fn periods(request: HttpRequest, asked: Query<ListPeriods>, admin: Data<Admin>) -> Answer {
    admin.authorize(&request, &PERIODS)?;
    answer(&PERIODS, &backend(&admin)?.reader.periods(&asked).await.map_err(unread)?)
}

fn key(path: OrderPath) -> Result<OrderKey, Refusal> {
    let (partner, merchant, order) = path.into_inner();
    Ok(OrderKey {
        partner: PartnerCode::parse(&partner).map_err(|error| bad(error.to_string()))?,
        merchant_code: MerchantCode::parse(&merchant).map_err(|error| bad(error.to_string()))?,
        order_id: OrderId::parse(&order).map_err(|error| bad(error.to_string()))?,
    })
}

fn backend(admin: &Admin) -> Result<&ReadBackend, Refusal> {
    admin.reads.as_ref().ok_or(Refusal::NoOrders)
}

fn unread(error: ReadError) -> Refusal {
    match error {
        ReadError::Missing(what) => Refusal::Missing(what),
        ReadError::Engine(EngineError::Invalid(why)) => bad(why),
        ReadError::Engine(error @ EngineError::Unavailable(_)) => Refusal::Unavailable(error),
        ReadError::Engine(EngineError::Corrupt(_))
        | ReadError::Damaged(..)
        | ReadError::Lost(_) => Refusal::Damaged(error.to_string()),
    }
}
