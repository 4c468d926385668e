//! Any text as a profile, and a request to whoever it is of.
#![no_main]

use payfold_fuzz::fuzzed::{Depth, profile};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| profile(bytes, Depth::of(bytes)));
