//! Owns the list of everything a scheme reads, and from it the parts of a request that must be
//! stored to verify a notice again.

use crate::scheme::compiled::Scheme;
use crate::scheme::rules::KeptParts;
use crate::scheme::template::{Template, TemplateToken, TokenSource};

/// Every token of a scheme, except those of its calls.
pub(crate) fn every_token(scheme: &Scheme) -> Vec<&TemplateToken> {
    let mut tokens: Vec<&TemplateToken> = Vec::new();
    let map = &scheme.map;
    let mut templates: Vec<&Template> = scheme.texts.iter().collect();
    templates.extend(scheme.documents.iter().map(|rule| &rule.from));
    for rule in scheme.documents.iter().filter_map(|rule| rule.decrypt.as_ref()) {
        templates.extend([&rule.nonce, &rule.associated_data]);
    }
    templates.extend(scheme.signs.iter().map(|sign| &sign.text));
    templates.extend(scheme.require.iter().flat_map(|rule| [&rule.value, &rule.equals]));
    templates.extend(scheme.key.id.as_ref());
    templates.extend(map.merchant.as_ref());
    templates.extend(scheme.time.as_ref().map(|(template, _)| template));
    let places = scheme.events.iter().map(|event| &event.places).chain([&map.places]);
    for places in places {
        let all = [
            &places.order,
            &places.provider_ref,
            &places.amount,
            &places.currency,
            &places.paid_at,
            &places.event,
            &places.nonce,
        ];
        templates.extend(all.into_iter().flatten());
    }
    tokens.extend(templates.into_iter().flat_map(Template::tokens));
    tokens.extend(scheme.signs.iter().filter_map(|sign| sign.signature.as_ref()));
    tokens.extend(scheme.fields.iter().map(|rule| &rule.at));
    let conditions = scheme.events.iter().flat_map(|event| &event.when);
    tokens.extend(conditions.map(|condition| &condition.value));
    tokens
}

impl KeptParts {
    /// Collects the parts. Called once, when the scheme is compiled, because they are needed for
    /// each notice.
    pub(crate) fn collect(scheme: &Scheme) -> Self {
        let mut kept = Self::default();
        for token in every_token(scheme) {
            match &token.source {
                TokenSource::Url => kept.address = true,
                TokenSource::Header(name)
                    if !kept.headers.iter().any(|other| other.eq_ignore_ascii_case(name)) =>
                {
                    kept.headers.push(name.clone());
                }
                _ => {}
            }
        }
        kept
    }
}

impl Scheme {
    /// Whether it signs or reads our address, as the partner knows it.
    pub fn signs_address(&self) -> bool {
        self.kept.address
    }

    /// The headers that are signed or read. They must be stored to verify a notice again.
    pub fn headers(&self) -> &[String] {
        &self.kept.headers
    }
}
