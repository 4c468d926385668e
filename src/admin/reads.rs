//! Owns the admin calls that read: orders, findings, decisions, compared days, quarantined notices,
//! what people did and their tokens, traces and the messages of topics.

use actix_web::web::{self, Data, Query, ReqData};
use payfold_engines::EngineError;
use payfold_schemas::ids::{MerchantCode, PartnerCode};
use payfold_views::actions::ListActions;
use payfold_views::decisions::ListDecisions;
use payfold_views::error::ReadError;
use payfold_views::findings::ListFindings;
use payfold_views::messages::ListMessages;
use payfold_views::orders::ListOrders;
use payfold_views::periods::ListPeriods;
use payfold_views::quarantine::ListNotices;
use payfold_views::search::SearchOrders;
use payfold_views::stuck::ListStuck;
use payfold_views::trace::FindTrace;

use super::answer::{Answer, Refusal, answer, bad};
use super::backends::ReadBackend;
use super::names::{OrderNames, order_of, position_of, topic_of};
use super::router::Router;
use super::state::Admin;
use payfold_api::reads::{
    ACTIONS, DECISIONS, FACTS, FINDINGS, MESSAGES, NOTICE, NOTICES, ORDER, ORDERS, PERIODS, PERSON,
    Person, SEARCH, STUCK, TOKENS, TRACE,
};

/// The routes.
pub(super) fn route(router: &mut Router) {
    router.call(&PERSON, person);
    router.call(&SEARCH, search);
    router.call(&ORDERS, orders);
    router.call(&ORDER, order);
    router.call(&FACTS, facts);
    router.call(&STUCK, stuck);
    router.call(&FINDINGS, findings);
    router.call(&PERIODS, periods);
    router.call(&TRACE, trace);
    router.call(&DECISIONS, decisions);
    router.call(&ACTIONS, actions);
    router.call(&TOKENS, tokens);
    router.call(&NOTICES, notices);
    router.call(&NOTICE, notice);
    router.call(&MESSAGES, messages);
}

async fn person(person: ReqData<Person>) -> Answer {
    answer(&PERSON, &*person)
}

async fn search(asked: Query<SearchOrders>, admin: Data<Admin>) -> Answer {
    let found = backend(&admin)?.reader.search(&accounts(&admin)?, &asked).await;
    answer(&SEARCH, &found.map_err(unread)?)
}

async fn orders(asked: Query<ListOrders>, admin: Data<Admin>) -> Answer {
    let backend = backend(&admin)?;
    let accounts = if asked.needs_accounts() { accounts(&admin)? } else { Vec::new() };
    let page = backend.reader.orders(&accounts, &asked).await;
    answer(&ORDERS, &page.map_err(unread)?)
}

async fn order(path: web::Path<OrderNames>, admin: Data<Admin>) -> Answer {
    let order = backend(&admin)?.reader.order(&order_of(&path)?).await;
    answer(&ORDER, &order.map_err(unread)?)
}

async fn facts(path: web::Path<OrderNames>, admin: Data<Admin>) -> Answer {
    let facts = backend(&admin)?.reader.facts(&order_of(&path)?).await;
    answer(&FACTS, &facts.map_err(unread)?)
}

async fn stuck(asked: Query<ListStuck>, admin: Data<Admin>) -> Answer {
    let ReadBackend { reader, rules, .. } = backend(&admin)?;
    answer(&STUCK, &reader.stuck(rules, &asked, admin.clock.now()).await.map_err(unread)?)
}

async fn findings(asked: Query<ListFindings>, admin: Data<Admin>) -> Answer {
    let ReadBackend { reader, rules, .. } = backend(&admin)?;
    answer(&FINDINGS, &reader.findings(rules, &asked, admin.clock.now()).await.map_err(unread)?)
}

async fn periods(asked: Query<ListPeriods>, admin: Data<Admin>) -> Answer {
    answer(&PERIODS, &backend(&admin)?.reader.periods(&asked).await.map_err(unread)?)
}

async fn trace(asked: Query<FindTrace>, admin: Data<Admin>) -> Answer {
    let backend = backend(&admin)?;
    let _one_at_a_time = backend.tracing.try_acquire().map_err(|_| Refusal::BusyTracing)?;
    let accounts = if asked.needs_accounts() { accounts(&admin)? } else { Vec::new() };
    let found = backend.reader.trace(&accounts, &asked).await;
    answer(&TRACE, &found.map_err(unread)?)
}

async fn decisions(asked: Query<ListDecisions>, admin: Data<Admin>) -> Answer {
    answer(&DECISIONS, &backend(&admin)?.reader.decisions(&asked).await.map_err(unread)?)
}

async fn actions(asked: Query<ListActions>, admin: Data<Admin>) -> Answer {
    answer(&ACTIONS, &backend(&admin)?.reader.actions(&asked).await.map_err(unread)?)
}

async fn tokens(admin: Data<Admin>) -> Answer {
    let in_force = admin.tokens.load_full();
    answer(&TOKENS, &backend(&admin)?.reader.tokens(&in_force).await.map_err(unread)?)
}

async fn notices(asked: Query<ListNotices>, admin: Data<Admin>) -> Answer {
    answer(&NOTICES, &backend(&admin)?.reader.notices(&asked).await.map_err(unread)?)
}

async fn notice(path: web::Path<String>, admin: Data<Admin>) -> Answer {
    let history = backend(&admin)?.reader.notice(position_of(&path)?).await;
    answer(&NOTICE, &history.map_err(unread)?)
}

async fn messages(
    path: web::Path<String>,
    asked: Query<ListMessages>,
    admin: Data<Admin>,
) -> Answer {
    let page = backend(&admin)?.reader.messages(topic_of(&path)?, &asked).await;
    answer(&MESSAGES, &page.map_err(unread)?)
}

/// The accounts that an order id or a reference is searched in. Errors: this process knows none.
fn accounts(admin: &Admin) -> Result<Vec<(PartnerCode, MerchantCode)>, Refusal> {
    let directory = admin.directory.load();
    let known = directory.accounts().iter();
    let known = known.map(|account| (account.partner().clone(), account.merchant_code().clone()));
    let accounts: Vec<_> = known.collect();
    if accounts.is_empty() { Err(Refusal::NoOrders) } else { Ok(accounts) }
}

fn backend(admin: &Admin) -> Result<&ReadBackend, Refusal> {
    admin.reads.as_ref().ok_or(Refusal::NoOrders)
}

fn unread(error: ReadError) -> Refusal {
    match error {
        ReadError::NoOrder(_) | ReadError::NoNotice(_) => Refusal::Missing(error.to_string()),
        ReadError::Newer(_) => Refusal::Newer(error.to_string()),
        ReadError::Engine(EngineError::Invalid(why)) => bad(why),
        ReadError::Engine(error @ EngineError::Unavailable(_)) => Refusal::Unavailable(error),
        ReadError::Engine(EngineError::Corrupt(_))
        | ReadError::Damaged(..)
        | ReadError::Lost(_) => Refusal::Damaged(error.to_string()),
    }
}
