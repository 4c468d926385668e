//! Owns the check of notices under the known profiles. No request makes the parser panic. The
//! explanation and the verdict agree. No request is accepted under a key that has signed nothing.

use super::known::{PARTNER, chosen};
use super::profile::judge;
use super::wire::Wire;
use super::{Depth, NOW};

/// The first byte chooses the profile; the rest is a request.
pub fn notice(bytes: &[u8], depth: Depth) {
    let Some((selector, rest)) = bytes.split_first() else { return };
    let known = chosen(*selector);
    let signed = judge(&known.ours, Wire::read(rest), depth);
    let taken = known.strangers.authenticate(Some(PARTNER), &signed.request(), NOW);
    assert!(taken.is_err(), "{}: accepted under a key that has signed nothing", known.name);
}

/// The verdict on an honest notice of the corpus, once it is signed.
pub fn verdict(bytes: &[u8]) -> String {
    let Some((selector, rest)) = bytes.split_first() else { return String::new() };
    let known = chosen(*selector);
    let signed = judge(&known.ours, Wire::read(rest), Depth::Explained);
    let explained = known.ours.explain(PARTNER, &signed.request(), NOW);
    format!("{}: {}", known.name, explained.map(|found| found.verdict).unwrap_or_default())
}
