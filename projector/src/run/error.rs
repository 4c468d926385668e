//! Owns the reasons for which a stage of a projector ends early.

use payfold_kit::RunError;

/// Why a stage ended before its input did.
#[derive(Debug)]
pub(super) enum Halt {
    /// Signalled to stop while storage was unavailable. The next run repeats the batches in flight.
    Stopped,
    /// These partitions belong to another projector already. The batches in flight are dropped.
    Lost(Vec<u32>),
    Failed(RunError),
}

impl From<payfold_kit::Halt> for Halt {
    fn from(halt: payfold_kit::Halt) -> Self {
        match halt {
            payfold_kit::Halt::Stopped => Self::Stopped,
            payfold_kit::Halt::Failed(error) => Self::Failed(error),
        }
    }
}
