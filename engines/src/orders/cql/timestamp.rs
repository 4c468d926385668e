//! Owns the write timestamps, by which the database decides which of two writes to a cell wins.
//!
//! A timestamp is made from a log position instead of a clock. So a newer row wins whichever
//! process writes it and whenever it arrives. In particular the late write of a projector that has
//! lost its partition (a zombie) loses; this is the store's fencing. Invariants: a timestamp is a
//! function of the log position alone; it grows with the offset within a partition, and every
//! position of a later log epoch has a higher one; none is above 2^50 µs (the year 2005), because a
//! timestamp in the database's future may be refused, or would win over every later write.

use payfold_schemas::position::Position;

use crate::EngineError;
use crate::log::epoch::{EPOCHS, epoch_of};

const OFFSET_BITS: u32 = 44;

/// The timestamp of view entries and buckets. They are immutable, so it doesn't matter which of two
/// writes wins.
pub(super) const OF_ENTRIES: i64 = 1;

/// The timestamp of data that was folded up to `position`: `(log epoch << 44 | offset) + 1`. The
/// log epoch is the upper part of the partition number (`log::epoch`). Errors: `Invalid` for a log
/// epoch or an offset that doesn't fit.
pub(super) fn of(position: Position) -> Result<i64, EngineError> {
    let epoch = epoch_of(position.partition);
    let offset = i64::try_from(position.offset).ok().filter(|offset| offset >> OFFSET_BITS == 0);
    let Some(offset) = offset.filter(|_| epoch < EPOCHS) else {
        return Err(EngineError::Invalid(format!(
            "position {position} has no write timestamp: the highest log epoch is {}, and offsets \
             are below 2^{OFFSET_BITS}",
            EPOCHS - 1
        )));
    };
    Ok((i64::from(epoch) << OFFSET_BITS | offset) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_grows_with_the_position_and_is_far_below_any_clock() {
        let at = |epoch: u32, partition: u32, offset: u64| {
            of(Position { partition: epoch << 16 | partition, offset })
        };
        assert_eq!(at(0, 0, 0), Ok(1));
        assert_eq!(at(0, 9, 41), Ok(42), "the broker's partition number does not count");
        let last = (1 << 44) - 1;
        assert!(at(0, 65_535, last).unwrap() < at(1, 0, 0).unwrap(), "a later epoch wins");
        assert_eq!(at(63, 65_535, last), Ok(1 << 50));
        for refused in [at(64, 0, 0), at(0, 0, last + 1), at(0, 0, u64::MAX)] {
            assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
        }
    }
}
