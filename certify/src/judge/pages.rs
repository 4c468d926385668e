//! Owns the rules of the hosted page (contract 4.4), including those that only a person can check.

use super::super::frames;
use super::super::observations::{
    AttestedItem, CookieNeed, Hop, PageProblem, PaymentCase, RunObservations, VisitedPage,
};
use super::super::rule::Rule;
use super::tally::{RuleResult, Tally};

const NO_PAGE: &str = "no hosted page was shown";

fn visited_pages(observed: &RunObservations) -> impl Iterator<Item = (PaymentCase, &VisitedPage)> {
    observed.payments.iter().filter_map(|payment| Some((payment.case, payment.page.as_ref()?)))
}

pub(super) fn check_shown(observed: &RunObservations) -> Tally {
    let mut tally = Tally::new("page", "no create response had a redirectUrl");
    for (case, page) in visited_pages(observed) {
        let fault = match &page.problem {
            // The rule page.https reports TLS problems.
            Some(PageProblem::Tls(_) | PageProblem::Http(_)) => continue,
            Some(PageProblem::Address(why) | PageProblem::Unreachable(why)) => Some(why.clone()),
            None if page.is_shown() => None,
            None => {
                let status = page.hops.last().map(|hop| hop.status.to_string());
                Some(format!("answered {}", status.unwrap_or_else(|| "nothing".to_owned())))
            }
        };
        tally.add_check(fault.map(|fault| format!("{case}: {fault}")));
    }
    tally.or_qr_only(observed)
}

pub(super) fn check_https(observed: &RunObservations) -> Tally {
    let mut tally = Tally::new("page response", "no create response had a redirectUrl");
    let mut local = 0;
    for (case, page) in visited_pages(observed) {
        if let Some(PageProblem::Tls(why) | PageProblem::Http(why)) = &page.problem {
            tally.add_fault(format!("{case}: {why}"));
        }
        for hop in &page.hops {
            match hop.address.starts_with("https:") {
                true => tally.add_pass(),
                false => local += 1,
            }
        }
    }
    if tally.is_untested() && local > 0 {
        let reason = "the page is on this machine, where a sandbox profile allows http";
        return Tally::Decided(RuleResult::NotApplicable, reason.to_owned());
    }
    tally.or_qr_only(observed)
}

/// Checks every document on the way: each must be allowed in the frame.
fn check_documents(
    observed: &RunObservations,
    find_fault: impl Fn(&Hop) -> Option<String>,
) -> Tally {
    let mut tally = Tally::new("document", NO_PAGE);
    for (case, page) in visited_pages(observed) {
        for hop in page.documents() {
            let fault = find_fault(hop);
            tally.add_check(fault.map(|fault| format!("{case}: {fault} at {}", hop.address)));
        }
    }
    tally.or_qr_only(observed)
}

pub(super) fn check_frame_options(observed: &RunObservations) -> Tally {
    check_documents(observed, |hop| {
        let option = frames::find_blocking_options(&hop.frame_options)?;
        Some(format!("X-Frame-Options: {option}"))
    })
}

pub(super) fn check_frame_ancestors(observed: &RunObservations) -> Tally {
    check_documents(observed, |hop| {
        observed.parameters.platforms.iter().find_map(|platform| {
            let directive = frames::find_blocking_ancestors(&hop.policies, platform)?;
            Some(format!(
                "{directive} forbids a frame on {}",
                platform.origin().ascii_serialization()
            ))
        })
    })
}

pub(super) fn check_cookies(observed: &RunObservations) -> Tally {
    let mut tally = Tally::new("cookie-free page", NO_PAGE);
    let mut unknown = None;
    for (case, page) in visited_pages(observed).filter(|(_, page)| page.is_shown()) {
        match page.cookies {
            CookieNeed::Needed => tally.add_fault(format!("{case}: works only with its cookies")),
            CookieNeed::NotNeeded => tally.add_pass(),
            CookieNeed::Unknown if page.cookies_set == 0 => tally.add_pass(),
            CookieNeed::Unknown => {
                unknown = Some(format!("{case}: sets {} cookies", page.cookies_set))
            }
        }
    }
    match (tally, unknown) {
        (Tally::Checked { faults, .. }, Some(unknown)) if faults.is_empty() => decide_attested(
            observed,
            AttestedItem::Cookies,
            &format!("{unknown}; only a person can check whether it needs them"),
        ),
        (tally, _) => tally.or_qr_only(observed),
    }
}

pub(super) fn check_attested(observed: &RunObservations, rule: Rule) -> Tally {
    let item = if rule == Rule::PageWidth { AttestedItem::Width } else { AttestedItem::WebView };
    if visited_pages(observed).next().is_none() {
        return Tally::new("page", NO_PAGE).or_qr_only(observed);
    }
    decide_attested(observed, item, "a person must check it")
}

/// The result of an item that a person checks: `Attested`, or `Open` without a statement.
fn decide_attested(observed: &RunObservations, item: AttestedItem, why: &str) -> Tally {
    let statement = observed.attested.iter().rfind(|attestation| attestation.item == item);
    match statement {
        Some(statement) => {
            let evidence = format!("attested by {} at {}", statement.by, statement.at);
            Tally::Decided(RuleResult::Attested, evidence)
        }
        None => Tally::Decided(RuleResult::Open, format!("{why}: --attest {}=NAME", item.name())),
    }
}
