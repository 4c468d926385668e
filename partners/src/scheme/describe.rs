//! Owns the descriptions of a scheme for people: what it signs, which constants an account may set,
//! and its exceptions from the contract.

use super::lint;
use crate::scheme::compiled::Scheme;
use crate::scheme::rules::SignRule;

impl Scheme {
    /// The agreed exceptions from the contract.
    pub fn exceptions(&self) -> &[String] {
        &self.exceptions
    }

    /// The exceptions, each with the reason.
    pub fn exceptions_explained(&self, profile: &crate::profile::Profile) -> Vec<(String, String)> {
        let with = crate::scheme::lint::facts::TimeAndNonce {
            time: profile.time().kind,
            nonce: profile.nonce(),
        };
        let needed = lint::needed_exceptions(self, with);
        let why = |name: &String| needed.iter().find(|(known, _)| known == name);
        let own = || "keys of 16 bytes are taken".to_owned();
        let all = self.exceptions.iter();
        all.map(|name| (name.clone(), why(name).map_or_else(own, |(_, why)| why.clone()))).collect()
    }

    /// The names of its constants; an account may set its own value of each.
    pub fn constants(&self) -> impl Iterator<Item = &str> {
        self.constants.keys().map(String::as_str)
    }

    /// Describes each `[[sign]]` in one line.
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
