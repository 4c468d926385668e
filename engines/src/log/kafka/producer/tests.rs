//! The producer against librdkafka's mock cluster.
