//! Owns the mapping of the driver's errors to `EngineError`. A message has the store's address and
//! the cause, in one line. Invariants: an error that may be transient is `Unavailable`; a message
//! never has a credential (the driver shows none, and the address has nodes and keyspace only).

use scylla::errors::{
    ConnectionError, ConnectionPoolError, ConnectionSetupRequestErrorKind, DbError, ExecutionError,
    MetadataError, MetadataFetchErrorKind, NewSessionError, PrepareError, RequestAttemptError,
};

use crate::EngineError;

/// The remedy for a missing keyspace or table.
pub(super) const MEND: &str = "run `payfold schema apply`";

/// The address of the store, for messages.
#[derive(Clone, Debug)]
pub(super) struct StoreAddress(pub(super) String);

impl StoreAddress {
    pub(super) fn unavailable(&self, what: &str) -> EngineError {
        EngineError::Unavailable(self.format_message(what))
    }

    pub(super) fn invalid(&self, what: &str) -> EngineError {
        EngineError::Invalid(self.format_message(what))
    }

    pub(super) fn corrupt(&self, what: &str) -> EngineError {
        EngineError::Corrupt(self.format_message(what))
    }

    /// The error of a statement that failed.
    pub(super) fn execution(&self, error: &ExecutionError) -> EngineError {
        match error {
            ExecutionError::BadQuery(_) => self.invalid(&error.to_string()),
            ExecutionError::PrepareError(error) => self.prepare(error),
            ExecutionError::ConnectionPoolError(error) => self.pool(error),
            ExecutionError::LastAttemptError(error) => self.attempt(error),
            ExecutionError::EmptyPlan => self
                .unavailable("no node is up, or cql.datacenter names a datacenter without nodes"),
            _ => self.unavailable(&error.to_string()),
        }
    }

    pub(super) fn prepare(&self, error: &PrepareError) -> EngineError {
        match error {
            PrepareError::ConnectionPoolError(error) => self.pool(error),
            PrepareError::AllAttemptsFailed { first_attempt } => self.attempt(first_attempt),
            _ => self.unavailable(&error.to_string()),
        }
    }

    pub(super) fn connecting(&self, error: &NewSessionError) -> EngineError {
        match error {
            NewSessionError::MetadataError(MetadataError::ConnectionPoolError(error)) => {
                self.pool(error)
            }
            NewSessionError::MetadataError(MetadataError::FetchError(fetch)) => {
                match &fetch.error {
                    MetadataFetchErrorKind::PrepareError(error) => self.attempt(error),
                    _ => self.unavailable(&error.to_string()),
                }
            }
            NewSessionError::EmptyKnownNodesList | NewSessionError::IllegalConfig(_) => {
                self.invalid(&error.to_string())
            }
            _ => self.unavailable(&error.to_string()),
        }
    }

    fn pool(&self, error: &ConnectionPoolError) -> EngineError {
        let ConnectionPoolError::Broken { last_connection_error, .. } = error else {
            return self.unavailable(&error.to_string());
        };
        let ConnectionError::ConnectionSetupRequestError(setup) = last_connection_error else {
            return self.unavailable(&format!("no connection: {last_connection_error}"));
        };
        match &setup.error {
            ConnectionSetupRequestErrorKind::MissingAuthentication => self.invalid(
                "the database requires a login: set a user name and a password for the order store",
            ),
            ConnectionSetupRequestErrorKind::DbError(error, reason) => self.db(error, reason),
            other => self.unavailable(&format!("no connection: {other}")),
        }
    }

    fn attempt(&self, error: &RequestAttemptError) -> EngineError {
        match error {
            RequestAttemptError::DbError(error, reason) => self.db(error, reason),
            RequestAttemptError::SerializationError(_)
            | RequestAttemptError::CqlRequestSerialization(_) => self.invalid(&error.to_string()),
            RequestAttemptError::RepreparedIdChanged { .. } => self.invalid(
                "a table was altered, which changed a prepared statement: restart this process",
            ),
            _ => self.unavailable(&error.to_string()),
        }
    }

    fn db(&self, error: &DbError, reason: &str) -> EngineError {
        match error {
            // Cassandra reports this, too, while it can't read its own table of users, which is
            // transient.
            DbError::AuthenticationError if reason.contains("Unable to perform") => {
                self.unavailable(reason)
            }
            DbError::AuthenticationError => {
                self.invalid(&format!("the database refuses the user name or password: {reason}"))
            }
            DbError::Invalid if names_missing_schema(reason) => {
                self.invalid(&format!("{reason}: {MEND}"))
            }
            DbError::SyntaxError
            | DbError::Invalid
            | DbError::Unauthorized
            | DbError::ConfigError
            | DbError::AlreadyExists { .. }
            | DbError::FunctionFailure { .. }
            | DbError::ProtocolError => self.invalid(reason),
            _ => self.unavailable(&format!("{error}: {reason}")),
        }
    }

    fn format_message(&self, what: &str) -> String {
        let line = what.split_whitespace().collect::<Vec<_>>().join(" ");
        format!("{}: {}", self.0, line.trim_end_matches('.'))
    }
}

/// Whether the reason is a missing table or column; Cassandra and ScyllaDB word it differently.
fn names_missing_schema(reason: &str) -> bool {
    let reason = reason.to_ascii_lowercase();
    ["unconfigured table", "unconfigured columnfamily", "does not exist", "undefined column"]
        .iter()
        .any(|words| reason.contains(words))
}
