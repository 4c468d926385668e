//! Any request under one of the known profiles.
#![no_main]

use payfold_fuzz::fuzzed::{Depth, notice};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| notice(bytes, Depth::of(bytes)));
