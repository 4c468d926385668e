//! Owns nothing: the checks stand with the tests of the code they check. The tests of the root
//! package run them with the corpus.

#[path = "../../partners/tests/fuzzed/mod.rs"]
pub mod fuzzed;
