//! Owns partner profiles as data: how a partner signs, which accounts we have there, and whether a
//! notice is signed by a partner.
//!
//! One notice: `notice` parses the body as leniently as safety allows, `directory` finds the
//! account, `signing` builds the signing text, `mac` and `keys` check the signature, and
//! `default_notice` reads the content. In a custom scheme `scheme::verify` and `scheme::map` do
//! this. `authenticate` is the entry point to all of it; it returns `VerifiedNotice`s, which
//! nothing else can construct. Ingest judges the notice's time afterwards.
//!
//! One payment: `scheme::create` has the values of the request and judges the answer,
//! `scheme::call` builds and signs the request, `remote` makes the call, and `outbound` refuses
//! addresses that a call must not reach. `scheme::query` builds a
//! status query and judges its answer; `remote::query` makes that call. `returned` verifies the
//! query string that a payer's browser brings back.
//!
//! Also here: `sealing` encrypts the bytes of notices in the log, so that destroying one key
//! destroys one month of them. `records` reads a partner's own file of payments from a stream.
//!
//! Only `vault`, `remote` and the name resolver of `outbound` do I/O. Nothing here reads a clock.
#![warn(missing_docs)]
#![cfg_attr(not(test), warn(unreachable_pub))]

mod authenticate;
pub mod create;
mod default_notice;
pub mod directory;
pub mod document;
pub(crate) mod field;
mod identity;
mod key_window;
pub mod keys;
pub(crate) mod limits;
pub mod mac;
mod nested;
pub mod notice;
pub mod notice_content;
pub mod outbound;
pub mod profile;
pub mod query;
mod reason;
pub mod record_key;
pub mod records;
pub mod rejection;
pub mod remote;
pub mod returned;
pub mod scheme;
pub mod sealing;
pub mod secret;
pub mod shops;
mod signed_content;
pub mod signing;
pub mod token;
pub mod validity;
pub mod vault;
pub mod verified;
