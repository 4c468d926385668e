//! Owns the entry of the journal and its bytes: a version byte, then CBOR, additive.

use minicbor::{Decode, Encode};
use payfold_schemas::publication::Publication;
use payfold_schemas::time::Time;

use super::Asked;
use crate::EngineError;

const VERSION: u8 = 1;

/// What is decided.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Entry {
    /// These tables are made and folded into from the beginning of the log.
    #[n(0)]
    Made {
        /// Which tables.
        #[n(0)]
        tables: u32,
        /// With one rule of the fold changed on purpose, to try what a rebuild shows.
        #[n(1)]
        drill: bool,
        /// Facts a second at most; none is as fast as it goes.
        #[n(2)]
        facts_per_s: Option<u32>,
    },
    /// Their folding stands still, or goes on, so fast at most.
    #[n(1)]
    Paced {
        /// Which tables.
        #[n(0)]
        tables: u32,
        /// It stands still.
        #[n(1)]
        paused: bool,
        /// Facts a second at most; none is as fast as it goes.
        #[n(2)]
        facts_per_s: Option<u32>,
    },
    /// Markers are to be written that let this be told.
    #[n(2)]
    Switched {
        /// What is told after them.
        #[n(0)]
        publication: Publication,
    },
    /// The markers of a switch stand in every partition.
    #[n(3)]
    Marked {
        /// The switch's number.
        #[n(0)]
        number: u32,
    },
    /// These tables are to be thrown away.
    #[n(4)]
    Dropped {
        /// Which tables.
        #[n(0)]
        tables: u32,
    },
    /// They are thrown away.
    #[n(5)]
    Gone {
        /// Which tables.
        #[n(0)]
        tables: u32,
    },
}

/// An entry, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Decided {
    /// What.
    #[n(0)]
    pub entry: Entry,
    /// Whose token it was.
    #[n(1)]
    pub author: String,
    /// Why.
    #[n(2)]
    pub reason: String,
    /// The request, which makes its bytes like no other's.
    #[n(3)]
    pub request_id: payfold_schemas::ids::RequestId,
    /// When.
    #[n(4)]
    pub at: Time,
}

impl Decided {
    pub(super) fn new(entry: Entry, asked: &Asked) -> Self {
        let (author, reason) = (asked.author.to_string(), asked.reason.clone());
        Self { entry, author, reason, request_id: asked.request_id, at: asked.at }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        minicbor::encode(self, &mut bytes).expect("encoding into memory can't fail");
        bytes
    }

    /// Errors: `Corrupt`.
    pub(super) fn decode(number: u64, bytes: &[u8]) -> Result<Self, EngineError> {
        let corrupt = |what: String| {
            EngineError::Corrupt(format!("entry {number} of the journal of generations {what}"))
        };
        match bytes.split_first() {
            Some((&VERSION, rest)) => {
                minicbor::decode(rest).map_err(|error| corrupt(format!("does not decode: {error}")))
            }
            Some((version, _)) => Err(corrupt(format!(
                "has version {version}, this program reads {VERSION}: upgrade readers before writers"
            ))),
            None => Err(corrupt("is empty".to_owned())),
        }
    }
}
