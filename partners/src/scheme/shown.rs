//! Owns what people are shown of a scheme: what it signs, what an account may set, where it leaves the contract.

use super::{Scheme, SignRule, lint};

impl Scheme {
    /// The contract's rules this partner's way is an exception from, as agreed.
    pub fn exceptions(&self) -> &[String] {
        &self.exceptions
    }

    /// The exceptions, each with what makes it one.
    pub fn exceptions_explained(&self, profile: &crate::profile::Profile) -> Vec<(String, String)> {
        let with = lint::TimeAndNonce { time: profile.time().kind, nonce: profile.nonce() };
        let needed = lint::needed(self, with);
        let why = |name: &String| needed.iter().find(|(known, _)| known == name);
        let own = || "keys of 16 bytes are taken".to_owned();
        let all = self.exceptions.iter();
        all.map(|name| (name.clone(), why(name).map_or_else(own, |(_, why)| why.clone()))).collect()
    }

    /// The names of its constants: an account may have its own of each.
    pub fn constants(&self) -> impl Iterator<Item = &str> {
        self.constants.keys().map(String::as_str)
    }

    /// What is signed, one line for each way.
    pub fn describe(&self) -> Vec<String> {
        let line = |sign: &SignRule| {
            let (name, algorithm) = (&sign.name, sign.algorithm.name());
            let place = sign.signature.as_ref().map_or("nowhere", |token| token.written.as_str());
            match sign.text.pieces.is_empty() {
                true => format!("{name}: {algorithm} at {place}"),
                false => format!("{name}: {algorithm} over {} at {place}", sign.text),
            }
        };
        self.signs.iter().map(line).collect()
    }
}
