//! Owns the signature a partner would have made: of any request, with the first key it could use, and nothing explained.

use crate::directory::Directory;
use crate::scheme::reading::Context;
use crate::scheme::request::Request;

impl Directory {
    /// The signature that the key of `partner`'s first account makes of a request, or of the first item of its array, as
    /// the first sign block that fits the key writes it. `None` where there is none: another scheme, a public key, a
    /// token, a request that can't be read. For checks and drills that play the partner; `explain` says why.
    pub fn expected_signature(&self, partner: &str, request: &Request<'_>) -> Option<String> {
        let profile = self.profile(partner)?;
        let scheme = profile.scheme()?;
        let account = self.of_partner(partner).first()?;
        let of = account.of();
        let mut reading = super::opened(profile, scheme, request, &of).ok()?;
        if scheme.items.is_some() {
            reading.items().ok().filter(|items| *items > 0)?;
            reading.go_to(0);
        }
        let bare = Context::bare(&reading, &of);
        let keys = &account.scheme_keys().keys;
        let (sign, ready) = scheme.signs.iter().enumerate().find_map(|(at, sign)| {
            let ready = keys.iter().find_map(|key| key.ready[at].as_ref())?;
            Some((sign, ready))
        })?;
        if !sign.algorithm.signs_the_text() {
            return None;
        }
        let text = Context { secret: ready.secret(), ..bare }.text(&sign.text).ok()?;
        let expected = ready.expected(sign.algorithm, &text)?;
        Some(sign.output.write(&expected))
    }
}
