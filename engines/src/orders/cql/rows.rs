//! Owns the order rows: one blob cell each, under the order's key.
//! Invariant: a row never gives way to one of an older position, whoever writes it and in whatever order the
//! writes arrive: its timestamp is its position.

use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;
use scylla::statement::prepared::PreparedStatement;

use super::link::Link;
use super::schema::GENERATION;
use super::timestamp;
use crate::EngineError;
use crate::orders::row;

/// The statements on rows.
pub(super) struct Rows {
    select: PreparedStatement,
    insert: PreparedStatement,
}

impl Rows {
    pub(super) async fn prepare(link: &Link) -> Result<Self, EngineError> {
        let table = format!("{}.orders_g{GENERATION}", link.keyspace);
        let insert = format!("INSERT INTO {table} (key, row) VALUES (?, ?) USING TIMESTAMP ?");
        Ok(Self {
            select: link.prepare(&format!("SELECT row FROM {table} WHERE key = ?")).await?,
            insert: link.prepare(&insert).await?,
        })
    }

    /// Rows by key, in the keys' order.
    pub(super) async fn load(
        &self,
        link: &Link,
        keys: &[OrderKey],
    ) -> Result<Vec<Option<Order>>, EngineError> {
        link.in_order(keys.iter().map(|key| self.load_one(link, key))).await
    }

    async fn load_one(&self, link: &Link, key: &OrderKey) -> Result<Option<Order>, EngineError> {
        let key = key.to_string();
        let rows = link.read(&self.select, (&key,)).await?;
        let row = rows.maybe_first_row::<(&[u8],)>().map_err(|error| link.undecodable(&error))?;
        row.map(|(bytes,)| row::decode(&key, bytes)).transpose()
    }

    /// Writes rows, each over an older one of its key.
    pub(super) async fn store(&self, link: &Link, orders: &[Order]) -> Result<(), EngineError> {
        link.all(orders.iter().map(async |order| {
            let mut bytes = Vec::new();
            row::encode(order, &mut bytes);
            let timestamp = timestamp::of(order.position)?;
            link.write(&self.insert, (order.key.to_string(), bytes, timestamp)).await
        }))
        .await
    }
}
