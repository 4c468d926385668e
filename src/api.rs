//! Owns the calls of the admin listener: the path, the request and the answer of each. The
//! listener, the commands and `/openapi.json` use these definitions.

pub(crate) mod call;
pub(crate) mod decisions;
pub(crate) mod demo;
pub(crate) mod quarantine;
pub(crate) mod raw;
pub(crate) mod reads;
pub(crate) mod rebuild;
pub(crate) mod reconcile;
