//! Owns the order rows: one blob cell each, under the order's key. Invariant: a row is never
//! replaced by one of an older position, whichever process writes it and in whatever order the
//! writes arrive, because its write timestamp is made from its position.

use std::sync::Arc;

use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;
use scylla::statement::prepared::PreparedStatement;

use super::link::Link;
use super::timestamp;
use super::view_entry::CHUNK_ROWS_MAX;
use crate::EngineError;
use crate::orders::{Cursor, Walked, row, walked};

/// The statements on rows.
pub(super) struct Rows {
    select: PreparedStatement,
    insert: PreparedStatement,
    walk: PreparedStatement,
}

impl Rows {
    pub(super) async fn prepare(link: &Link, build: u32) -> Result<Self, EngineError> {
        let table = format!("{}.orders_g{build}", link.keyspace);
        let insert = format!("INSERT INTO {table} (key, row) VALUES (?, ?) USING TIMESTAMP ?");
        let walk =
            format!("SELECT token(key), key, row FROM {table} WHERE token(key) >= ? LIMIT ?");
        Ok(Self {
            select: link.prepare(&format!("SELECT row FROM {table} WHERE key = ?")).await?,
            insert: link.prepare(&insert).await?,
            walk: link.prepare(&walk).await?,
        })
    }

    /// Loads the rows of these keys, in the same order.
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

    /// Reads up to `limit` rows after a cursor, by token.
    pub(super) async fn walk(
        &self,
        link: &Link,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Vec<Walked>, EngineError> {
        let after = after.map(walked::after).transpose()?;
        let (place, _) = after.unwrap_or((i64::MIN, ""));
        // The query starts at the cursor's token, so the rows of that token come again and are
        // dropped below. Nearly always that is one row.
        let mut fetch = limit.saturating_add(1).min(CHUNK_ROWS_MAX);
        loop {
            let rows =
                link.read(&self.walk, (place, i32::try_from(fetch).unwrap_or(i32::MAX))).await?;
            let found = rows.rows::<(i64, &str, &[u8])>();
            let found = found.map_err(|error| link.undecodable(&error))?;
            let mut walk = Vec::with_capacity(rows.rows_num());
            for row in found {
                let (place, key, row) = row.map_err(|error| link.undecodable(&error))?;
                walk.push(Walked { place, key: key.to_owned(), row: row.to_vec() });
            }
            // The database sorts the rows of one token in an order of its own.
            walk.sort_by(Walked::compare_place);
            walk.retain(|row| after.is_none_or(|after| (row.place, row.key.as_str()) > after));
            if walk.is_empty() && rows.rows_num() == fetch {
                fetch = fetch.saturating_mul(2);
                continue;
            }
            walk.truncate(limit);
            return Ok(walk);
        }
    }

    /// Writes rows; each replaces an older row of its key.
    pub(super) async fn store(
        &self,
        link: &Link,
        orders: &[Arc<Order>],
    ) -> Result<(), EngineError> {
        link.all(orders.iter().map(async |order| {
            let mut bytes = Vec::new();
            row::encode(order, &mut bytes);
            let timestamp = timestamp::of(order.position)?;
            link.write(&self.insert, (order.key.to_string(), bytes, timestamp)).await
        }))
        .await
    }
}
