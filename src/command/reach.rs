//! Owns the check that the configured addresses of partners may be called.

use payfold_partners::outbound::Reach;
use payfold_partners::profile::Profile;

use crate::settings::Settings;

/// The fix for an address that can't be called.
pub(crate) const FIX: &str = "set api_url to the partner's https address, without path and query";

/// A text for each partner with a configured address that can't be called.
pub(crate) fn unreachable(settings: &Settings, profiles: &[Profile]) -> Vec<String> {
    let mut problems = Vec::new();
    for (code, partner) in &settings.partners {
        let profile = profiles.iter().find(|profile| profile.partner().as_str() == code.as_str());
        let reach = profile.map_or(Reach::Public, Reach::of);
        if let (false, Err(problem)) = (partner.api_url.is_empty(), reach.check(&partner.api_url)) {
            let stage = profile.map_or("default", |profile| profile.stage().as_str());
            problems.push(format!(
                "api_url of partner {code}, with a profile of stage {stage}, can't be called: \
                 {problem}"
            ));
        }
    }
    problems
}
