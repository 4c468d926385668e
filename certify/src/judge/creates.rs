//! Owns the rules of the create call (contract 2.2, 4.1). The response is checked by the same code
//! as in service. That code stops at the first violation, so that a violation says nothing about
//! the rules after it.

use std::collections::BTreeMap;

use payfold_partners::create::{CreateViolation, SessionOffer};
use payfold_partners::outbound::Reach;
use payfold_partners::remote::{CreateFailure, CreateOutcome};
use payfold_schemas::fact::Presentation;

use super::super::observations::RunObservations;
use super::tally::{RuleResult, Tally};

const NO_ANSWER: &str = "no create response was complete enough to check this";

const NOT_READ: &str = "the profile reads no such value from the answer to a create call";

pub(super) fn check_answered(observed: &RunObservations) -> Tally {
    if !observed.parameters.profile.scheme().create_can_break(CreateViolation::Redirect) {
        let reason = "no call is made: the payer opens an address that is built here";
        return Tally::Decided(RuleResult::NotApplicable, reason.to_owned());
    }
    let mut tally = Tally::new("create call", NO_ANSWER);
    for payment in &observed.payments {
        tally.add_check(match &payment.created {
            CreateOutcome::Opened(_) | CreateOutcome::Failed(CreateFailure::Violation(_)) => None,
            CreateOutcome::Failed(CreateFailure::Refused(status)) => {
                Some(format!("{}: answered {status}", payment.case))
            }
            CreateOutcome::Failed(CreateFailure::Declined(code)) => {
                Some(format!("{}: declined, {code}", payment.case))
            }
            CreateOutcome::Failed(CreateFailure::Unreachable(why)) => {
                Some(format!("{}: not connected, {why}", payment.case))
            }
            CreateOutcome::Unknown(why) => Some(format!("{}: {why}", payment.case)),
        });
    }
    if let Some(slowest) = observed.payments.iter().map(|payment| payment.took_ms).max() {
        tally.add_note(format!("the slowest took {slowest} ms"));
    }
    tally
}

pub(super) fn check_violation(observed: &RunObservations, rule: CreateViolation) -> Tally {
    let profile = &observed.parameters.profile;
    let inapplicable = if !profile.scheme().create_can_break(rule) {
        Some(NOT_READ)
    } else if rule == CreateViolation::RedirectUrlPrivate && Reach::of(profile) == Reach::Sandbox {
        Some("a profile of stage sandbox allows private addresses")
    } else {
        None
    };
    if let Some(reason) = inapplicable {
        return Tally::Decided(RuleResult::NotApplicable, reason.to_owned());
    }
    let not_tested_reason = match rule {
        CreateViolation::QrPayload => "no create response had a qrPayload",
        _ => NO_ANSWER,
    };
    let mut tally = Tally::new("answer", not_tested_reason);
    for payment in &observed.payments {
        match &payment.created {
            CreateOutcome::Opened(offer) if proves_rule(rule, offer) => tally.add_pass(),
            CreateOutcome::Failed(CreateFailure::Violation(broken)) if *broken == rule => {
                tally.add_fault(format!("{}: {}", payment.case, rule.code()));
            }
            // A later violation shows that this rule passed. That holds only up to the choice of
            // the presentation: the rules after it are about one presentation only.
            CreateOutcome::Failed(CreateFailure::Violation(broken))
                if check_order(rule) < check_order(*broken)
                    && check_order(rule) <= check_order(CreateViolation::TwoPresentations) =>
            {
                tally.add_pass();
            }
            _ => {}
        }
    }
    if !tally.is_untested() {
        return tally;
    }
    let reason = not_applicable_reason(observed, rule);
    reason.map_or(tally, |reason| Tally::Decided(RuleResult::NotApplicable, reason.to_owned()))
}

/// Why the rule does not apply to the accepted responses; `None` if it does.
fn not_applicable_reason(
    observed: &RunObservations,
    rule: CreateViolation,
) -> Option<&'static str> {
    let offers = || {
        observed.payments.iter().filter_map(|payment| match &payment.created {
            CreateOutcome::Opened(offer) => Some(offer),
            CreateOutcome::Failed(_) | CreateOutcome::Unknown(_) => None,
        })
    };
    let pages = offers().filter(|offer| is_page(offer)).count();
    match rule {
        CreateViolation::QrPayload if pages > 0 => {
            Some("the profile has no field that requests a QR code, and the partner gave none")
        }
        CreateViolation::RedirectUrlNotHttps if pages > 0 => {
            Some("the page is on this machine, where a sandbox profile allows http")
        }
        CreateViolation::RedirectUrl
        | CreateViolation::RedirectUrlNotHttps
        | CreateViolation::RedirectUrlUserinfo
        | CreateViolation::RedirectUrlPrivate
            if offers().next().is_some() =>
        {
            Some(super::tally::NO_PAGES)
        }
        _ => None,
    }
}

/// The position of a rule in the order of the checks.
fn check_order(rule: CreateViolation) -> usize {
    CreateViolation::ALL.iter().position(|one| *one == rule).unwrap_or(usize::MAX)
}

fn is_page(offer: &SessionOffer) -> bool {
    matches!(offer.presentation, Presentation::RedirectUrl(_))
}

/// Whether an accepted offer shows that the rule holds.
fn proves_rule(rule: CreateViolation, offer: &SessionOffer) -> bool {
    match rule {
        CreateViolation::RedirectUrlNotHttps => matches!(
            &offer.presentation,
            Presentation::RedirectUrl(url) if url.starts_with("https:")
        ),
        CreateViolation::RedirectUrl
        | CreateViolation::RedirectUrlUserinfo
        | CreateViolation::RedirectUrlPrivate => is_page(offer),
        CreateViolation::QrPayload => !is_page(offer),
        CreateViolation::Redirect
        | CreateViolation::NotJson
        | CreateViolation::ProviderRef
        | CreateViolation::NoPresentation
        | CreateViolation::TwoPresentations
        | CreateViolation::ExpiresAt
        | CreateViolation::ExpiresAtPast => true,
    }
}

pub(super) fn check_unique_refs(observed: &RunObservations) -> Tally {
    if !observed.parameters.profile.scheme().create_can_break(CreateViolation::ProviderRef) {
        return Tally::Decided(RuleResult::NotApplicable, NOT_READ.to_owned());
    }
    let mut tally = Tally::new("ref", NO_ANSWER);
    let mut refs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for payment in &observed.payments {
        if let CreateOutcome::Opened(offer) = &payment.created {
            refs.entry(offer.provider_ref.as_str()).or_default().push(payment.case.name());
        }
    }
    for (provider_ref, cases) in refs {
        let shared = cases.len() > 1;
        tally.add_check(shared.then(|| format!("{} share {provider_ref}", cases.join(" and "))));
    }
    tally
}
