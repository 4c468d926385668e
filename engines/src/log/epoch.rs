//! Owns how a partition's number is made up: `epoch << 16 | the broker's number`. SQLite has the one of epoch 0.
//! A log that was cut into more partitions goes on in its next epoch (see `kafka::layout`), whose partitions have
//! numbers of their own; a store's write timestamps have room for as many epochs as there may be.

use crate::log::Extent;

/// Epochs there may be.
pub const EPOCHS: u32 = 64;

/// Partitions a broker may number in one epoch.
pub const PARTITIONS_MAX: u32 = 1 << BROKER_BITS;

const BROKER_BITS: u32 = 16;

/// The epoch a partition of the log belongs to.
pub fn epoch_of(partition: u32) -> u32 {
    partition >> BROKER_BITS
}

/// The partitions that are appended to: those of the last epoch.
pub fn current(extents: &[Extent]) -> Vec<u32> {
    let partitions = || extents.iter().map(|extent| extent.partition);
    let epoch = partitions().map(epoch_of).max().unwrap_or(0);
    partitions().filter(|partition| epoch_of(*partition) == epoch).collect()
}

/// What the broker numbers a partition of the log.
pub fn broker_number(partition: u32) -> i32 {
    i32::try_from(partition % PARTITIONS_MAX).expect("16 bits fit 31")
}

/// The partition of the log that a broker numbers so, in an epoch.
pub fn partition_of(epoch: u32, broker_number: i32) -> u32 {
    let number = u32::try_from(broker_number).expect("brokers number partitions from 0");
    assert!(number < PARTITIONS_MAX, "topics are made with fewer partitions than that");
    (epoch << BROKER_BITS) | number
}
