//! What every role that reads intake does in the same way. Such a role waits while storage is
//! unavailable (`outage`), stops when it is signalled to (`stop`), ends for the same reasons
//! (`halt`), retries calls of the log and the order store until they answer (`storage`), knows how
//! far intake is folded (`watermark`), and skips a damaged record only if a person has parked it
//! (`parked`). `search` finds positions in the log without an index. No role's own rules are here.
#![warn(missing_docs)]
#![cfg_attr(not(test), warn(unreachable_pub))]

mod halt;
mod outage;
pub mod parked;
pub mod search;
mod stop;
mod storage;
mod watermark;

pub use self::halt::{Halt, RunError};
pub use self::outage::{Outage, Retry};
pub use self::stop::wait_for_stop;
pub use self::storage::{Storage, is_folded};
pub use self::watermark::{BEGINNING, Watermark};
