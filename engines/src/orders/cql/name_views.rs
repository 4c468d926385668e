//! Owns reading the views that are keyed by a name within an account: reference, provider ref,
//! nonce. Invariant: a name is one partition of the database, sorted by its clustering columns; a
//! page is one slice of it.

use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{MerchantCode, Nonce, PartnerCode};
use scylla::statement::prepared::PreparedStatement;

use super::link::Link;
use super::view_entry::{CHUNK_ROWS_MAX, order_of};
use crate::EngineError;
use crate::orders::cursor::{self, Entries};
use crate::orders::{Cursor, Scan, ViewEntry};

/// The statements that read the views by name.
pub(super) struct Names {
    reference: PreparedStatement,
    provider_ref: PreparedStatement,
    nonce: PreparedStatement,
}

impl Names {
    pub(super) async fn prepare(link: &Link, build: u32) -> Result<Self, EngineError> {
        let by_name = async |view: &str| {
            link.prepare(&format!(
                "SELECT order_id FROM {}.view_{view}_g{build}
                 WHERE account = ? AND {view} = ? AND order_id > ? LIMIT ?",
                link.keyspace
            ))
            .await
        };
        let nonce = format!(
            "SELECT digest, order_id FROM {}.view_nonce_g{build}
             WHERE account = ? AND nonce = ? AND (digest, order_id) > (?, ?) LIMIT ?",
            link.keyspace
        );
        Ok(Self {
            reference: by_name("reference").await?,
            provider_ref: by_name("provider_ref").await?,
            nonce: link.prepare(&nonce).await?,
        })
    }

    /// Reads up to `fetch` entries after a cursor.
    pub(super) async fn scan(
        &self,
        link: &Link,
        scan: &Scan,
        after: Option<&Cursor>,
        fetch: usize,
    ) -> Result<Entries, EngineError> {
        let (statement, (view, name), account, entry) = match scan {
            Scan::Reference(partner, merchant, text) => {
                let entry = ViewEntry::Reference(text.clone());
                (&self.reference, ("reference", text.as_str()), (partner, merchant), entry)
            }
            Scan::ProviderRef(partner, merchant, text) => {
                let entry = ViewEntry::ProviderRef(text.clone());
                (&self.provider_ref, ("provider_ref", text.as_str()), (partner, merchant), entry)
            }
            Scan::Nonce(partner, merchant, nonce) => {
                return self.by_nonce(link, ((partner, merchant), nonce), after, fetch).await;
            }
            Scan::Created { .. } | Scan::Newest { .. } | Scan::Deadline { .. } => {
                unreachable!("time views are walked by their buckets")
            }
        };
        let mut start = cursor::after_name(view, after)?.to_owned();
        let account_text = account_text(account);
        let mut entries = Entries::new();
        loop {
            let rows = (fetch - entries.len()).min(CHUNK_ROWS_MAX);
            let limit = i32::try_from(rows).expect("it is at most CHUNK_ROWS_MAX");
            let result = link.read(statement, (&account_text, name, &start, limit)).await?;
            let found = result.rows::<(&str,)>().map_err(|error| link.undecodable(&error))?;
            for row in found {
                let (order_id,) = row.map_err(|error| link.undecodable(&error))?;
                entries.push((order_of(link, account, order_id)?, entry.clone()));
            }
            match entries.last() {
                Some((key, _)) if result.rows_num() == rows && entries.len() < fetch => {
                    start = key.order_id.as_str().to_owned();
                }
                _ => return Ok(entries),
            }
        }
    }

    async fn by_nonce(
        &self,
        link: &Link,
        (account, nonce): ((&PartnerCode, &MerchantCode), &Nonce),
        after: Option<&Cursor>,
        fetch: usize,
    ) -> Result<Entries, EngineError> {
        let (digest, order_id) = cursor::after_nonce(after)?;
        let mut start = (digest, order_id.to_owned());
        let account_text = account_text(account);
        let mut entries = Entries::new();
        loop {
            let rows = (fetch - entries.len()).min(CHUNK_ROWS_MAX);
            let limit = i32::try_from(rows).expect("it is at most CHUNK_ROWS_MAX");
            let values = (&account_text, nonce.as_str(), &start.0, &start.1, limit);
            let result = link.read(&self.nonce, values).await?;
            let found = result.rows::<(&[u8], &str)>().map_err(|error| link.undecodable(&error))?;
            for row in found {
                let (digest, order_id) = row.map_err(|error| link.undecodable(&error))?;
                start = (digest.to_vec(), order_id.to_owned());
                let digest = digest.try_into().map(Digest::from_bytes);
                let digest = digest.map_err(|error| link.undecodable(&error))?;
                let entry = ViewEntry::Nonce(nonce.clone(), digest);
                entries.push((order_of(link, account, order_id)?, entry));
            }
            if result.rows_num() < rows || entries.len() >= fetch {
                return Ok(entries);
            }
        }
    }
}

/// An account's text in the views.
fn account_text((partner, merchant_code): (&PartnerCode, &MerchantCode)) -> String {
    format!("{partner}/{merchant_code}")
}
