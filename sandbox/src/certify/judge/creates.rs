//! Owns the rules of the create call (contract 2.2, 4.1): what the judgement of its answer, which is the one in
//! service, says of each rule. It stops at the first broken one, so that the rules after it are not tested by it.

use std::collections::BTreeMap;

use payfold_partners::create::{Offer, Violation};
use payfold_partners::outbound::Reach;
use payfold_partners::remote::{Created, Failure};
use payfold_schemas::fact::Presentation;

use super::super::seen::Seen;
use super::{Outcome, Tally};

const NO_ANSWER: &str = "no create call was answered so far";

pub(super) fn answered(seen: &Seen) -> Tally {
    let mut tally = Tally::new("create call", NO_ANSWER);
    for payment in &seen.payments {
        tally.hold_or(match &payment.created {
            Created::Opened(_) | Created::Failed(Failure::Violation(_)) => None,
            Created::Failed(Failure::Refused(status)) => {
                Some(format!("{}: answered {status}", payment.case))
            }
            Created::Failed(Failure::Declined(code)) => {
                Some(format!("{}: declined, {code}", payment.case))
            }
            Created::Failed(Failure::Unreachable(why)) => {
                Some(format!("{}: not connected, {why}", payment.case))
            }
            Created::Unknown(why) => Some(format!("{}: {why}", payment.case)),
        });
    }
    if let Some(slowest) = seen.payments.iter().map(|payment| payment.took_ms).max() {
        tally.note(format!("the slowest took {slowest} ms"));
    }
    tally
}

pub(super) fn rule(seen: &Seen, rule: Violation) -> Tally {
    let sandbox = seen.asked.reach == Reach::Sandbox;
    if rule == Violation::RedirectUrlPrivate && sandbox {
        let reason = "a profile of stage sandbox lets private addresses pass";
        return Tally::Said(Outcome::NotApplicable, reason.to_owned());
    }
    let or_else = match rule {
        Violation::QrPayload => "no answer had a qrPayload",
        _ => NO_ANSWER,
    };
    let mut tally = Tally::new("answer", or_else);
    for payment in &seen.payments {
        match &payment.created {
            Created::Opened(offer) if is_about(rule, offer) => tally.keep(),
            Created::Failed(Failure::Violation(broken)) if *broken == rule => {
                tally.fault(format!("{}: {}", payment.case, rule.code()));
            }
            // What is of one presentation says nothing of an answer that never came so far.
            Created::Failed(Failure::Violation(broken))
                if place(rule) < place(*broken)
                    && place(rule) <= place(Violation::TwoPresentations) =>
            {
                tally.keep();
            }
            _ => {}
        }
    }
    match tally {
        Tally::Looked { kept: 0, ref broken, .. } if broken.is_empty() => {
            let reason = not_applicable(seen, rule);
            reason.map_or(tally, |reason| Tally::Said(Outcome::NotApplicable, reason.to_owned()))
        }
        looked => looked,
    }
}

/// Why no answer that was taken is about this rule.
fn not_applicable(seen: &Seen, rule: Violation) -> Option<&'static str> {
    let offers = || {
        seen.payments.iter().filter_map(|payment| match &payment.created {
            Created::Opened(offer) => Some(offer),
            Created::Failed(_) | Created::Unknown(_) => None,
        })
    };
    let pages = offers().filter(|offer| is_page(offer)).count();
    match rule {
        Violation::QrPayload if pages > 0 => {
            Some("the profile has no field that asks for a QR code, and none was given")
        }
        Violation::RedirectUrlNotHttps if pages > 0 => {
            Some("the page is on this machine, where a sandbox profile lets http pass")
        }
        Violation::RedirectUrl
        | Violation::RedirectUrlNotHttps
        | Violation::RedirectUrlUserinfo
        | Violation::RedirectUrlPrivate
            if offers().next().is_some() =>
        {
            Some(super::NO_PAGES)
        }
        _ => None,
    }
}

/// The order in which the answer is judged.
fn place(rule: Violation) -> usize {
    Violation::ALL.iter().position(|one| *one == rule).unwrap_or(usize::MAX)
}

fn is_page(offer: &Offer) -> bool {
    matches!(offer.presentation, Presentation::RedirectUrl(_))
}

/// Whether an offer that was taken shows that a rule holds.
fn is_about(rule: Violation, offer: &Offer) -> bool {
    match rule {
        Violation::RedirectUrlNotHttps => matches!(
            &offer.presentation,
            Presentation::RedirectUrl(url) if url.starts_with("https:")
        ),
        Violation::RedirectUrl | Violation::RedirectUrlUserinfo | Violation::RedirectUrlPrivate => {
            is_page(offer)
        }
        Violation::QrPayload => !is_page(offer),
        Violation::Redirect
        | Violation::NotJson
        | Violation::ProviderRef
        | Violation::NoPresentation
        | Violation::TwoPresentations
        | Violation::ExpiresAt
        | Violation::ExpiresAtPast => true,
    }
}

pub(super) fn ref_unique(seen: &Seen) -> Tally {
    let mut tally = Tally::new("ref", NO_ANSWER);
    let mut refs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for payment in &seen.payments {
        if let Created::Opened(offer) = &payment.created {
            refs.entry(offer.provider_ref.as_str()).or_default().push(payment.case.name());
        }
    }
    for (provider_ref, cases) in refs {
        let shared = cases.len() > 1;
        tally.hold_or(shared.then(|| format!("{} share {provider_ref}", cases.join(" and "))));
    }
    tally
}
