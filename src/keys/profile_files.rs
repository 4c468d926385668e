//! Owns reading the profiles of the configured partners: shipped ones by name, others from files.
//! Invariant: a profile of stage frozen or live equals its frozen copy.

use anyhow::Context;
use payfold_partners::profile::Profile;
use payfold_schemas::ids::PartnerCode;

use crate::error::Fixable;
use crate::settings::{Loaded, Origin, Settings};
use crate::{demo, frozen};

/// Loads the profile of every configured partner. Errors: a file can't be read or parsed; they name
/// the line.
pub(crate) fn profiles(settings: &Settings) -> anyhow::Result<Vec<Profile>> {
    let mut profiles = Vec::new();
    for (code, partner) in &settings.partners {
        let code = PartnerCode::parse(code).with_context(|| {
            format!("[partners.{code}]: a partner code has lower-case letters, digits and hyphens")
        })?;
        profiles.push(match Profile::shipped(&partner.profile, &code) {
            Some(shipped) => shipped,
            None => read_profile(&code, &partner.profile)?,
        });
    }
    Ok(profiles)
}

/// The profiles of the configured partners, and in the demo the sandbox's. A demo has no configured
/// partners. Errors: as `profiles`.
pub(crate) fn profiles_in_force(
    settings: &Settings,
    origin: Origin,
) -> anyhow::Result<Vec<Profile>> {
    let mut profiles = profiles(settings)?;
    if origin == Origin::Demo && profiles.is_empty() {
        profiles.extend(demo::profile());
    }
    Ok(profiles)
}

/// The names of the constants that the partner's profile lets accounts set.
pub(crate) fn constants_of(loaded: &Loaded, partner: &PartnerCode) -> anyhow::Result<Vec<String>> {
    let profiles = profiles(&loaded.settings)?;
    let profile = profiles.iter().find(|profile| profile.partner() == partner);
    let names = profile.map(|profile| profile.scheme().constants());
    Ok(names.into_iter().flatten().map(str::to_owned).collect())
}

/// Reads a profile file and checks it against its frozen copy. Errors: it can't be read or parsed,
/// or differs from the copy.
fn read_profile(code: &PartnerCode, path: &str) -> anyhow::Result<Profile> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Fixable::error(
            format!("the profile {path} of partner {code} can't be read: {error}"),
            format!(
                "correct the path in [partners.{code}], or write the profile with payfold partner \
                 new {code}; profile = \"default\" is the contract's"
            ),
        )
    })?;
    let profile = Profile::parse(code, &text)
        .with_context(|| format!("{path}, profile of partner {code}"))?;
    frozen::check(std::path::Path::new(path), &profile, &text)?;
    Ok(profile)
}
