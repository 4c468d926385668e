//! Partner profiles as data: how a partner signs, who our accounts are, and whether a notice is theirs.
//!
//! The way of one notice: `notice` parses it as leniently as safety allows, `directory` finds the
//! account, `signing` builds the text, `mac` and `keys` check it, and `verify` hands out a
//! `VerifiedIpn`, which nothing else can construct. Shape and time are judged after that, elsewhere.
//! The way of one payment: `create` writes the signed request and judges the answer, `remote` makes the call,
//! `outbound` keeps it from going where it should not. `query` asks what a payment came to, and judges what is told;
//! `remote::query` makes that call. `returned` judges what a payer's browser brings back.
//! `sealing` seals the bytes of notices in the log, so that a month of them can be destroyed.
//! `records` reads a partner's own books, from a stream it is given.
//! Only `vault` and `remote` do I/O; nothing here reads a clock.
#![warn(missing_docs)]

pub mod create;
pub mod directory;
pub mod document;
mod explain;
mod identity;
pub mod keys;
pub mod mac;
mod nested;
pub mod notice;
pub mod outbound;
pub mod profile;
pub mod query;
pub mod records;
pub mod remote;
pub mod returned;
pub mod scheme;
pub mod sealing;
pub mod secret;
pub mod shops;
pub mod signing;
pub mod validity;
pub mod vault;
pub mod verify;

// The checks that the fuzz targets share with the tests go through the same doors in both.
#[cfg(test)]
extern crate self as payfold_partners;
#[cfg(test)]
mod corpus;
#[cfg(test)]
#[path = "../tests/fuzzed/mod.rs"]
mod fuzzed;
