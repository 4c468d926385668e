//! Owns the entry point to verification, for the default scheme and custom schemes. It finds the
//! account with the key that signed a request, and reads the request's content.

use payfold_schemas::time::Time;

use crate::directory::Directory;
use crate::rejection::Rejection;
use crate::scheme::candidates::WithoutMerchant;
use crate::scheme::request::NoticeRequest;
use crate::verified::{UnsignedItems, VerifiedNotice, VerifiedRequest};

impl Directory {
    /// Verifies a request to the path of `route_partner`, or to the shared path. Returns one
    /// notice, or one for each item of an array. A request to the shared path that the default
    /// scheme can't read, or that no key of it has signed, is tried with the custom schemes that
    /// name their account (`found_by_merchant`). Errors: a `Rejection`; it does not reveal which
    /// accounts exist.
    pub fn authenticate(
        &self,
        route_partner: Option<&str>,
        request: &NoticeRequest<'_>,
        now: Time,
    ) -> Result<VerifiedRequest, Rejection> {
        if let Some(partner) = route_partner.filter(|partner| self.has_custom_scheme(partner)) {
            return self.verify_scheme(partner, request, now);
        }
        match self.verify_default_scheme(route_partner, request.body, now) {
            Ok(notice) => {
                Ok(VerifiedRequest { notices: vec![notice], unsigned: UnsignedItems::default() })
            }
            Err(rejection) => {
                let others = || self.by_merchant(request, now);
                route_partner.is_none().then(others).flatten().ok_or(rejection)
            }
        }
    }

    /// Whether `authenticate` may read a request's headers or our address on this route. The
    /// default scheme reads the body alone.
    pub fn reads_whole_request(&self, route_partner: Option<&str>) -> bool {
        match route_partner {
            Some(partner) => self.has_custom_scheme(partner),
            None => self.found_by_merchant().next().is_some(),
        }
    }

    fn has_custom_scheme(&self, partner: &str) -> bool {
        self.profile(partner).is_some_and(|profile| !profile.is_default_scheme())
    }

    fn by_merchant(&self, request: &NoticeRequest<'_>, now: Time) -> Option<VerifiedRequest> {
        self.found_by_merchant().find_map(|partner| {
            self.verify_items(partner, request, now, WithoutMerchant::Refuse).ok()
        })
    }

    /// Verifies one notice of a recorded request again: the item at this index of its array. The
    /// other items are not verified. `partner` is the partner of the profile that is recorded with
    /// the notice. Errors: as `authenticate`.
    pub fn reauthenticate(
        &self,
        (route_partner, partner): (Option<&str>, &str),
        request: &NoticeRequest<'_>,
        item: Option<u32>,
        now: Time,
    ) -> Result<VerifiedNotice, Rejection> {
        if self.has_custom_scheme(partner) {
            return self.verify_scheme_item(partner, request, item, now);
        }
        self.verify_default_scheme(route_partner, request.body, now)
    }
}
