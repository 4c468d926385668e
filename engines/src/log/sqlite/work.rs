//! Owns what the writer is asked to do.

use crate::log::{Message, Topic};

/// What the writer is asked to make durable.
#[derive(Debug)]
pub(super) enum Work {
    /// One message.
    One(Topic, Message),
    /// Messages that get consecutive positions.
    Many(Topic, Vec<Message>),
    /// A group is done with a topic up to this offset.
    Ack { group: String, topic: Topic, offset: u64 },
}

impl Work {
    /// The messages to append.
    pub(super) fn messages(&self) -> (Topic, &[Message]) {
        match self {
            Self::One(topic, message) => (*topic, std::slice::from_ref(message)),
            Self::Many(topic, messages) => (*topic, messages),
            Self::Ack { topic, .. } => (*topic, &[]),
        }
    }
}
