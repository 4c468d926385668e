//! Owns the request for a decision: by whom, why, and when.

use payfold_schemas::ids::{Author, RequestId};
use payfold_schemas::time::Time;

/// A request for a decision about builds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionRequest {
    /// The name of the admin token it came with.
    pub author: Author,
    /// The reason, in the author's words.
    pub reason: String,
    /// The id of the HTTP request or command.
    pub request_id: RequestId,
    /// When it came.
    pub at: Time,
}
