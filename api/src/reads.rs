//! Owns the calls that read: orders, findings, decisions, compared days, quarantined notices,
//! traces and the messages of topics.

pub use payfold_partners::token::LOCAL_OWNER;
use payfold_schemas::ids::Author;
use payfold_schemas::token::TokenRole;
use payfold_views::actions::{ActionPage, ListActions};
use payfold_views::decisions::{DecisionPage, ListDecisions};
use payfold_views::facts::OrderFacts;
use payfold_views::findings::{FindingPage, ListFindings};
use payfold_views::messages::{ListMessages, MessagePage};
use payfold_views::orders::{ListOrders, OrderPage, OrderRow};
use payfold_views::periods::{ListPeriods, Periods};
use payfold_views::quarantine::{ListNotices, NoticeHistory, NoticePage};
use payfold_views::search::{FoundOrders, SearchOrders};
use payfold_views::stuck::{ListStuck, StuckPage};
use payfold_views::tokens::Tokens;
use payfold_views::trace::{FindTrace, Trace};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::call::{Call, Nothing};

pub const PERSON: Call<Nothing, Person> =
    Call::get("/v1/person", "Shows the owner of the token that the call is made with");
pub const SEARCH: Call<SearchOrders, FoundOrders> = Call::get(
    "/v1/search",
    "Finds the orders that a text names: an order's id, or a reference of the shop or the partner",
);
pub const ORDERS: Call<ListOrders, OrderPage> =
    Call::get("/v1/orders", "Lists orders by their first-seen time, newest last");
pub const ORDER: Call<Nothing, OrderRow> =
    Call::get("/v1/orders/{partner}/{merchant}/{order}", "Shows an order");
pub const FACTS: Call<Nothing, OrderFacts> = Call::get(
    "/v1/orders/{partner}/{merchant}/{order}/facts",
    "Lists the facts of an order, with what each changed",
);
pub const STUCK: Call<ListStuck, StuckPage> = Call::get(
    "/v1/stuck",
    "Lists the orders with an outcome that partners are queried for, with these queries",
)
.slow();
pub const TRACE: Call<FindTrace, Trace> = Call::get(
    "/v1/trace",
    "Lists what the log has about a request, a partner's reference or an order, by time",
)
.slow();
pub const FINDINGS: Call<ListFindings, FindingPage> =
    Call::get("/v1/findings", "Lists findings by id, with the queries about their orders").slow();
pub const DECISIONS: Call<ListDecisions, DecisionPage> = Call::get(
    "/v1/decisions",
    "Lists people's decisions on findings, flags and quarantined notices, oldest first",
)
.slow();
pub const ACTIONS: Call<ListActions, ActionPage> = Call::get(
    "/v1/actions",
    "Lists what people did, the newest first: decisions, comparisons, closed days, bytes that \
     were read, tokens and builds",
)
.slow();
pub const TOKENS: Call<Nothing, Tokens> =
    Call::get("/v1/tokens", "Lists people's tokens, never the tokens themselves").slow();
pub const PERIODS: Call<ListPeriods, Periods> =
    Call::get("/v1/periods", "Lists the days that were compared, each with its last run").slow();
pub const NOTICES: Call<ListNotices, NoticePage> =
    Call::get("/v1/quarantine", "Lists quarantined notices, oldest first, with their decisions")
        .slow();
pub const NOTICE: Call<Nothing, NoticeHistory> = Call::get(
    "/v1/quarantine/{position}/history",
    "Shows a quarantined notice and every decision on it",
)
.slow();
pub const MESSAGES: Call<ListMessages, MessagePage> = Call::get(
    "/v1/topics/{topic}/messages",
    "Lists the messages of a topic, without the bytes of notices",
)
.slow();

/// The owner of a token: the author of every action with it.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Person {
    /// The owner's name.
    pub name: Author,
    /// What the owner may do.
    pub role: TokenRole,
}
