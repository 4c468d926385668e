//! Any text as a profile, and a request to the partner that the profile describes.
#![no_main]

use payfold_fuzz::fuzzed::{Depth, profile};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| profile(bytes, Depth::of(bytes)));
