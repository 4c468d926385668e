//! Owns the kinds of work the writer makes durable.

use crate::log::{Message, Topic};

/// One job's work for the writer.
#[derive(Debug)]
pub(super) enum WriterWork {
    /// One message.
    One(Topic, Message),
    /// Messages that get consecutive positions.
    Many(Topic, Vec<Message>),
    /// A group acks a topic up to this offset.
    Ack { group: String, topic: Topic, offset: u64 },
}

impl WriterWork {
    /// The messages to append.
    pub(super) fn messages(&self) -> (Topic, &[Message]) {
        match self {
            Self::One(topic, message) => (*topic, std::slice::from_ref(message)),
            Self::Many(topic, messages) => (*topic, messages),
            Self::Ack { topic, .. } => (*topic, &[]),
        }
    }
}
