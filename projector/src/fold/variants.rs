//! Owns CONTENT_VARIANT: notices of one (ref, status), but R, with two money contents.
//! It is critical if amounts or currencies differ somewhere, and its evidence then is those groups alone:
//! a later quarrel about a time does not reopen what was decided about money. Otherwise it is for information.

use payfold_schemas::ipn::Status;
use payfold_schemas::order::Severity;

use super::content::Content;
use super::refs::{RefView, Statement, View};

/// The notices that raise the flag; none if every (ref, status) has one content.
pub(super) fn raisers<'a>(order: &View<'a>) -> Vec<Content<'a>> {
    let critical = groups(order, differ_in_money);
    if critical.is_empty() { groups(order, |_, _| true) } else { critical }
}

/// How loud it is, if it holds.
pub(super) fn severity(order: &View<'_>) -> Severity {
    if groups(order, differ_in_money).is_empty() { Severity::Info } else { Severity::Critical }
}

fn differ_in_money(one: &Statement<'_>, other: &Statement<'_>) -> bool {
    one.amount != other.amount || one.currency != other.currency
}

/// The notices of the groups in which two differ so.
fn groups<'a>(
    order: &View<'a>,
    differ: impl Fn(&Statement<'_>, &Statement<'_>) -> bool,
) -> Vec<Content<'a>> {
    let mut raisers = Vec::new();
    for view in order.views() {
        for status in [Status::Success, Status::Failed, Status::Expired] {
            let group = || of_status(view, status);
            let mut others = group();
            let Some(first) = others.next() else { continue };
            // If any two differ, one of them differs from the first.
            if others.any(|other| differ(&first, &other)) {
                raisers.extend(group().map(|said| said.content()));
            }
        }
    }
    raisers
}

fn of_status<'a>(
    view: RefView<'a>,
    status: Status,
) -> impl Iterator<Item = Statement<'a>> + use<'a> {
    view.notices().filter(move |said| said.status == status)
}
