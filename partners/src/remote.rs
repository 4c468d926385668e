//! Owns the HTTP calls to partners. Each call is one signed request to a checked address, follows
//! no redirect, and is bounded in time and in the size of its answer. `create`, `query` and
//! `prepared_call` build the request.
//!
//! A create call has one of three outcomes: a session was created, nothing was created, or it is
//! unknown what happened. A request is sent at most once, except after a 401 for a
//! cached access token: then it is sent once more with a new token. The holder of a claim makes one
//! create call.

mod answer;
mod clients;
mod create;
mod draft;
mod partner_call;
mod partner_client;
mod prepared_call;
pub mod query;
mod tokens;

pub use self::create::{CreateCall, CreateError, CreateFailure, CreateOutcome};
pub use self::draft::{CreateDraft, DraftedRequest};
pub use self::partner_call::CallError;
pub use self::partner_client::{PartnerClient, install_tls};
