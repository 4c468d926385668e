//! A compiled scheme: how the notices of one partner are read, which signatures they carry, and how
//! their values map to the contract's fields. Profiles of the default scheme (`[signature]`) are
//! written out as a scheme and compiled, too.
//!
//! A notice passes through `message` (parses the request), `verify` (finds the account and the key)
//! and `map` (chooses the event and reads its values). Our calls are in `call` (builds requests),
//! `create`, `query` and `oauth` (judge its answer). `file` reads a scheme from TOML, `compile`
//! compiles it, and `lint` checks that it is safe; `explain` says why a request is refused, and
//! `simulation` plays the partner. Invariant: the signature of a linted scheme
//! covers every value that decides about money, or a query confirms the value.

pub(crate) mod ack;
pub(crate) mod ambiguity;
pub(crate) mod amount;
mod applicable;
pub(crate) mod call;
pub(crate) mod candidates;
pub(crate) mod clock;
pub(crate) mod compile;
pub(crate) mod compiled;
pub(crate) mod create;
pub(crate) mod crypt;
pub(crate) mod deciding;
mod describe;
pub(crate) mod document;
pub(crate) mod encoding;
pub(crate) mod explain;
pub(crate) mod file;
pub(crate) mod filter;
mod fixed_texts;
pub(crate) mod found_value;
pub(crate) mod json_document;
pub(crate) mod keys;
pub(crate) mod lint;
pub(crate) mod map;
mod marks;
pub(crate) mod message;
pub(crate) mod oauth;
pub(crate) mod pairs;
pub(crate) mod query;
pub(crate) mod refusal_work;
pub(crate) mod request;
pub(crate) mod rules;
pub(crate) mod schema;
mod signature_check;
pub(crate) mod signature_encoding;
mod signer;
mod simulation;
pub(crate) mod template;
pub(crate) mod template_values;
pub(crate) mod tokens;
pub(crate) mod unwrapping;
pub(crate) mod vectors;
pub(crate) mod verify;

pub use self::ack::{AckKind, AckResponse};
pub use self::compiled::Scheme;
pub use self::create::{OfferError, PostTarget, RequestedSession};
pub use self::keys::SchemeKeys;
pub use self::request::NoticeRequest;
pub use self::schema::profile_schema;
pub use self::simulation::{
    CallReadError, NoticeFlaw, NoticeValues, PaymentValues, ReadCreate, ReadQuery, SimulatedNotice,
    SimulatedOffer, SimulatedStatus, SimulationError,
};
pub use self::vectors::{VectorError, VectorReport, check_vectors};
pub use crate::notice_content::{ContentFault, FaultKind, NoticeContent, PaymentEvent};
pub use crate::scheme::explain::attempt::{ExplainedField, Explanation, SignatureAttempt};
pub use crate::verified::VerifiedNotice;

#[cfg(test)]
mod tests;
