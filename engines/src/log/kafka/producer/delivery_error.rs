//! Owns the `EngineError` of a message that was not delivered.

use rdkafka::error::RDKafkaErrorCode as Code;

use crate::EngineError;

/// The error of a message for this topic. `last_error` is the client's last error since a message
/// was last durable.
pub(super) fn delivery_error(topic: &str, code: Code, last_error: Option<&str>) -> EngineError {
    let reason = last_error
        .map(|reason| format!("; the Kafka client reported: {reason}"))
        .unwrap_or_default();
    match code {
        // The message itself is refused, so a retry fails, too.
        Code::MessageSizeTooLarge | Code::InvalidRecord | Code::InvalidMessageSize => {
            EngineError::Invalid(format!("{topic} refuses the message: {code}"))
        }
        Code::MessageTimedOut => EngineError::Unavailable(format!(
            "{topic}: the brokers did not acknowledge the message in time; it may or may not be \
             stored{reason}"
        )),
        Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition => {
            EngineError::Unavailable(format!(
                "topic {topic} does not exist: {code}; run `payfold topics apply` to make it"
            ))
        }
        Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed => {
            EngineError::Unavailable(format!(
                "{topic}: {code}; let the cluster's administrator allow kafka.username to write to \
                 it, as `payfold topics acls` prints"
            ))
        }
        _ => EngineError::Unavailable(format!("{topic}: {code}{reason}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_of_the_message_itself_are_invalid() {
        for (code, invalid, says) in [
            (Code::MessageSizeTooLarge, true, "pay.intake refuses"),
            (Code::InvalidRecord, true, "pay.intake refuses"),
            (Code::MessageTimedOut, false, "the Kafka client reported: connection refused"),
            (Code::UnknownTopicOrPartition, false, "payfold topics apply"),
            (Code::TopicAuthorizationFailed, false, "kafka.username"),
            (Code::NotEnoughReplicas, false, "the Kafka client reported: connection refused"),
            (Code::QueueFull, false, "pay.intake"),
        ] {
            let error = delivery_error("pay.intake", code, Some("connection refused"));
            assert_eq!(matches!(error, EngineError::Invalid(_)), invalid, "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
