//! Kafka and the CQL database as the engines of a process: `connection` has their settings and
//! waits for unavailable engines, `open` opens them, `compacted_copy` has the claims and the copy
//! of `orders`, `apply` creates and checks topics and tables, `metrics` exports their metrics.

mod apply;
pub(super) mod compacted_copy;
mod connection;
mod metrics;
mod open;

pub(crate) use self::connection::DistributedEngines;
