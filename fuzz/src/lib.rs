//! Owns nothing: the checks stand with the tests of the code they check, and are run there with the
//! corpus.

#[path = "../../partners/tests/fuzzed/mod.rs"]
pub mod fuzzed;
