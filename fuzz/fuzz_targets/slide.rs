//! One signature, two notices.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| payfold_fuzz::fuzzed::slide(bytes));
