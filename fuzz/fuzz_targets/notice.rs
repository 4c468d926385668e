//! Any request under one of the known profiles.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| payfold_fuzz::fuzzed::notice(bytes));
