//! Owns the log in Kafka: one producer for appends, consumers for readers, look-ups beside them.
//! Invariants: see `layout` (which partition is which), `marker` (what each begins with) and `settings` (what
//! every client of ours is bound to).

mod context;
mod layout;
mod marker;
mod producer;
mod settings;
#[cfg(test)]
mod testing;
pub mod topics;

pub use self::context::StatisticsObserver;
pub use self::layout::{EPOCHS, Layout, epoch_of};
pub use self::marker::Marker;
pub use self::settings::{GroupProtocol, KafkaLogin, KafkaSettings};
