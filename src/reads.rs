//! Owns where a command reads: in the engines of its configuration, or through the admin listener
//! that `--admin-url` names.

use std::sync::Arc;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::Topic;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::position::Position;
use payfold_views::actions::{ActionPage, ListActions};
use payfold_views::decisions::{DecisionPage, ListDecisions};
use payfold_views::error::ReadError;
use payfold_views::facts::OrderFacts;
use payfold_views::findings::{FindingPage, ListFindings};
use payfold_views::messages::{ListMessages, MessagePage};
use payfold_views::orders::{ListOrders, OrderPage, OrderRow};
use payfold_views::periods::{ListPeriods, Periods};
use payfold_views::quarantine::{ListNotices, NoticeHistory, NoticePage};
use payfold_views::queries::QueryRules;
use payfold_views::reader::Reader;
use payfold_views::search::{FoundOrders, SearchOrders};
use payfold_views::stuck::{ListStuck, StuckPage};
use payfold_views::trace::{FindTrace, Trace};

use crate::accounts::accounts;
use crate::admin_client::AdminClient;
use crate::args::Global;
use crate::data_dir::DataDir;
use crate::settings::Loaded;
use crate::{keys, queries, wiring};
use payfold_api::call::Nothing;
use payfold_api::reads::{
    ACTIONS, DECISIONS, FACTS, FINDINGS, MESSAGES, NOTICE, NOTICES, ORDER, ORDERS, PERIODS, SEARCH,
    STUCK, TRACE,
};

/// Where a command reads.
pub(crate) enum Reads<'l> {
    /// In the engines of this configuration.
    Engines(&'l Loaded, Box<Reader>),
    /// Through an admin listener.
    Listener(AdminClient),
}

impl<'l> Reads<'l> {
    /// Opens the engines, or finds the listener. Errors: as both.
    pub(crate) async fn open(global: &Global, loaded: &'l Loaded) -> anyhow::Result<Self> {
        if global.admin_url.is_some() {
            return Ok(Self::Listener(AdminClient::find(global, &DataDir::of(&loaded.settings))?));
        }
        let engines = wiring::open_to_read(&loaded.settings).await?;
        let reader = Reader::new(Arc::clone(&engines.log), Arc::clone(engines.store()?));
        Ok(Self::Engines(loaded, Box::new(reader)))
    }

    /// A page of orders.
    pub(crate) async fn orders(&self, asked: &ListOrders) -> anyhow::Result<OrderPage> {
        match self {
            Self::Listener(client) => client.call(&ORDERS, &[], asked),
            Self::Engines(loaded, reader) => {
                let is_by_account = asked.needs_accounts();
                let accounts = if is_by_account { accounts(loaded)? } else { Vec::new() };
                reader.orders(&accounts, asked).await.map_err(unread)
            }
        }
    }

    /// The orders that a text names.
    pub(crate) async fn search(&self, asked: &SearchOrders) -> anyhow::Result<FoundOrders> {
        match self {
            Self::Listener(client) => client.call(&SEARCH, &[], asked),
            Self::Engines(loaded, reader) => {
                reader.search(&accounts(loaded)?, asked).await.map_err(unread)
            }
        }
    }

    /// One order.
    pub(crate) async fn order(&self, key: &OrderKey) -> anyhow::Result<OrderRow> {
        match self {
            Self::Listener(client) => client.call(&ORDER, &names(key), &Nothing {}),
            Self::Engines(_, reader) => reader.order(key).await.map_err(unread),
        }
    }

    /// The facts of an order.
    pub(crate) async fn facts(&self, key: &OrderKey) -> anyhow::Result<OrderFacts> {
        match self {
            Self::Listener(client) => client.call(&FACTS, &names(key), &Nothing {}),
            Self::Engines(_, reader) => reader.facts(key).await.map_err(unread),
        }
    }

    /// A page of stuck orders.
    pub(crate) async fn stuck(&self, asked: &ListStuck) -> anyhow::Result<StuckPage> {
        match self {
            Self::Listener(client) => client.call(&STUCK, &[], asked),
            Self::Engines(loaded, reader) => {
                reader.stuck(&rules(loaded)?, asked, SystemClock.now()).await.map_err(unread)
            }
        }
    }

    /// A page of findings.
    pub(crate) async fn findings(&self, asked: &ListFindings) -> anyhow::Result<FindingPage> {
        match self {
            Self::Listener(client) => client.call(&FINDINGS, &[], asked),
            Self::Engines(loaded, reader) => {
                reader.findings(&rules(loaded)?, asked, SystemClock.now()).await.map_err(unread)
            }
        }
    }

    /// A page of decisions.
    pub(crate) async fn decisions(&self, asked: &ListDecisions) -> anyhow::Result<DecisionPage> {
        match self {
            Self::Listener(client) => client.call(&DECISIONS, &[], asked),
            Self::Engines(_, reader) => reader.decisions(asked).await.map_err(unread),
        }
    }

    /// A page of what people did.
    pub(crate) async fn actions(&self, asked: &ListActions) -> anyhow::Result<ActionPage> {
        match self {
            Self::Listener(client) => client.call(&ACTIONS, &[], asked),
            Self::Engines(_, reader) => reader.actions(asked).await.map_err(unread),
        }
    }

    /// The days that were compared.
    pub(crate) async fn periods(&self, asked: &ListPeriods) -> anyhow::Result<Periods> {
        match self {
            Self::Listener(client) => client.call(&PERIODS, &[], asked),
            Self::Engines(_, reader) => reader.periods(asked).await.map_err(unread),
        }
    }

    /// A page of quarantined notices.
    pub(crate) async fn notices(&self, asked: &ListNotices) -> anyhow::Result<NoticePage> {
        match self {
            Self::Listener(client) => client.call(&NOTICES, &[], asked),
            Self::Engines(_, reader) => reader.notices(asked).await.map_err(unread),
        }
    }

    /// A quarantined notice, with every decision on it.
    pub(crate) async fn notice(&self, position: Position) -> anyhow::Result<NoticeHistory> {
        match self {
            Self::Listener(client) => client.call(&NOTICE, &[&position.to_string()], &Nothing {}),
            Self::Engines(_, reader) => reader.notice(position).await.map_err(unread),
        }
    }

    /// A trace.
    pub(crate) async fn trace(&self, asked: &FindTrace) -> anyhow::Result<Trace> {
        match self {
            Self::Listener(client) => client.call(&TRACE, &[], asked),
            Self::Engines(loaded, reader) => {
                let is_by_account = asked.needs_accounts();
                let accounts = if is_by_account { accounts(loaded)? } else { Vec::new() };
                reader.trace(&accounts, asked).await.map_err(unread)
            }
        }
    }

    /// A page of a topic's messages.
    pub(crate) async fn messages(
        &self,
        topic: Topic,
        asked: &ListMessages,
    ) -> anyhow::Result<MessagePage> {
        match self {
            Self::Listener(client) => client.call(&MESSAGES, &[topic.name()], asked),
            Self::Engines(_, reader) => reader.messages(topic, asked).await.map_err(unread),
        }
    }
}

fn rules(loaded: &Loaded) -> anyhow::Result<QueryRules> {
    let profiles = keys::profiles_in_force(&loaded.settings, loaded.origin())?;
    queries::rules(&loaded.settings, &profiles, loaded.origin())
}

fn names(key: &OrderKey) -> [&str; 3] {
    [key.partner.as_str(), key.merchant_code.as_str(), key.order_id.as_str()]
}

/// The error as commands judge it: the exit code of damaged storage follows from the engine's.
fn unread(error: ReadError) -> anyhow::Error {
    match error {
        ReadError::Engine(error) => error.into(),
        error => error.into(),
    }
}
