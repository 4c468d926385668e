//! Owns whether partners can be called where the settings say they are.

use payfold_partners::outbound::Reach;
use payfold_partners::profile::Profile;

use super::partner::stage_name;
use crate::settings::Settings;

/// What mends an address that can't be called.
pub const FIX: &str = "write its https address, without path and query";

/// Why partners can't be called, one text each; none where nothing is called.
pub fn unreachable(settings: &Settings, profiles: &[Profile]) -> Vec<String> {
    let mut problems = Vec::new();
    for (code, partner) in &settings.partners {
        let profile = profiles.iter().find(|profile| profile.partner().as_str() == code.as_str());
        let reach = profile.map_or(Reach::Public, Reach::of);
        if let (false, Err(problem)) = (partner.api_url.is_empty(), reach.check(&partner.api_url)) {
            let stage = profile.map_or("default", |profile| stage_name(profile.stage()));
            problems.push(format!(
                "api_url of partner {code}, whose profile is of stage {stage}, can't be called: {problem}"
            ));
        }
    }
    problems
}
