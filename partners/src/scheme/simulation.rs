//! The partner's side of a scheme, for a simulated partner: it writes the notices and answers that
//! a real one would send, and reads our calls. Pure.
//!
//! `inverse` finds the values with which a template renders a text, `sample` a text that matches a
//! pattern, and `draft` puts values at their places in a message. With these, `notice` writes a
//! signed notice, `answer` writes answers to calls, and `call` reads a call. `rehearsal` tries
//! all of it before a profile is played. Invariant: a notice is
//! only returned if this scheme reads it as the event it was written for.

mod answer;
mod call;
mod draft;
mod draft_document;
mod error;
mod inverse;
mod notice;
mod rehearsal;
mod sample;

pub use self::answer::{SimulatedOffer, SimulatedStatus};
pub use self::call::{CallReadError, ReadCreate, ReadQuery};
pub use self::error::SimulationError;
pub use self::notice::{NoticeFlaw, NoticeValues, PaymentValues, SimulatedNotice};

#[cfg(test)]
mod tests;
