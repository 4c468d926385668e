//! Owns CONTENT_VARIANT: confirmed notices under one dedup key with two contents.
//!
//! The key is (ref, status); of R, which may be several refunds, the event reference too, and an R
//! without one has no key. Groups that differ in amount or currency raise the critical flag, the
//! others the one for information. Each has its own evidence, so a conflict about a time neither
//! hides a conflict about money nor reopens a decision about it.

use payfold_schemas::ipn::Status;
use payfold_schemas::order::Severity;

use super::content::FactContent;
use super::refs::View;
use super::statement::{RefView, Statement};

/// The notices of the groups that raise the flag with this severity.
pub(super) fn raisers<'a>(order: &View<'a>, severity: Severity) -> Vec<FactContent<'a>> {
    let mut raisers = Vec::new();
    for view in order.views() {
        let of_severity =
            view.confirmed_notices().filter(|one| severity_of(view, one) == Some(severity));
        raisers.extend(of_severity.map(|one| one.content()));
    }
    raisers
}

/// The severity of this notice's group; `None` if the notice is alone under its key.
fn severity_of(view: RefView<'_>, one: &Statement<'_>) -> Option<Severity> {
    let group = || view.confirmed_notices().filter(|other| have_same_key(one, other));
    // If any two of the group differ, one of them differs from this one.
    if group().any(|other| one.amount != other.amount || one.currency != other.currency) {
        Some(Severity::Critical)
    } else {
        group().nth(1).map(|_| Severity::Info)
    }
}

/// Whether two notices of one ref have one dedup key.
fn have_same_key(one: &Statement<'_>, other: &Statement<'_>) -> bool {
    let same_event = one.event_ref().is_some() && one.event_ref() == other.event_ref();
    one.status == other.status && (one.status != Status::Refunded || same_event)
}
