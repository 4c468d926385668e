//! Owns the form that a payer's browser posts to create a payment: where our page with it stands, where it goes, and which
//! fields it has.
//!
//! Invariants: where it goes comes from profile and configuration alone; what it says is signed, and the partner believes
//! nothing else; a field that the profile does not name is in no form.

use super::Kind;
use crate::outbound::{Reach, UrlProblem};
use crate::profile::Profile;
use crate::scheme::template::Piece;

/// Where partners send their notices, behind our address.
const NOTICES: &str = "/api/payment/ipn/";
/// Where our pages with forms stand.
const FORMS: &str = "/api/payment/form/";

/// The page with a partner's forms; `None` where notices come by another route.
pub(super) fn page_url(ipn_url: &str) -> Option<String> {
    let (ours, partner) = ipn_url.rsplit_once(NOTICES)?;
    Some(format!("{ours}{FORMS}{partner}"))
}

/// A form of a partner, to be filled with what its address carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaymentForm {
    /// Where the browser posts it.
    pub action: String,
    /// The names of its fields, in their order.
    fields: Vec<String>,
}

impl PaymentForm {
    /// The form that payments are created by at a partner whose address is `api_url`; `None` where they are not. Errors:
    /// no browser may be sent there.
    pub fn of(profile: &Profile, api_url: &str) -> Result<Option<Self>, UrlProblem> {
        let create = profile.scheme().and_then(|scheme| scheme.create.as_ref());
        let Some(create) = create.filter(|create| create.kind == Kind::FormPost) else {
            return Ok(None);
        };
        let rule = &create.rule;
        let plain = |pieces: &[Piece]| -> String {
            let literals = pieces.iter().filter_map(|piece| match piece {
                Piece::Literal(text) => Some(text.as_str()),
                Piece::Token(_) | Piece::Optional(_) => None,
            });
            literals.collect()
        };
        let base = rule.base.as_ref().map_or(api_url.to_owned(), |base| plain(&base.pieces));
        let action = format!("{}{}", base.trim_end_matches('/'), plain(&rule.path.pieces));
        let action = Reach::of(profile).check(&action)?.into();
        let fields = rule.fields.all.iter().map(|(name, _)| name.clone()).collect();
        Ok(Some(Self { action, fields }))
    }

    /// Whether these are the form's fields, each once, in their order.
    pub fn takes(&self, filled: &[(String, String)]) -> bool {
        self.fields.iter().eq(filled.iter().map(|(name, _)| name))
    }
}
