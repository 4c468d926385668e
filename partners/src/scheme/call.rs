//! Owns the calls we make to a partner: the rule that its scheme gives (`rule`), and
//! the HTTP request that the rule and the values of one payment are built into (`request_builder`).
//! Pure: `remote` checks the address and sends.

mod request_builder;
pub(crate) mod rule;

pub(crate) use self::request_builder::{CallBuildError, CallRequest, CommonValues, RequestBuilder};
