//! Owns the kinds of work the pump makes durable.

use std::sync::{Arc, Mutex};

use payfold_schemas::position::Position;

use crate::log::{Message, Topic};

/// One job's work for the pump.
#[derive(Debug)]
pub(super) enum ProducerWork {
    /// One message.
    One(Topic, Message),
    /// The messages of one `append_all`. A promise has room for one position, the first message's,
    /// so all positions are put here before the promise is completed.
    Many { topic: Topic, messages: Vec<Message>, positions: Arc<Mutex<Vec<Position>>> },
}
