//! Any file as a partner's records.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| payfold_fuzz::fuzzed::records(bytes));
