//! Owns the configuration of queries for the outcome of payments: their schedule, which partners
//! can be queried, and whether notices depend on it.

use std::time::Duration;

use payfold_partners::profile::Profile;
use payfold_reconciler::schedule::Schedule;
use payfold_views::queries::QueryRules;

use crate::error::Fixable;
use crate::settings::{Origin, ReconcilerSettings, Settings};

/// The demo's default schedule, in seconds. It is short, because a person waits for the result.
const DEMO: [u64; 9] = [2, 4, 8, 15, 30, 60, 300, 1_800, 7_200];

/// The schedule of queries about a stuck order. Errors: the setting can't be parsed.
pub(crate) fn schedule(settings: &Settings, origin: Origin) -> anyhow::Result<Schedule> {
    let set = &settings.reconciler.query_after;
    if origin == Origin::Demo && *set == ReconcilerSettings::default().query_after {
        return Ok(Schedule::new(&DEMO.map(Duration::from_secs))?);
    }
    let refused = |problem: String| {
        Fixable::error(
            format!("reconciler.query_after can't be used: {problem}"),
            "write ascending times such as [\"1m\", \"5m\", \"1h\"], or leave it out",
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

/// Whether a partner can be queried: its profile has [query] and its address is known.
pub(crate) fn can_be_queried(settings: &Settings, profile: &Profile, origin: Origin) -> bool {
    let partner = settings.partners.get(profile.partner().as_str());
    let has_url = partner.is_some_and(|partner| !partner.api_url.is_empty());
    profile.query_pace().is_some() && (has_url || origin == Origin::Demo)
}

/// The schedule of queries, with the partners that can be queried among those of these profiles.
/// Errors: the setting can't be parsed.
pub(crate) fn rules(
    settings: &Settings,
    profiles: &[Profile],
    origin: Origin,
) -> anyhow::Result<QueryRules> {
    let queried = profiles.iter().filter(|profile| can_be_queried(settings, profile, origin));
    Ok(QueryRules {
        schedule: schedule(settings, origin)?,
        partners: queried.map(|profile| profile.partner().clone()).collect(),
    })
}

/// A line with the partners that are queried and those that are not. Errors: what is wrong, and its
/// fix.
pub(crate) fn summary(
    settings: &Settings,
    profiles: &[Profile],
    origin: Origin,
) -> Result<String, (String, String)> {
    let times = schedule(settings, origin).map_err(|error| {
        (error.to_string().replace('\n', " "), "correct it in payfold.toml".to_owned())
    })?;
    let (queried, not_queried): (Vec<_>, Vec<_>) =
        profiles.iter().partition(|profile| can_be_queried(settings, profile, origin));
    let names = |profiles: &[&Profile]| {
        let names: Vec<_> = profiles.iter().map(|profile| profile.partner().as_str()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(" ") }
    };
    let unconfirmable: Vec<_> =
        not_queried.iter().copied().filter(|profile| profile.confirms()).collect();
    if !unconfirmable.is_empty() {
        let detail = format!(
            "notices of {} take effect only after a query confirms them, and the partner can't \
                be queried",
            names(&unconfirmable)
        );
        return Err((
            detail,
            "add [query] to its profile and set its api_url in payfold.toml".to_owned(),
        ));
    }
    Ok(format!(
        "queried up to {} times about a stuck payment: {}; not queried (no [query] or no \
            api_url): {}",
        times.query_count(),
        names(&queried),
        names(&not_queried)
    ))
}

#[cfg(test)]
mod tests {
    use payfold_reconciler::UnconfirmedNotices;

    use super::*;

    fn set(after: &[&str]) -> Settings {
        let mut settings = Settings::default();
        settings.reconciler.query_after = after.iter().map(|text| (*text).to_owned()).collect();
        settings
    }

    #[test]
    fn the_schedule_is_as_set_and_short_in_the_demo() {
        let usual = schedule(&Settings::default(), Origin::Configured).unwrap();
        assert_eq!(usual, Schedule::default());
        let demo = schedule(&Settings::default(), Origin::Demo).unwrap();
        assert_eq!(demo.query_count(), DEMO.len());
        for origin in [Origin::Demo, Origin::Configured] {
            assert_eq!(schedule(&set(&["1s", "300ms 2s"]), origin).unwrap().query_count(), 2);
        }
    }

    #[test]
    fn an_invalid_schedule_is_refused_with_its_fix() {
        for wrong in [&[][..], &["1 fortnight"], &["2m", "1m"], &["0s"], &["61days"]] {
            let error = schedule(&set(wrong), Origin::Configured).unwrap_err().to_string();
            assert!(error.contains("query_after") && error.contains("fix:"), "{error}");
        }
    }

    #[test]
    fn a_partner_without_address_or_query_section_is_not_queried() {
        let code = payfold_schemas::ids::PartnerCode::parse("acme").unwrap();
        let profile = Profile::default_for(&code);
        let with = |api_url: &str| {
            let text = format!("[partners.acme]\nprofile = \"default\"\napi_url = \"{api_url}\"");
            toml::from_str::<Settings>(&text).unwrap()
        };
        assert!(can_be_queried(&with("https://a.example"), &profile, Origin::Configured));
        assert!(!can_be_queried(&with(""), &profile, Origin::Configured));
        let text = payfold_partners::profile::DEFAULT_PROFILE.split("[query]").next().unwrap();
        let without = Profile::parse(&code, text).unwrap();
        assert!(!can_be_queried(&with("https://a.example"), &without, Origin::Configured));
        assert!(!profile.confirms());
        let queried =
            summary(&with("https://a.example"), std::slice::from_ref(&profile), Origin::Configured);
        assert!(
            queried
                .unwrap()
                .contains("payment: acme; not queried (no [query] or no api_url): none")
        );
        let detail = summary(&with(""), &[profile], Origin::Configured).unwrap();
        assert!(
            detail.ends_with("payment: none; not queried (no [query] or no api_url): acme"),
            "{detail}"
        );
        // Notices of this partner wait for a query, so it must be possible.
        let waiting = [Profile::shipped("midtrans", &code).unwrap()];
        assert_eq!(UnconfirmedNotices::of_profiles(&waiting), UnconfirmedNotices::Possible);
        assert_eq!(UnconfirmedNotices::of_profiles(&[]), UnconfirmedNotices::Never);
        let detail = summary(&with("https://a.example"), &waiting, Origin::Configured).unwrap();
        assert!(detail.contains("payment: acme; not queried"), "{detail}");
        let (detail, fix) = summary(&with(""), &waiting, Origin::Configured).unwrap_err();
        assert!(detail.contains("notices of acme take effect only") && fix.contains("[query]"));
        let (detail, fix) = summary(&set(&["x"]), &[], Origin::Configured).unwrap_err();
        assert!(detail.contains("query_after") && fix.contains("payfold.toml"));
    }
}
