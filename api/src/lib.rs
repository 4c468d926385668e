//! Owns the calls of the admin listener: the path, the request and the answer of each. The
//! listener, the commands and `/openapi.json` use these definitions.

pub mod accounts;
pub mod call;
pub mod decisions;
pub mod demo;
pub mod process;
pub mod quarantine;
pub mod raw;
pub mod reads;
pub mod rebuild;
pub mod reconcile;
