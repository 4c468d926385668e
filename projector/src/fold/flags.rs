//! Owns the flags: for each, the facts that raise it. A flag holds exactly if some fact raises it (only
//! FACT_OVERFLOW holds by a mark), so a predicate and its evidence can't drift apart.
//!
//! Evidence never includes X or D. Nothing is hashed unless a flag holds.

use payfold_schemas::digest::Digest;
use payfold_schemas::ipn::Status::{self, Expired, Failed, Refunded, Success};
use payfold_schemas::order::{Flag, Known, RaisedFlag, Severity};

use super::content::Content;
use super::decisions::{closed_by, conflicts};
use super::refs::{RefView, Statement, View, is_session_ref};
use super::state::last_session_deadline;
use super::terms::{Standing, Terms};
use super::variants;

/// Every flag that holds, by flag, then severity.
pub(super) fn flags_of(order: &View<'_>) -> Vec<RaisedFlag> {
    let mut raised = Vec::new();
    for flag in Flag::ALL {
        raised.extend(severities(flag).iter().filter_map(|severity| raise(flag, *severity, order)));
    }
    raised
}

fn raise(flag: Flag, severity: Severity, order: &View<'_>) -> Option<RaisedFlag> {
    let evidence = evidence(flag, severity, order)?;
    let decided_by = closed_by(&order.facts.decisions, flag, evidence);
    Some(RaisedFlag { flag, severity, evidence, decided_by })
}

fn evidence(flag: Flag, severity: Severity, order: &View<'_>) -> Option<Digest> {
    if flag == Flag::DecisionsConflict {
        return conflicts(&order.facts.decisions);
    }
    let raisers = raisers(flag, severity, order);
    let holds = !raisers.is_empty() || (flag == Flag::FactOverflow && order.facts.overflowed);
    holds.then(|| digest_of(flag, &raisers))
}

fn digest_of(flag: Flag, raisers: &[Content<'_>]) -> Digest {
    Digest::of_set(flag.as_str(), raisers.iter().map(|content| content.digest()).collect())
}

/// How loud a flag can be; each is raised on evidence of its own.
fn severities(flag: Flag) -> &'static [Severity] {
    match flag {
        Flag::ContentVariant => &[Severity::Info, Severity::Critical],
        Flag::AmountMismatch
        | Flag::CurrencyMismatch
        | Flag::DoublePayment
        | Flag::ProviderRefReused
        | Flag::CreateConflict
        | Flag::SecondSession
        | Flag::FactOverflow => &[Severity::Critical],
        Flag::PaidAfterDeadline
        | Flag::RefundWithoutSuccess
        | Flag::RefundAndNegative
        | Flag::PartialRefund
        | Flag::UnknownOrder
        | Flag::QueryDisagrees
        | Flag::Unconfirmed
        | Flag::ProviderRefUnexpected
        | Flag::DecisionsConflict => &[Severity::High],
        Flag::SuccessAndFailed | Flag::SuccessAndExpired => &[Severity::Warn],
        Flag::SettledByQuery => &[Severity::Info],
    }
}

/// The facts that raise a flag this loud; none if it doesn't hold.
fn raisers<'a>(flag: Flag, severity: Severity, order: &View<'a>) -> Vec<Content<'a>> {
    let facts = order.facts;
    match flag {
        Flag::AmountMismatch => said(order, |_, said| is_foreign_amount(said, order.terms)),
        Flag::CurrencyMismatch => said(order, |_, said| is_foreign_currency(said, order.terms)),
        Flag::ContentVariant => variants::raisers(order, severity),
        Flag::DoublePayment => double_payment(order),
        Flag::ProviderRefReused => contents(&facts.shared_refs, Content::Shared),
        Flag::CreateConflict => several(contents(&facts.creates, Content::Create)),
        Flag::SecondSession => several(contents(&facts.sessions, Content::Session)),
        Flag::SuccessAndFailed => both(order, &[Success], &[Failed]),
        Flag::SuccessAndExpired => both(order, &[Success], &[Expired]),
        Flag::PaidAfterDeadline => paid_after_deadline(order),
        Flag::RefundWithoutSuccess => {
            said(order, |view, said| said.status == Refunded && !view.says(Success))
        }
        Flag::RefundAndNegative => both(order, &[Refunded], &[Failed, Expired]),
        Flag::PartialRefund => partial_refund(order),
        Flag::UnknownOrder if facts.creates.is_empty() => said(order, |_, _| true),
        Flag::QueryDisagrees => said(order, disagrees),
        Flag::Unconfirmed => order.unconfirmed().map(|said| said.content()).collect(),
        Flag::SettledByQuery => settled_by_query(order),
        Flag::ProviderRefUnexpected => said(order, |view, said| {
            said.notice().is_some_and(|ipn| ipn.policy.ref_is_session)
                && !facts.sessions.is_empty()
                && !is_session_ref(facts, view.provider_ref)
        }),
        Flag::FactOverflow if facts.overflowed => everything(order),
        Flag::UnknownOrder | Flag::FactOverflow | Flag::DecisionsConflict => Vec::new(),
    }
}

/// The statements a predicate holds for.
fn said<'a>(
    order: &View<'a>,
    holds: impl Fn(&RefView<'a>, &Statement<'a>) -> bool,
) -> Vec<Content<'a>> {
    let mut raisers = Vec::new();
    for view in order.views() {
        raisers.extend(view.statements().filter(|s| holds(&view, s)).map(|s| s.content()));
    }
    raisers
}

fn contents<'a, T>(list: &'a [Known<T>], content: fn(&'a T) -> Content<'a>) -> Vec<Content<'a>> {
    list.iter().map(|known| content(&known.content)).collect()
}

fn several(raisers: Vec<Content<'_>>) -> Vec<Content<'_>> {
    if raisers.len() > 1 { raisers } else { Vec::new() }
}

/// All but X and D: what a person saw who decided that an overflow does no harm.
fn everything<'a>(order: &View<'a>) -> Vec<Content<'a>> {
    let facts = order.facts;
    let mut all = contents(&facts.creates, Content::Create);
    all.extend(contents(&facts.sessions, Content::Session));
    all.extend(contents(&facts.create_failures, Content::CreateFailed));
    all.extend(contents(&facts.ipns, Content::of_known));
    all.extend(contents(&facts.query_answers, Content::Answer));
    all.extend(contents(&facts.shared_refs, Content::Shared));
    all
}

fn is_foreign(said: &Statement<'_>, terms: Terms<'_>) -> bool {
    terms.iter().next().is_some() && said.standing(terms) == Standing::Foreign
}

/// The amount is no C's in its currency; in a currency of no C, no C's at all. So of two C, the amount of
/// one in the currency of the other raises this flag.
fn is_foreign_amount(said: &Statement<'_>, terms: Terms<'_>) -> bool {
    is_foreign(said, terms) && (terms.ask_in(said.currency) || !terms.ask_for(said.amount))
}

fn is_foreign_currency(said: &Statement<'_>, terms: Terms<'_>) -> bool {
    is_foreign(said, terms) && !terms.ask_in(said.currency)
}

/// The statements of either kind on the refs where both are made, whether they count or not.
fn both<'a>(order: &View<'a>, some: &[Status], others: &[Status]) -> Vec<Content<'a>> {
    said(order, |view, said| {
        let is_some = some.contains(&said.status);
        let is_other = others.contains(&said.status);
        (is_some && others.iter().any(|status| view.says(*status)))
            || (is_other && some.iter().any(|status| view.says(*status)))
    })
}

/// The counting S of the paid refs, if there are two.
fn double_payment<'a>(order: &View<'a>) -> Vec<Content<'a>> {
    let paid = || order.refs.iter().filter(|outcome| outcome.is_paid());
    if paid().nth(1).is_none() {
        return Vec::new();
    }
    paid().flat_map(|outcome| counting(&outcome.view, order.terms, Success)).collect()
}

fn counting<'a>(
    view: &RefView<'a>,
    terms: Terms<'a>,
    status: Status,
) -> impl Iterator<Item = Content<'a>> + use<'a> {
    let counting = view.counting(terms).filter(move |(said, _)| said.status == status);
    counting.map(|(said, _)| said.content())
}

/// Counting S notices paid after the deadline of the O with their ref (the latest, if there are two),
/// else after the latest deadline of all O. With no O there is no deadline to hold them to.
fn paid_after_deadline<'a>(order: &View<'a>) -> Vec<Content<'a>> {
    let Some(last) = last_session_deadline(order) else { return Vec::new() };
    let mut raisers = Vec::new();
    for view in order.views() {
        let own =
            order.facts.sessions.iter().filter(|o| o.content.provider_ref == *view.provider_ref);
        let deadline = own.map(|o| o.content.deadline).max().unwrap_or(last);
        let late = view.counting(order.terms).filter(|(said, _)| {
            said.status == Success && said.paid_at().is_some_and(|paid_at| paid_at > deadline)
        });
        raisers.extend(late.map(|(said, _)| said.content()));
    }
    raisers
}

/// The counting R of the refs where refunds below C are not exactly the whole of it.
fn partial_refund<'a>(order: &View<'a>) -> Vec<Content<'a>> {
    let partial = order.refs.iter().filter(|outcome| outcome.refunds.partial);
    partial.flat_map(|outcome| counting(&outcome.view, order.terms, Refunded)).collect()
}

/// Whether a statement says S where the other voice says F or E of the same ref, or the reverse.
fn disagrees(view: &RefView<'_>, said: &Statement<'_>) -> bool {
    let opposes = |other: Statement<'_>| match said.status {
        Success => matches!(other.status, Failed | Expired),
        Failed | Expired => other.status == Success,
        Refunded => false,
    };
    match said.notice() {
        Some(_) => view.answers().any(opposes),
        None => view.notices().any(opposes),
    }
}

/// The answers that count and whose status no notice of their ref has.
fn settled_by_query<'a>(order: &View<'a>) -> Vec<Content<'a>> {
    let mut raisers = Vec::new();
    for view in order.views() {
        let alone = view.counting(order.terms).filter(|(said, _)| {
            said.notice().is_none() && !view.notices().any(|notice| notice.status == said.status)
        });
        raisers.extend(alone.map(|(said, _)| said.content()));
    }
    raisers
}
