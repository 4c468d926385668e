//! Owns what the failure of a message means at the seam, and how it is said.

use rdkafka::error::RDKafkaErrorCode as Code;

use crate::EngineError;

/// A message for this topic failed. `last_word`: what the client complained about since it was last well.
pub(super) fn error(topic: &str, code: Code, last_word: Option<&str>) -> EngineError {
    let reason = last_word.map(|reason| format!("; the client said: {reason}")).unwrap_or_default();
    match code {
        // The message itself: it fails again wherever and whenever it is sent.
        Code::MessageSizeTooLarge | Code::InvalidRecord | Code::InvalidMessageSize => {
            EngineError::Invalid(format!("{topic} does not take the message: {code}"))
        }
        Code::MessageTimedOut => EngineError::Unavailable(format!(
            "{topic}: the brokers did not acknowledge in time, whether it is stored is unknown{reason}"
        )),
        Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::UnknownPartition => {
            EngineError::Unavailable(format!(
                "{topic} is not there: {code}; `payfold topics apply` makes what is missing"
            ))
        }
        Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed => {
            EngineError::Unavailable(format!(
                "{topic}: {code}; the cluster's administrator has to allow kafka.username to write there"
            ))
        }
        _ => EngineError::Unavailable(format!("{topic}: {code}{reason}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_message_itself_is_to_blame_for_is_invalid() {
        for (code, invalid, says) in [
            (Code::MessageSizeTooLarge, true, "pay.intake does not take"),
            (Code::InvalidRecord, true, "pay.intake does not take"),
            (Code::MessageTimedOut, false, "the client said: connection refused"),
            (Code::UnknownTopicOrPartition, false, "payfold topics apply"),
            (Code::TopicAuthorizationFailed, false, "kafka.username"),
            (Code::NotEnoughReplicas, false, "the client said: connection refused"),
            (Code::QueueFull, false, "pay.intake"),
        ] {
            let error = error("pay.intake", code, Some("connection refused"));
            assert_eq!(matches!(error, EngineError::Invalid(_)), invalid, "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
