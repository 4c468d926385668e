//! Owns the claims in a CQL database. All builds share them, because rows can be rebuilt from the
//! log and claims can't; they must be backed up. Invariants: a key has one record for ever; the
//! conditional insert is sent once and never retried, because a retry that finds its own first
//! attempt could take it for another caller's claim; a claim without a known outcome is
//! `Unavailable`, so that at most one caller ever gets `Mine`.

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

/// How many keys `has_any` reads. The table always holds the list of agreeing replicas, which has
/// one entry for each change of the settings, so this is enough to find any other claim.
const KEYS_READ: i32 = 256;

/// The statements on claims.
pub(super) struct CqlClaims {
    insert: PreparedStatement,
    select: PreparedStatement,
    select_keys: PreparedStatement,
}

impl CqlClaims {
    pub(super) async fn prepare(link: &Link, settings: &CqlSettings) -> Result<Self, EngineError> {
        let table = format!("{}.claims", link.keyspace);
        let insert = format!("INSERT INTO {table} (key, record) VALUES (?, ?) IF NOT EXISTS");
        let mut insert = link.prepare(&insert).await?;
        insert.set_is_idempotent(false);
        insert.set_retry_policy(Some(Arc::new(FallthroughRetryPolicy::new())));
        let mut select = link.prepare(&format!("SELECT record FROM {table} WHERE key = ?")).await?;
        // A serial read completes or aborts a claim in progress, so that the claim is either seen
        // here or can't be granted later.
        select.set_consistency(match settings.serial_consistency {
            SerialConsistency::Serial => Consistency::Serial,
            SerialConsistency::LocalSerial => Consistency::LocalSerial,
        });
        let keys = format!("SELECT key FROM {table} LIMIT {KEYS_READ}");
        let select_keys = link.prepare(&keys).await?;
        Ok(Self { insert, select, select_keys })
    }

    /// Makes a claim, or returns the record of the existing one.
    pub(super) async fn claim(
        &self,
        link: &Link,
        key: &ClaimKey,
        record: &[u8],
    ) -> Result<Claimed, EngineError> {
        let rows = link.claim(&self.insert, (key.as_str(), record)).await?;
        let row = rows.single_row::<Row>().map_err(|error| link.undecodable(&error))?;
        // Cassandra returns the existing row only if there is one; ScyllaDB always returns its
        // columns.
        let column = |name| {
            let (index, _) = rows.column_specs().get_by_name(name)?;
            row.columns.get(index)?.as_ref()
        };
        match (column("[applied]"), column("record")) {
            (Some(CqlValue::Boolean(true)), _) => Ok(Claimed::Mine),
            (Some(CqlValue::Boolean(false)), Some(CqlValue::Blob(record))) => {
                Ok(Claimed::Taken(record.clone()))
            }
            _ => Err(link.address.corrupt("a claim was not applied, and there is no earlier one")),
        }
    }

    /// Whether any claim exists, apart from the list of agreeing replicas.
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

    /// Reads the record of a key.
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
