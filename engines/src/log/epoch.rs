//! Owns the number of a partition of the log: `log epoch << 16 | the broker's partition number`.
//!
//! A SQLite log has one partition, 0. To get more partitions a Kafka log continues in a new topic
//! of the next log epoch (see `kafka::layout`). Its partitions have their own numbers, so positions
//! of all log epochs are distinct. The order store's write timestamps reserve bits for at most
//! `EPOCHS` log epochs. A log epoch has nothing to do with a publication epoch.

use crate::log::Extent;

/// How many log epochs a log can have; they are numbered from 0.
pub const EPOCHS: u32 = 64;

/// How many partitions a topic can have in one log epoch.
pub const PARTITIONS_MAX: u32 = 1 << BROKER_BITS;

const BROKER_BITS: u32 = 16;

/// The log epoch of a partition.
pub fn epoch_of(partition: u32) -> u32 {
    partition >> BROKER_BITS
}

/// The partitions that receive appends: those of the newest log epoch.
pub fn current(extents: &[Extent]) -> Vec<u32> {
    let partitions = || extents.iter().map(|extent| extent.partition);
    let epoch = partitions().map(epoch_of).max().unwrap_or(0);
    partitions().filter(|partition| epoch_of(*partition) == epoch).collect()
}

/// The broker's number of a partition of the log.
pub fn broker_number(partition: u32) -> i32 {
    i32::try_from(partition % PARTITIONS_MAX).expect("16 bits fit 31")
}

/// The partition of the log that has this broker's number in this log epoch.
pub fn partition_of(epoch: u32, broker_number: i32) -> u32 {
    let number = u32::try_from(broker_number).expect("brokers number partitions from 0");
    assert!(number < PARTITIONS_MAX, "topics are made with at most {PARTITIONS_MAX} partitions");
    (epoch << BROKER_BITS) | number
}
