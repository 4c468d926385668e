//! Owns the number of a partition of the log: `log epoch << 16 | the broker's partition number`.
//!
//! A SQLite log has one partition, 0. To get more partitions a Kafka log continues in a new topic
//! of the next log epoch (see `kafka::layout`). Its partitions have their own numbers, so positions
//! of all log epochs are distinct. The order store's write timestamps reserve bits for at most
//! `EPOCHS` log epochs. A log epoch has nothing to do with a publication epoch.

use std::collections::BTreeMap;

use payfold_schemas::publication::Publication;

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

/// What is published in a partition, from what the last marker of each partition publishes. A
/// partition without a marker goes on with what those of earlier log epochs ended with: it was made
/// after they were folded to their end, and no marker is written into it for an earlier switch.
pub fn publication_in(partition: u32, published: &BTreeMap<u32, Publication>) -> Publication {
    let own = published.get(&partition).copied();
    own.unwrap_or_else(|| {
        let earlier = published.iter().filter(|(other, _)| epoch_of(**other) < epoch_of(partition));
        let newest = earlier.map(|(_, publication)| *publication).max_by_key(|one| one.epoch);
        newest.unwrap_or_default()
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_goes_on_with_what_earlier_log_epochs_ended_with() {
        let at = |epoch: u32, number| partition_of(epoch, number);
        let publication = |build, epoch| Publication { build, epoch };
        let known = BTreeMap::from([
            (at(0, 0), publication(1, 3)),
            (at(0, 1), publication(1, 3)),
            (at(1, 0), publication(2, 4)),
        ]);
        assert_eq!(publication_in(at(0, 1), &known), publication(1, 3));
        assert_eq!(publication_in(at(0, 2), &known), Publication::FIRST, "no earlier log epoch");
        assert_eq!(publication_in(at(1, 0), &known), publication(2, 4));
        assert_eq!(publication_in(at(1, 1), &known), publication(1, 3), "no marker yet");
        assert_eq!(publication_in(at(2, 0), &known), publication(2, 4));
    }
}
