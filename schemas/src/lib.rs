//! Payfold's vocabulary: pure types and their encodings. Nothing here reads a clock, a file or a
//! socket.
//!
//! Glossary, one word per thing everywhere:
//! - **partner**: a payment gateway that sends notices; **profile**: one partner's
//!   protocol, as data.
//! - **account**: our merchantCode at a partner, with its keys.
//! - **ipn**: a partner's notification of one status of one payment.
//! - **order**: one attempt at one payment, named (partner, merchantCode, orderId).
//! - **fact**: one thing known about one order; identified by content, appended, never edited.
//! - **record**: a fact (or a quarantined notice) as bytes in the log; **position**: its
//!   partition and offset.
//! - **record key**: a secret of one role; the **MAC** that it makes of each message proves that
//!   the role wrote it (`record_mac`).
//! - **fold**: the pure function from an order's facts to its state.
//! - **build**: the tables of one fold of the log; **publication**: the build of which
//!   changes are published, and its epoch.
//! - **flag**: a contradiction in an order's facts; **finding**: a difference to the partner's
//!   records.
#![warn(missing_docs)]
#![cfg_attr(not(test), warn(unreachable_pub))]
#![cfg_attr(
    not(test),
    deny(clippy::arithmetic_side_effects, clippy::as_conversions, clippy::wildcard_enum_match_arm)
)]

pub mod asyncapi;
pub mod chain;
pub mod contract;
pub mod decision;
pub mod digest;
pub mod event;
pub mod fact;
pub mod finding;
pub mod flag;
pub mod ids;
pub mod ipn;
pub mod money;
pub mod month;
pub mod notice_source;
pub mod order;
pub mod order_money;
pub mod parked;
pub mod position;
pub mod publication;
pub mod raw_read;
pub mod record;
pub mod record_keys;
pub mod record_mac;
pub mod release;
pub mod released;
pub mod run;
pub mod sealed;
pub mod state;
pub mod text;
pub mod time;
pub mod token;
pub mod writers;
