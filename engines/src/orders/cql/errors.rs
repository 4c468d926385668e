//! Owns what the driver's errors mean at the seam, and how they are told: where, then the cause, in one line.
//! Invariants: whatever may pass by itself is `Unavailable`; a message never holds a credential (the driver
//! shows none, and the place is built from nodes and keyspace).

use scylla::errors::{
    ConnectionError, ConnectionPoolError, ConnectionSetupRequestErrorKind, DbError, ExecutionError,
    MetadataError, MetadataFetchErrorKind, NewSessionError, PrepareError, RequestAttemptError,
};

use crate::EngineError;

/// What mends a keyspace or table that is not there.
pub(super) const MEND: &str = "run `payfold schema apply`";

/// Where the store is, for messages.
#[derive(Clone, Debug)]
pub(super) struct Place(pub(super) String);

impl Place {
    pub(super) fn unavailable(&self, what: &str) -> EngineError {
        EngineError::Unavailable(self.tell(what))
    }

    pub(super) fn invalid(&self, what: &str) -> EngineError {
        EngineError::Invalid(self.tell(what))
    }

    pub(super) fn corrupt(&self, what: &str) -> EngineError {
        EngineError::Corrupt(self.tell(what))
    }

    /// What a statement's failure means.
    pub(super) fn execution(&self, error: &ExecutionError) -> EngineError {
        match error {
            ExecutionError::BadQuery(_) => self.invalid(&error.to_string()),
            ExecutionError::PrepareError(error) => self.prepare(error),
            ExecutionError::ConnectionPoolError(error) => self.pool(error),
            ExecutionError::LastAttemptError(error) => self.attempt(error),
            ExecutionError::EmptyPlan => {
                self.unavailable("no node to ask is up, or cql.datacenter names one that has none")
            }
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
                "the database asks who we are: set a user name and a password for the order store",
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
                "a table was changed in a way that changed a statement: restart this process",
            ),
            _ => self.unavailable(&error.to_string()),
        }
    }

    fn db(&self, error: &DbError, reason: &str) -> EngineError {
        match error {
            // Also what Cassandra says while it can't read its own users: that passes.
            DbError::AuthenticationError if reason.contains("Unable to perform") => {
                self.unavailable(reason)
            }
            DbError::AuthenticationError => {
                self.invalid(&format!("the database refuses our user name or password: {reason}"))
            }
            DbError::Invalid if no_such_thing(reason) => self.invalid(&format!("{reason}: {MEND}")),
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

    fn tell(&self, what: &str) -> String {
        let line = what.split_whitespace().collect::<Vec<_>>().join(" ");
        format!("{}: {}", self.0, line.trim_end_matches('.'))
    }
}

/// Cassandra and ScyllaDB say it in different words.
fn no_such_thing(reason: &str) -> bool {
    let reason = reason.to_ascii_lowercase();
    ["unconfigured table", "unconfigured columnfamily", "does not exist", "undefined column"]
        .iter()
        .any(|words| reason.contains(words))
}
