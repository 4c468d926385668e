//! Partner profiles as data: how a partner signs, who our accounts are, and whether a notice is theirs.
//!
//! The way of one notice: `notice` parses it as leniently as safety allows, `directory` finds the
//! account, `signing` builds the text, `mac` and `keys` check it, and `verify` hands out a
//! `VerifiedIpn`, which nothing else can construct. Shape and time are judged after that, elsewhere.
//! Only `vault` does I/O; nothing here reads a clock.
#![warn(missing_docs)]

pub mod directory;
pub mod document;
pub mod keys;
pub mod mac;
mod nested;
pub mod notice;
pub mod profile;
pub mod secret;
pub mod signing;
pub mod vault;
pub mod verify;
