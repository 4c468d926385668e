//! Owns how partners are asked what a payment came to: at which times, who can be asked, and whose notices wait for it.

use std::time::Duration;

use payfold_partners::profile::Profile;
use payfold_reconciler::Confirms;
use payfold_reconciler::schedule::Schedule;

use crate::error::Fixable;
use crate::settings::{Origin, ReconcilerSettings, Settings};

/// The demo's times, while none are set: who tries it waits for seconds.
const DEMO: [u64; 9] = [2, 4, 8, 15, 30, 60, 300, 1_800, 7_200];

/// The times a stuck order is asked about. Errors: the setting is no schedule.
pub fn schedule(settings: &Settings, origin: Origin) -> anyhow::Result<Schedule> {
    let set = &settings.reconciler.query_after;
    if origin == Origin::Demo && *set == ReconcilerSettings::default().query_after {
        return Ok(Schedule::new(&DEMO.map(Duration::from_secs))?);
    }
    let refused = |problem: String| {
        Fixable::error(
            format!("reconciler.query_after can't be used: {problem}"),
            "write times such as [\"1m\", \"5m\", \"1h\"], or leave it out",
        )
    };
    let after: Result<Vec<_>, _> = set
        .iter()
        .map(|text| {
            humantime::parse_duration(text).map_err(|error| refused(format!("{text}: {error}")))
        })
        .collect();
    Schedule::new(&after?).map_err(|error| refused(error.to_string()))
}

/// Whether a partner's notices may count only once a query confirms them.
pub fn needs_queries(profile: &Profile) -> bool {
    profile.confirms()
}

/// The same of all partners.
pub fn confirms(profiles: &[Profile]) -> Confirms {
    if profiles.iter().any(needs_queries) { Confirms::Some } else { Confirms::Never }
}

/// Whether a partner can be asked, as the settings and its profile are.
pub fn can_be_asked(settings: &Settings, profile: &Profile, origin: Origin) -> bool {
    let partner = settings.partners.get(profile.partner().as_str());
    let has_url = partner.is_some_and(|partner| !partner.api_url.is_empty());
    profile.query_pace().is_some() && (has_url || origin == Origin::Demo)
}

/// Who is asked and who is left alone. Errors: what is wrong, and how it is mended.
pub fn summary(
    settings: &Settings,
    profiles: &[Profile],
    origin: Origin,
) -> Result<String, (String, String)> {
    let times = schedule(settings, origin).map_err(|error| {
        (error.to_string().replace('\n', " "), "correct it in payfold.toml".to_owned())
    })?;
    let (asked, alone): (Vec<_>, Vec<_>) =
        profiles.iter().partition(|profile| can_be_asked(settings, profile, origin));
    let names = |profiles: &[&Profile]| {
        let names: Vec<_> = profiles.iter().map(|profile| profile.partner().as_str()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(" ") }
    };
    let unheard: Vec<_> = alone.iter().copied().filter(|profile| needs_queries(profile)).collect();
    if !unheard.is_empty() {
        let detail = format!(
            "notices of {} count only once a query confirms them, and it can't be asked",
            names(&unheard)
        );
        return Err((detail, "write [query] into its profile and set its api_url".to_owned()));
    }
    Ok(format!(
        "asked up to {} times when a payment is stuck: {}; left alone (no [query] or no api_url): {}",
        times.times(),
        names(&asked),
        names(&alone)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(after: &[&str]) -> Settings {
        let mut settings = Settings::default();
        settings.reconciler.query_after = after.iter().map(|text| (*text).to_owned()).collect();
        settings
    }

    #[test]
    fn times_are_as_set_and_short_in_the_demo() {
        let usual = schedule(&Settings::default(), Origin::Configured).unwrap();
        assert_eq!(usual, Schedule::default());
        let demo = schedule(&Settings::default(), Origin::Demo).unwrap();
        assert_eq!(demo.times(), DEMO.len());
        for origin in [Origin::Demo, Origin::Configured] {
            assert_eq!(schedule(&set(&["1s", "300ms 2s"]), origin).unwrap().times(), 2);
        }
    }

    #[test]
    fn what_is_no_schedule_is_named_with_its_fix() {
        for wrong in [&[][..], &["1 fortnight"], &["2m", "1m"], &["0s"], &["61days"]] {
            let error = schedule(&set(wrong), Origin::Configured).unwrap_err().to_string();
            assert!(error.contains("query_after") && error.contains("fix:"), "{error}");
        }
    }

    #[test]
    fn who_has_no_address_or_no_section_is_not_asked() {
        let code = payfold_schemas::ids::PartnerCode::parse("acme").unwrap();
        let profile = Profile::default_for(&code);
        let with = |api_url: &str| {
            let text = format!("[partners.acme]\nprofile = \"default\"\napi_url = \"{api_url}\"");
            toml::from_str::<Settings>(&text).unwrap()
        };
        assert!(can_be_asked(&with("https://a.example"), &profile, Origin::Configured));
        assert!(!can_be_asked(&with(""), &profile, Origin::Configured));
        let text = payfold_partners::profile::DEFAULT_PROFILE.split("[query]").next().unwrap();
        let without = Profile::parse(&code, text).unwrap();
        assert!(!can_be_asked(&with("https://a.example"), &without, Origin::Configured));
        assert!(!needs_queries(&profile));
        let told =
            summary(&with("https://a.example"), std::slice::from_ref(&profile), Origin::Configured);
        assert!(told.unwrap().contains("stuck: acme; left alone (no [query] or no api_url): none"));
        let told = summary(&with(""), &[profile], Origin::Configured).unwrap();
        assert!(
            told.ends_with("stuck: none; left alone (no [query] or no api_url): acme"),
            "{told}"
        );
        // Notices of this one wait for a query: it must be one that can be asked.
        let waiting = [Profile::shipped("midtrans", &code).unwrap()];
        assert_eq!((confirms(&waiting), confirms(&[])), (Confirms::Some, Confirms::Never));
        let told = summary(&with("https://a.example"), &waiting, Origin::Configured).unwrap();
        assert!(told.contains("stuck: acme; left alone"), "{told}");
        let (detail, fix) = summary(&with(""), &waiting, Origin::Configured).unwrap_err();
        assert!(detail.contains("notices of acme count only once") && fix.contains("[query]"));
        let (detail, fix) = summary(&set(&["x"]), &[], Origin::Configured).unwrap_err();
        assert!(detail.contains("query_after") && fix.contains("payfold.toml"));
    }
}
