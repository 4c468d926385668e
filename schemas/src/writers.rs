//! Owns which role writes what. A MAC proves the role that wrote a message; a message of a kind
//! that this role never writes was made by somebody who has its record key. Pure.

use crate::event::ORDER_CHANGED_TYPE;
use crate::fact::Fact;
use crate::raw_read::RAW_READ_TYPE;
use crate::record::{FactRecord, IntakeRecord, Parts, Record};
use crate::record_mac::Writer;

impl FactRecord {
    /// The role that writes such a fact.
    pub fn writer(&self) -> Writer {
        let is_released = self.source.as_ref().is_some_and(|source| source.released.is_some());
        match &self.fact {
            Fact::CreateRequested(_) | Fact::SessionOpened(_) | Fact::CreateFailed(_) => {
                Writer::Checkout
            }
            Fact::Ipn(_) if !is_released => Writer::Ingest,
            Fact::Ipn(_)
            | Fact::DeadlinePassed { .. }
            | Fact::QueryAnswered(_)
            | Fact::RefShared(_)
            | Fact::Decided(_) => Writer::Reconciler,
        }
    }
}

impl IntakeRecord {
    /// The role that writes such a record.
    pub fn writer(&self) -> Writer {
        match self {
            Self::Fact(fact) => fact.writer(),
            Self::Switch(_) => Writer::Projector,
            Self::Parked(_) | Self::ParkingProposed(_) => Writer::Operator,
        }
    }
}

impl Record {
    /// The role that writes such a record.
    pub fn writer(&self) -> Writer {
        match &self.parts {
            Parts::Fact(fact) => fact.writer(),
            Parts::Quarantine(_) => Writer::Ingest,
            Parts::Switch(_) => Writer::Projector,
            Parts::Parked(_) | Parts::ParkingProposed(_) => Writer::Operator,
        }
    }
}

/// The role that writes events of this type.
pub fn writer_of_event(kind: &str) -> Writer {
    match kind {
        ORDER_CHANGED_TYPE => Writer::Projector,
        RAW_READ_TYPE => Writer::Operator,
        _ => Writer::Reconciler,
    }
}
