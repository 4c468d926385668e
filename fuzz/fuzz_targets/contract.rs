//! Any body, query or answer under the contract's own scheme.
#![no_main]

use payfold_fuzz::fuzzed::{Depth, contract};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| contract(bytes, Depth::of(bytes)));
