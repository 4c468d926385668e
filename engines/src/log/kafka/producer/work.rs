//! Owns what the pump is asked to do.

use std::sync::{Arc, Mutex};

use payfold_schemas::record::Position;

use crate::log::{Message, Topic};

/// What the pump is asked to make durable.
#[derive(Debug)]
pub(super) enum Work {
    /// One message.
    One(Topic, Message),
    /// Messages told together. A promise tells one position, the first one's; all of them are left here before.
    Many { topic: Topic, messages: Vec<Message>, positions: Arc<Mutex<Vec<Position>>> },
}
