//! Owns the connection to the database, and preparing and running statements. Invariants: every
//! statement has a timeout; the driver retries idempotent statements only; the observer is called
//! once for each run of a prepared statement.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use scylla::client::SelfIdentity;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::ExecutionError;
use scylla::response::query_result::{QueryResult, QueryRowsResult};
use scylla::serialize::row::SerializeRow;
use scylla::statement::Statement;
use scylla::statement::batch::Batch;
use scylla::statement::prepared::PreparedStatement;

use super::errors::StoreAddress;
use super::settings::{CqlSettings, CqlTls};
use crate::{EngineError, SeamFuture};

/// The interval and the timeout of keepalive requests on a silent connection, so that a vanished
/// node is noticed after few timed-out statements.
const KEEPALIVE: Duration = Duration::from_secs(5);

/// What a statement does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementKind {
    /// Reads a row or a page.
    Read,
    /// Writes one row.
    Write,
    /// Writes entries of one partition together.
    Batch,
    /// Writes conditionally (a lightweight transaction).
    Claim,
}

impl StatementKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Batch, Self::Claim];

    /// The kind's name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Batch => "batch",
            Self::Claim => "claim",
        }
    }
}

/// A statement that was run.
#[derive(Clone, Copy, Debug)]
pub struct StatementRun {
    /// What the statement does.
    pub kind: StatementKind,
    /// How long it took, retries included.
    pub took: Duration,
    /// Whether it failed.
    pub failed: bool,
}

/// Called after every statement, on the caller's thread, so it must be quick.
pub type StatementObserver = Arc<dyn Fn(StatementRun) + Send + Sync>;

/// The session with the database and its settings.
pub(super) struct Link {
    session: Session,
    observer: Option<StatementObserver>,
    pub(super) address: StoreAddress,
    pub(super) keyspace: String,
    pub(super) concurrency: usize,
}

impl Link {
    /// Connects. Errors: `Invalid` (settings, credentials), `Unavailable`.
    pub(super) async fn open(settings: &CqlSettings) -> Result<Self, EngineError> {
        settings.check()?;
        let address = StoreAddress(settings.address());
        let profile = ExecutionProfile::builder()
            .consistency(settings.consistency)
            .serial_consistency(Some(settings.serial_consistency))
            .request_timeout(Some(settings.request_timeout))
            .build();
        let mut builder = SessionBuilder::new()
            .known_nodes(&settings.nodes)
            .default_execution_profile_handle(profile.into_handle())
            .keyspaces_to_fetch([&settings.keyspace])
            .fetch_full_schema_metadata(false)
            .metadata_request_clientside_timeout(settings.request_timeout)
            .schema_agreement_timeout(settings.request_timeout)
            .keepalive_interval(KEEPALIVE)
            .keepalive_timeout(KEEPALIVE)
            .custom_identity(SelfIdentity::new().with_application_name("payfold"))
            .driver_config_reporting(false);
        if let Some(datacenter) = &settings.datacenter {
            builder = builder.prefer_datacenter(datacenter.clone());
        }
        if let (Some(user), Some(password)) = (&settings.username, &settings.password) {
            builder = builder.user(user, password.reveal());
        }
        if let Some(tls) = &settings.tls {
            builder = builder.tls_context(Some(Arc::new(client_config(tls, &address)?)));
        }
        // A timeout over all attempts: the driver tries every address of every node in turn.
        let session = tokio::time::timeout(settings.request_timeout, builder.build())
            .await
            .map_err(|_| address.unavailable("no node answered in time"))?
            .map_err(|error| address.connecting(&error))?;
        let (keyspace, concurrency) = (settings.keyspace.clone(), settings.concurrency);
        Ok(Self { session, observer: None, address, keyspace, concurrency })
    }

    /// The datacenters that have nodes, sorted.
    pub(super) fn datacenters(&self) -> Vec<String> {
        let cluster = self.session.get_cluster_state();
        let named = cluster.get_nodes_info().iter().filter_map(|node| node.datacenter.clone());
        named.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Sets the observer of statements.
    pub(super) fn with_observer(self, observer: Option<StatementObserver>) -> Self {
        Self { observer, ..self }
    }

    /// Prepares a statement that the driver may retry.
    pub(super) async fn prepare(&self, cql: &str) -> Result<PreparedStatement, EngineError> {
        let prepared = self.session.prepare(cql).await;
        let mut prepared = prepared.map_err(|error| self.address.prepare(&error))?;
        prepared.set_is_idempotent(true);
        Ok(prepared)
    }

    /// Runs a statement without a result.
    pub(super) async fn write(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<(), EngineError> {
        let run = self.session.execute_unpaged(statement, values);
        self.observe(StatementKind::Write, run).await.map(|_| ())
    }

    /// Runs a batch of one statement, once for each of `values`.
    pub(super) async fn write_batch(
        &self,
        batch: &Batch,
        values: &[impl SerializeRow],
    ) -> Result<(), EngineError> {
        let run = self.session.batch(batch, values);
        self.observe(StatementKind::Batch, run).await.map(|_| ())
    }

    /// Runs a query and returns all its rows.
    pub(super) async fn read(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<QueryRowsResult, EngineError> {
        self.rows(StatementKind::Read, statement, values).await
    }

    /// Runs a conditional write and returns its result row.
    pub(super) async fn claim(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<QueryRowsResult, EngineError> {
        self.rows(StatementKind::Claim, statement, values).await
    }

    async fn rows(
        &self,
        kind: StatementKind,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<QueryRowsResult, EngineError> {
        let run = self.session.execute_unpaged(statement, values);
        let result = self.observe(kind, run).await?;
        result.into_rows_result().map_err(|error| self.undecodable(&error))
    }

    /// Awaits a run and calls the observer.
    async fn observe(
        &self,
        kind: StatementKind,
        run: impl Future<Output = Result<QueryResult, ExecutionError>>,
    ) -> Result<QueryResult, EngineError> {
        let begun = Instant::now();
        let result = run.await;
        if let Some(observer) = &self.observer {
            observer(StatementRun { kind, took: begun.elapsed(), failed: result.is_err() });
        }
        result.map_err(|error| self.address.execution(&error))
    }

    /// Runs a statement without preparing it, for statements that run once.
    pub(super) async fn run(
        &self,
        statement: Statement,
        values: impl SerializeRow,
    ) -> Result<QueryResult, EngineError> {
        let result = self.session.query_unpaged(statement, values).await;
        result.map_err(|error| self.address.execution(&error))
    }

    /// Awaits all of `work`, at most `concurrency` at a time; ends at the first error. Boxed, as
    /// `in_order` is, because the compiler can't prove that a future with an iterator of closures
    /// is `Send`.
    pub(super) fn all<'a, F>(
        &self,
        work: impl Iterator<Item = F> + Send + 'a,
    ) -> SeamFuture<'a, (), EngineError>
    where
        F: Future<Output = Result<(), EngineError>> + Send + 'a,
    {
        let running = futures_util::stream::iter(work).buffer_unordered(self.concurrency);
        Box::pin(running.try_collect())
    }

    /// Awaits all of `work`, at most `concurrency` at a time; returns the results in the order of
    /// `work`.
    pub(super) fn in_order<'a, T: Send + 'a, F>(
        &self,
        work: impl Iterator<Item = F> + Send + 'a,
    ) -> SeamFuture<'a, Vec<T>, EngineError>
    where
        F: Future<Output = Result<T, EngineError>> + Send + 'a,
    {
        let running = futures_util::stream::iter(work).buffered(self.concurrency);
        Box::pin(running.try_collect())
    }

    /// The error of a result that has other columns or types than expected.
    pub(super) fn undecodable(&self, error: &dyn std::error::Error) -> EngineError {
        self.address.corrupt(&format!("an answer does not decode: {error}"))
    }
}

fn client_config(tls: &CqlTls, address: &StoreAddress) -> Result<ClientConfig, EngineError> {
    let mut roots = RootCertStore::empty();
    match &tls.ca_file {
        Some(path) => {
            let bad = |error: &dyn std::error::Error| {
                address.invalid(&format!("can't read the CA file {}: {error}", path.display()))
            };
            for one in CertificateDer::pem_file_iter(path).map_err(|error| bad(&error))? {
                let one = one.map_err(|error| bad(&error))?;
                roots.add(one).map_err(|error| bad(&error))?;
            }
        }
        None => {
            // Some of the system's certificates may be of a kind that rustls refuses.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        return Err(address.invalid(
            "no certificate authority was found for TLS: name a CA file in the settings",
        ));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| address.invalid(&error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
