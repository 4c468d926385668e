//! Owns the decision which API address a run may use with which profile. Invariant: a run never
//! uses the address of a live partner, because it creates payments and does not clean them up.
//! Pure.

use payfold_partners::outbound::Reach;
use payfold_partners::profile::{Profile, Stage};
use payfold_schemas::ids::PartnerCode;
use url::Url;

/// The addresses of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunTarget<'a> {
    /// The base URL of the partner's sandbox API.
    pub api_url: &'a str,
    /// The base URL at which the partner reaches the receiver of this run.
    pub public_url: &'a str,
    /// The configured base URL of the partner's API in service.
    pub service_url: Option<&'a str>,
}

/// Why a run is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetRefusal {
    /// The payer's browser posts a form from our own page, which a run does not serve.
    #[error("partner {0} is paid with a form that the payer's browser posts from our page")]
    PostedForm(PartnerCode),
    /// The address is used for real payments.
    #[error("partner {partner} is live, and its real payments are made at {api_url}")]
    Production {
        /// The partner.
        partner: PartnerCode,
        /// The address.
        api_url: String,
    },
    /// A partner on the internet can't reach a private address. All its IPNs would be missing.
    #[error(
        "{api_url} can't send IPNs to {public_url}, which is not an https address on the internet"
    )]
    Unreachable {
        /// The partner's address.
        api_url: String,
        /// The receiver's address.
        public_url: String,
    },
}

impl RunTarget<'_> {
    /// Checks whether a run may use this target with this profile. Without a profile it checks the
    /// addresses only. Errors: the first reason against the run.
    pub fn check(&self, profile: Option<&Profile>) -> Result<(), TargetRefusal> {
        if let Some(profile) = profile {
            if profile.scheme().needs_our_page() {
                return Err(TargetRefusal::PostedForm(profile.partner().clone()));
            }
            let is_service =
                self.service_url.is_some_and(|url| have_same_origin(url, self.api_url));
            if profile.stage() == Stage::Live && is_service {
                let (partner, api_url) = (profile.partner().clone(), self.api_url.to_owned());
                return Err(TargetRefusal::Production { partner, api_url });
            }
        }
        if is_public(self.public_url) || !is_public(self.api_url) {
            return Ok(());
        }
        let [api_url, public_url] = [self.api_url, self.public_url].map(str::to_owned);
        Err(TargetRefusal::Unreachable { api_url, public_url })
    }
}

/// Whether `profile` is the frozen profile of `partner`, and `url` is on this machine or a private
/// network. Such a profile may call private addresses during the run.
pub fn is_private_trial(profile: &Profile, partner: &PartnerCode, url: Option<&str>) -> bool {
    let is_frozen = profile.partner() == partner && profile.stage() == Stage::Frozen;
    is_frozen && url.is_some_and(|url| !is_public(url))
}

fn is_public(url: &str) -> bool {
    Reach::Public.check(url).is_ok()
}

fn have_same_origin(one: &str, other: &str) -> bool {
    let origin = |url: &str| Url::parse(url).map(|url| url.origin());
    matches!((origin(one), origin(other)), (Ok(one), Ok(other)) if one == other)
}
