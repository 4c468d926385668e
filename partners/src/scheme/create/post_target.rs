//! Owns the target of the form that a payer's browser posts to create a payment: the address of our
//! page with the form, the partner's address, and the names of the fields.
//!
//! Invariants: the target comes from the profile and the settings alone; a form has only fields
//! that the profile names; the values are signed, and the partner accepts no other values.

use crate::outbound::{Reach, UrlProblem};
use crate::profile::Profile;
use crate::scheme::create::rule::CreateKind;
use crate::scheme::template::TemplatePiece;

/// The path of notices on our address.
const NOTICES: &str = "/api/payment/ipn/";
/// The path of our pages with forms on our address.
const FORMS: &str = "/api/payment/form/";

/// The address of the page with a partner's forms. `None` if `ipn_url` is not our path of notices.
pub(super) fn page_url(ipn_url: &str) -> Option<String> {
    let (ours, partner) = ipn_url.rsplit_once(NOTICES)?;
    Some(format!("{ours}{FORMS}{partner}"))
}

/// The partner's address and the fields of its form. The values come from the query of the page's
/// address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostTarget {
    /// The address the browser posts the form to.
    pub action: String,
    /// The names of the fields, in the order of the profile.
    fields: Vec<String>,
}

impl PostTarget {
    /// The target for a partner with the base address `api_url`. `None` if the profile has no
    /// `form_post`. Errors: a browser must not be sent to this address.
    pub fn of(profile: &Profile, api_url: &str) -> Result<Option<Self>, UrlProblem> {
        let create = profile.scheme().create.as_ref();
        let Some(create) = create.filter(|create| create.kind == CreateKind::FormPost) else {
            return Ok(None);
        };
        let rule = &create.rule;
        let plain = |pieces: &[TemplatePiece]| -> String {
            let literals = pieces.iter().filter_map(|piece| match piece {
                TemplatePiece::Literal(text) => Some(text.as_str()),
                TemplatePiece::Token(_) | TemplatePiece::Optional(_) => None,
            });
            literals.collect()
        };
        let base = rule.base.as_ref().map_or(api_url.to_owned(), |base| plain(&base.pieces));
        let action = format!("{}{}", base.trim_end_matches('/'), plain(&rule.path.pieces));
        let action = Reach::of(profile).check(&action)?.into();
        let fields = rule.fields.all.iter().map(|(name, _)| name.clone()).collect();
        Ok(Some(Self { action, fields }))
    }

    /// Whether `filled` has exactly the form's fields, in their order.
    pub fn takes(&self, filled: &[(String, String)]) -> bool {
        self.fields.iter().eq(filled.iter().map(|(name, _)| name))
    }
}
