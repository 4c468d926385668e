//! Owns the write timestamps: what makes a newer row win whoever writes it and whenever it arrives.
//! Invariants: a timestamp is a function of a log position and nothing else, never of a clock; a later
//! position of a partition has a higher one, and so has every position of a later log epoch; none is above
//! 2^50 µs (the year 2005), for a database refuses or outlives timestamps that lie in its future.

use payfold_schemas::record::Position;

use crate::EngineError;
use crate::log::epoch::{EPOCHS, epoch_of};

const OFFSET_BITS: u32 = 44;

/// The timestamp of view entries and buckets: written again they are the same, so that none may ever win.
pub(super) const OF_ENTRIES: i64 = 1;

/// The timestamp of what was folded up to `position`, whose partition is `epoch << 16 | partition in Kafka`:
/// `(epoch << 44 | offset) + 1`. Errors: `Invalid` for an epoch or offset there is no room for.
pub(super) fn of(position: Position) -> Result<i64, EngineError> {
    let epoch = epoch_of(position.partition);
    let offset = i64::try_from(position.offset).ok().filter(|offset| offset >> OFFSET_BITS == 0);
    let Some(offset) = offset.filter(|_| epoch < EPOCHS) else {
        return Err(EngineError::Invalid(format!(
            "position {position} has no timestamp: log epochs end at {}, offsets at 2^{OFFSET_BITS}",
            EPOCHS - 1
        )));
    };
    Ok((i64::from(epoch) << OFFSET_BITS | offset) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_is_of_the_position_and_far_below_any_clock() {
        let at = |epoch: u32, partition: u32, offset: u64| {
            of(Position { partition: epoch << 16 | partition, offset })
        };
        assert_eq!(at(0, 0, 0), Ok(1));
        assert_eq!(at(0, 9, 41), Ok(42), "the broker's partition has no part in it");
        let last = (1 << 44) - 1;
        assert!(at(0, 65_535, last).unwrap() < at(1, 0, 0).unwrap(), "a later epoch wins");
        assert_eq!(at(63, 65_535, last), Ok(1 << 50));
        for refused in [at(64, 0, 0), at(0, 0, last + 1), at(0, 0, u64::MAX)] {
            assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
        }
    }
}
