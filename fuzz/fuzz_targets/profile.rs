//! Any text as a profile, and a request to whoever it is of.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| payfold_fuzz::fuzzed::profile(bytes));
