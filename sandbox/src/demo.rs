//! Owns the demo's account at the sandbox partner.

use payfold_partners::profile::Profile;
use payfold_schemas::ids::PartnerCode;

/// The demo's partner code.
pub const PARTNER: &str = "sandbox";
/// The demo's merchant code.
pub const MERCHANT: &str = "DEMO";

/// The sandbox partner's profile: the default scheme, with loopback addresses allowed.
pub fn profile() -> Option<Profile> {
    PartnerCode::parse(PARTNER).ok().map(|code| Profile::sandbox_for(&code))
}
