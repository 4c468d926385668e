//! Owns computing the signature a partner would make of a request, without an explanation.

use crate::directory::Directory;
use crate::scheme::message::TemplateContext;
use crate::scheme::request::NoticeRequest;

impl Directory {
    /// The signature of a request, or of the first item of its array, under the first key of
    /// `partner`'s first account that fits a `[[sign]]`. `None` if there is none: a default scheme,
    /// a public key, a token, or a request that can't be read. Checks and drills use it to play the
    /// partner.
    pub fn expected_signature(&self, partner: &str, request: &NoticeRequest<'_>) -> Option<String> {
        let profile = self.profile(partner)?;
        let scheme = profile.scheme();
        let account = self.of_partner(partner).first()?;
        let inputs = account.template_inputs();
        let mut message =
            crate::scheme::explain::matching::open_request(profile, scheme, request, &inputs)
                .ok()?;
        if scheme.items.is_some() {
            message.count_items().ok().filter(|items| *items > 0)?;
            message.select_item(0);
        }
        let bare = TemplateContext::without_key(&message, &inputs);
        let keys = &account.scheme_keys().keys;
        let (sign, ready) = scheme.signs.iter().enumerate().find_map(|(at, sign)| {
            let ready = keys.iter().find_map(|key| key.ready[at].as_ref())?;
            Some((sign, ready))
        })?;
        if !sign.algorithm.signs_the_text() {
            return None;
        }
        let text = TemplateContext { secret: ready.secret(), ..bare }.render(&sign.text).ok()?;
        let expected = ready.compute_signature(&text)?;
        Some(sign.output.encode(&expected))
    }
}
