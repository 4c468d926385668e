//! Any body, query or answer under the contract's own scheme.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| payfold_fuzz::fuzzed::contract(bytes));
