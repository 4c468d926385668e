//! Owns the journal's entries and their bytes: a version byte, then CBOR, additive.

use minicbor::{Decode, Encode};
use payfold_engines::EngineError;
use payfold_schemas::publication::Publication;
use payfold_schemas::time::Time;

use super::request::DecisionRequest;

/// The version of the bytes that this program reads and writes.
const VERSION: u8 = 1;

/// One decision about builds.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum JournalEntry {
    /// A new build is to be folded from the beginning of the log.
    #[n(0)]
    BuildStarted {
        /// Its number.
        #[n(0)]
        build: u32,
        /// Whether one rule of the fold is broken on purpose, to try what a rebuild shows.
        #[n(1)]
        drill: bool,
        /// The most facts a second; none for no limit.
        #[n(2)]
        facts_per_s: Option<u32>,
    },
    /// A build is paused or resumed, or its speed limit changes.
    #[n(1)]
    SpeedSet {
        /// The number of the build.
        #[n(0)]
        build: u32,
        /// Whether it is paused.
        #[n(1)]
        paused: bool,
        /// The most facts a second; none for no limit.
        #[n(2)]
        facts_per_s: Option<u32>,
    },
    /// A switch: its markers are to be written to every partition.
    #[n(2)]
    SwitchDecided {
        /// What is published after the markers.
        #[n(0)]
        publication: Publication,
    },
    /// The markers of a switch are in every partition.
    #[n(3)]
    MarkersWritten {
        /// The switch's publication epoch.
        #[n(0)]
        epoch: u32,
    },
    /// A build is to be dropped.
    #[n(4)]
    DropDecided {
        /// The number of the build.
        #[n(0)]
        build: u32,
    },
    /// The tables of a dropped build are deleted.
    #[n(5)]
    TablesDropped {
        /// The number of the build.
        #[n(0)]
        build: u32,
    },
}

/// An entry with the request for it, as the journal stores it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct JournalRecord {
    /// The decision.
    #[n(0)]
    pub entry: JournalEntry,
    /// The name of the admin token it came with; `projector` for work done by a process.
    #[n(1)]
    pub author: String,
    /// The reason, in the author's words.
    #[n(2)]
    pub reason: String,
    /// The id of the request. It makes the bytes of every record unique.
    #[n(3)]
    pub request_id: payfold_schemas::ids::RequestId,
    /// When it was decided.
    #[n(4)]
    pub at: Time,
}

impl JournalRecord {
    pub(super) fn new(entry: JournalEntry, request: &DecisionRequest) -> Self {
        let (author, reason) = (request.author.to_string(), request.reason.clone());
        Self { entry, author, reason, request_id: request.request_id, at: request.at }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        minicbor::encode(self, &mut bytes).expect("encoding into memory can't fail");
        bytes
    }

    /// Decodes the entry with this number. Errors: `Corrupt`.
    pub(super) fn decode(number: u64, bytes: &[u8]) -> Result<Self, EngineError> {
        let corrupt = |what: String| {
            EngineError::Corrupt(format!("entry {number} of the journal of builds {what}"))
        };
        match bytes.split_first() {
            Some((&VERSION, rest)) => {
                minicbor::decode(rest).map_err(|error| corrupt(format!("does not decode: {error}")))
            }
            Some((version, _)) => Err(corrupt(format!(
                "has version {version}, this program reads {VERSION}: \
                 upgrade readers before writers"
            ))),
            None => Err(corrupt("is empty".to_owned())),
        }
    }
}
