//! Owns the claims: who asked for a payment attempt first. Outside the generations, for rows can be rebuilt
//! from the log and claims can't: back them up.
//! Invariants: a key has one record for ever; the insert is conditional, is sent once and never repeated
//! (a repeat that found its own first try would not know whose it is); what is not known to have been made
//! is `Unavailable`, so that at most one caller is ever told `Mine`.

use std::sync::Arc;

use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency};
use scylla::value::{CqlValue, Row};

use super::link::Link;
use super::settings::CqlSettings;
use crate::EngineError;
use crate::orders::claim_key::names_agreeing_copies;
use crate::orders::{ClaimKey, Claimed};

/// How many keys are read to find a claim that a person or a role made: the list of agreeing copies is written at every
/// first start, so a table that holds nothing else has lost its claims. It gains an entry when the settings change.
const KEYS_READ: i32 = 256;

/// The statements on claims.
pub(super) struct Claims {
    insert: PreparedStatement,
    select: PreparedStatement,
    select_keys: PreparedStatement,
}

impl Claims {
    pub(super) async fn prepare(link: &Link, settings: &CqlSettings) -> Result<Self, EngineError> {
        let table = format!("{}.claims", link.keyspace);
        let insert = format!("INSERT INTO {table} (key, record) VALUES (?, ?) IF NOT EXISTS");
        let mut insert = link.prepare(&insert).await?;
        insert.set_is_idempotent(false);
        insert.set_retry_policy(Some(Arc::new(FallthroughRetryPolicy::new())));
        let mut select = link.prepare(&format!("SELECT record FROM {table} WHERE key = ?")).await?;
        // A read of this kind ends whatever claim is under way, so that it is seen or can't come true.
        select.set_consistency(match settings.serial_consistency {
            SerialConsistency::Serial => Consistency::Serial,
            SerialConsistency::LocalSerial => Consistency::LocalSerial,
        });
        let keys = format!("SELECT key FROM {table} LIMIT {KEYS_READ}");
        let select_keys = link.prepare(&keys).await?;
        Ok(Self { insert, select, select_keys })
    }

    /// Makes a claim, or finds whose it is.
    pub(super) async fn claim(
        &self,
        link: &Link,
        key: &ClaimKey,
        record: &[u8],
    ) -> Result<Claimed, EngineError> {
        let rows = link.claim(&self.insert, (key.as_str(), record)).await?;
        let row = rows.single_row::<Row>().map_err(|error| link.undecodable(&error))?;
        // Cassandra answers with the row that is there only if there is one, ScyllaDB always.
        let column = |name| {
            let (index, _) = rows.column_specs().get_by_name(name)?;
            row.columns.get(index)?.as_ref()
        };
        match (column("[applied]"), column("record")) {
            (Some(CqlValue::Boolean(true)), _) => Ok(Claimed::Mine),
            (Some(CqlValue::Boolean(false)), Some(CqlValue::Blob(record))) => {
                Ok(Claimed::Taken(record.clone()))
            }
            _ => Err(link.place.corrupt("a claim is neither new nor there")),
        }
    }

    /// Whether there is any claim but the list of agreeing copies.
    pub(super) async fn has_any(&self, link: &Link) -> Result<bool, EngineError> {
        let rows = link.read(&self.select_keys, ()).await?;
        let keys = rows.rows::<(String,)>().map_err(|error| link.undecodable(&error))?;
        for key in keys {
            let (key,) = key.map_err(|error| link.undecodable(&error))?;
            if !names_agreeing_copies(&key) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The record of a key.
    pub(super) async fn claimed(
        &self,
        link: &Link,
        key: &ClaimKey,
    ) -> Result<Option<Vec<u8>>, EngineError> {
        let rows = link.read(&self.select, (key.as_str(),)).await?;
        let row = rows.maybe_first_row::<(Vec<u8>,)>().map_err(|error| link.undecodable(&error))?;
        Ok(row.map(|(record,)| record))
    }
}
