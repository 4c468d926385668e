//! Owns the rules of the hosted page (contract 4.4), and what only people can look at.

use super::super::frames;
use super::super::rule::Rule;
use super::super::seen::{Case, Cookies, Hop, Item, Page, PageProblem, Seen};
use super::{Outcome, Tally};

const NO_PAGE: &str = "no hosted page was shown";

/// What is said of pages where there is none: a partner that shows codes alone has none to judge.
fn or_none(seen: &Seen, tally: Tally) -> Tally {
    let codes = seen.payments.iter().any(|payment| payment.is_code());
    match tally {
        Tally::Looked { kept: 0, ref broken, .. }
            if broken.is_empty() && codes && pages(seen).next().is_none() =>
        {
            Tally::Said(Outcome::NotApplicable, super::NO_PAGES.to_owned())
        }
        looked => looked,
    }
}

fn pages(seen: &Seen) -> impl Iterator<Item = (Case, &Page)> {
    seen.payments.iter().filter_map(|payment| Some((payment.case, payment.page.as_ref()?)))
}

pub(super) fn shown(seen: &Seen) -> Tally {
    let mut tally = Tally::new("page", "no create answer had a redirectUrl");
    for (case, page) in pages(seen) {
        let fault = match &page.problem {
            // TLS is a rule of its own.
            Some(PageProblem::Tls(_) | PageProblem::Http(_)) => continue,
            Some(PageProblem::Address(why) | PageProblem::Unreachable(why)) => Some(why.clone()),
            None if page.is_shown() => None,
            None => {
                let status = page.hops.last().map(|hop| hop.status.to_string());
                Some(format!("answered {}", status.unwrap_or_else(|| "nothing".to_owned())))
            }
        };
        tally.hold_or(fault.map(|fault| format!("{case}: {fault}")));
    }
    or_none(seen, tally)
}

pub(super) fn https(seen: &Seen) -> Tally {
    let mut tally = Tally::new("page answer", "no create answer had a redirectUrl");
    let mut local = 0;
    for (case, page) in pages(seen) {
        if let Some(PageProblem::Tls(why) | PageProblem::Http(why)) = &page.problem {
            tally.fault(format!("{case}: {why}"));
        }
        for hop in &page.hops {
            match hop.address.starts_with("https:") {
                true => tally.keep(),
                false => local += 1,
            }
        }
    }
    match tally {
        Tally::Looked { kept: 0, ref broken, .. } if broken.is_empty() && local > 0 => {
            let reason = "the page is on this machine, where a sandbox profile lets http pass";
            Tally::Said(Outcome::NotApplicable, reason.to_owned())
        }
        looked => or_none(seen, looked),
    }
}

/// Every document on the way has to stand in the frame.
fn documents(seen: &Seen, stopped: impl Fn(&Hop) -> Option<String>) -> Tally {
    let mut tally = Tally::new("document", NO_PAGE);
    for (case, page) in pages(seen) {
        for hop in page.documents() {
            let fault = stopped(hop);
            tally.hold_or(fault.map(|fault| format!("{case}: {fault} at {}", hop.address)));
        }
    }
    or_none(seen, tally)
}

pub(super) fn frame_options(seen: &Seen) -> Tally {
    documents(seen, |hop| {
        let word = frames::stopped_by_options(&hop.frame_options)?;
        Some(format!("X-Frame-Options: {word}"))
    })
}

pub(super) fn frame_ancestors(seen: &Seen) -> Tally {
    documents(seen, |hop| {
        seen.asked.platforms.iter().find_map(|platform| {
            let directive = frames::stopped_by_ancestors(&hop.policies, platform)?;
            Some(format!("{directive} stops {}", platform.origin().ascii_serialization()))
        })
    })
}

pub(super) fn cookies(seen: &Seen) -> Tally {
    let mut tally = Tally::new("cookie-free page", NO_PAGE);
    let mut unknown = None;
    for (case, page) in pages(seen).filter(|(_, page)| page.is_shown()) {
        match page.cookies {
            Cookies::Needed => tally.fault(format!("{case}: of use only with its cookies")),
            Cookies::NotNeeded => tally.keep(),
            Cookies::Unknown if page.cookies_set == 0 => tally.keep(),
            Cookies::Unknown => {
                unknown = Some(format!("{case}: sets {} cookies", page.cookies_set))
            }
        }
    }
    match (tally, unknown) {
        (Tally::Looked { broken, .. }, Some(unknown)) if broken.is_empty() => person(
            seen,
            Item::Cookies,
            &format!("{unknown}; whether it needs them only a person can see"),
        ),
        (tally, _) => or_none(seen, tally),
    }
}

pub(super) fn attested(seen: &Seen, rule: Rule) -> Tally {
    let item = if rule == Rule::PageWidth { Item::Width } else { Item::WebView };
    if pages(seen).next().is_none() {
        return or_none(seen, Tally::new("page", NO_PAGE));
    }
    person(seen, item, "a person has to look at it")
}

/// What a person says of an item; open without.
fn person(seen: &Seen, item: Item, why: &str) -> Tally {
    let said = seen.attested.iter().rfind(|attestation| attestation.item == item);
    match said {
        Some(said) => {
            let evidence = format!("attested by {} at {}", said.by, said.at);
            Tally::Said(Outcome::Attested, evidence)
        }
        None => Tally::Said(Outcome::Open, format!("{why}: --attest {}=NAME", item.name())),
    }
}
