//! Owns the flags and, for each, the facts that raise it. A flag holds exactly if some fact raises
//! it, so a predicate and its evidence always agree. Only FACT_OVERFLOW holds by a mark.
//!
//! Anybody can send a notice that is not confirmed, so only UNCONFIRMED, QUERY_DISAGREES and
//! UNKNOWN_ORDER take notice of one, and FACT_OVERFLOW below critical.
//!
//! Evidence never includes X or D. Nothing is hashed unless a flag holds.

use payfold_schemas::digest::Digest;
use payfold_schemas::ipn::IpnPolicy;
use payfold_schemas::ipn::Status::{self, Expired, Failed, Refunded, Success};
use payfold_schemas::order::{Flag, Known, RaisedFlag, Severity};

use super::content::FactContent;
use super::decisions::{closed_by, conflicts};
use super::refs::{View, is_session_ref};
use super::state::last_session_deadline;
use super::statement::{RefView, Statement};
use super::terms::{Terms, TermsMatch};
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
    let holds = !raisers.is_empty() || (flag == Flag::FactOverflow && is_marked(order, severity));
    holds.then(|| digest_of(flag, &raisers))
}

/// Whether the caps left out a fact: critical, or only high for an unconfirmed notice.
fn is_marked(order: &View<'_>, severity: Severity) -> bool {
    let is_critical = severity == Severity::Critical;
    if is_critical { order.facts.overflowed } else { order.facts.unconfirmed_left_out }
}

fn digest_of(flag: Flag, raisers: &[FactContent<'_>]) -> Digest {
    Digest::of_set(flag.as_str(), raisers.iter().map(|content| content.digest()).collect())
}

/// The severities of a flag; each is raised on evidence of its own.
pub(super) fn severities(flag: Flag) -> &'static [Severity] {
    match flag {
        Flag::ContentVariant => &[Severity::Info, Severity::Critical],
        Flag::FactOverflow | Flag::PartialRefund => &[Severity::High, Severity::Critical],
        Flag::AmountMismatch
        | Flag::CurrencyMismatch
        | Flag::DoublePayment
        | Flag::ProviderRefReused
        | Flag::CreateConflict
        | Flag::SecondSession
        | Flag::RefundWithoutSuccess => &[Severity::Critical],
        Flag::PaidAfterDeadline
        | Flag::RefundAndNegative
        | Flag::UnknownOrder
        | Flag::QueryDisagrees
        | Flag::Unconfirmed
        | Flag::ProviderRefUnexpected
        | Flag::DecisionsConflict => &[Severity::High],
        Flag::SuccessAndFailed | Flag::SuccessAndExpired => &[Severity::Warn],
        Flag::SettledByQuery => &[Severity::Info],
    }
}

/// The facts that raise a flag with this severity; empty if it doesn't hold.
fn raisers<'a>(flag: Flag, severity: Severity, order: &View<'a>) -> Vec<FactContent<'a>> {
    let facts = order.facts;
    match flag {
        Flag::AmountMismatch => {
            confirmed_where(order, |_, statement| is_foreign_amount(statement, order.terms))
        }
        Flag::CurrencyMismatch => {
            confirmed_where(order, |_, statement| is_foreign_currency(statement, order.terms))
        }
        Flag::ContentVariant => variants::raisers(order, severity),
        Flag::DoublePayment => double_payment(order),
        Flag::ProviderRefReused => contents(&facts.shared_refs, FactContent::Shared),
        Flag::CreateConflict => several(contents(&facts.creates, FactContent::Create)),
        Flag::SecondSession => several(contents(&facts.sessions, FactContent::Session)),
        Flag::SuccessAndFailed => contradictions(order, &[Success], &[Failed]),
        Flag::SuccessAndExpired => contradictions(order, &[Success], &[Expired]),
        Flag::PaidAfterDeadline => paid_after_deadline(order),
        Flag::RefundWithoutSuccess => confirmed_where(order, |view, statement| {
            statement.status == Refunded && !view.has_status(Success)
        }),
        Flag::RefundAndNegative => contradictions(order, &[Refunded], &[Failed, Expired]),
        Flag::PartialRefund => partial_refund(order, severity),
        Flag::UnknownOrder if facts.creates.is_empty() => statements_where(order, |_, _| true),
        Flag::QueryDisagrees => statements_where(order, disagrees),
        Flag::Unconfirmed => order.unconfirmed().map(|statement| statement.content()).collect(),
        Flag::SettledByQuery => settled_by_query(order),
        Flag::ProviderRefUnexpected => confirmed_where(order, |view, statement| {
            statement.notice().is_some_and(|ipn| ipn.policy.ref_is_session)
                && !facts.sessions.is_empty()
                && !is_session_ref(facts, view.provider_ref)
        }),
        Flag::FactOverflow if !is_marked(order, severity) => Vec::new(),
        Flag::FactOverflow if severity == Severity::Critical => all_contents(order),
        Flag::FactOverflow => unconfirmed_contents(order),
        Flag::UnknownOrder | Flag::DecisionsConflict => Vec::new(),
    }
}

/// The confirmed statements for which a predicate holds.
fn confirmed_where<'a>(
    order: &View<'a>,
    holds: impl Fn(&RefView<'a>, &Statement<'a>) -> bool,
) -> Vec<FactContent<'a>> {
    statements_where(order, |view, statement| {
        view.is_confirmed(statement) && holds(view, statement)
    })
}

/// The statements for which a predicate holds.
fn statements_where<'a>(
    order: &View<'a>,
    holds: impl Fn(&RefView<'a>, &Statement<'a>) -> bool,
) -> Vec<FactContent<'a>> {
    let mut raisers = Vec::new();
    for view in order.views() {
        raisers.extend(view.statements().filter(|s| holds(&view, s)).map(|s| s.content()));
    }
    raisers
}

fn contents<'a, T>(
    list: &'a [Known<T>],
    content: fn(&'a T) -> FactContent<'a>,
) -> Vec<FactContent<'a>> {
    list.iter().map(|known| content(&known.content)).collect()
}

fn several(raisers: Vec<FactContent<'_>>) -> Vec<FactContent<'_>> {
    if raisers.len() > 1 { raisers } else { Vec::new() }
}

/// All facts but X, D and the notices that their profile calls unconfirmed: a person sees them
/// before deciding that an overflow does no harm. A decision on them stays, whatever comes from
/// those who can't sign.
fn all_contents<'a>(order: &View<'a>) -> Vec<FactContent<'a>> {
    let facts = order.facts;
    let mut all = contents(&facts.creates, FactContent::Create);
    all.extend(contents(&facts.sessions, FactContent::Session));
    all.extend(contents(&facts.create_failures, FactContent::CreateFailed));
    all.extend(notices_where(order, |policy| !policy.unconfirmed));
    all.extend(contents(&facts.query_answers, FactContent::Answer));
    all.extend(contents(&facts.shared_refs, FactContent::Shared));
    all
}

/// The notices that their profile calls unconfirmed. A decision on these closes nothing that all
/// contents raise.
fn unconfirmed_contents<'a>(order: &View<'a>) -> Vec<FactContent<'a>> {
    notices_where(order, |policy| policy.unconfirmed).collect()
}

fn notices_where<'a>(
    order: &View<'a>,
    takes: impl Fn(IpnPolicy) -> bool,
) -> impl Iterator<Item = FactContent<'a>> {
    let notices = order.facts.ipns.iter().map(|known| &known.content);
    notices.filter(move |ipn| takes(ipn.policy)).map(FactContent::of_kept_ipn)
}

fn is_foreign(statement: &Statement<'_>, terms: Terms<'_>) -> bool {
    terms.iter().next().is_some() && statement.terms_match(terms) == TermsMatch::Foreign
}

/// Whether no C has the amount in its currency; or, in a currency of no C, whether no C has the
/// amount at all. So of two C, the amount of one in the currency of the other raises this flag.
fn is_foreign_amount(statement: &Statement<'_>, terms: Terms<'_>) -> bool {
    is_foreign(statement, terms)
        && (terms.ask_in(statement.currency) || !terms.ask_for(statement.amount))
}

fn is_foreign_currency(statement: &Statement<'_>, terms: Terms<'_>) -> bool {
    is_foreign(statement, terms) && !terms.ask_in(statement.currency)
}

/// The confirmed statements of both kinds on the refs that have both, whether they count or not.
fn contradictions<'a>(
    order: &View<'a>,
    some: &[Status],
    others: &[Status],
) -> Vec<FactContent<'a>> {
    confirmed_where(order, |view, statement| {
        let is_some = some.contains(&statement.status);
        let is_other = others.contains(&statement.status);
        (is_some && others.iter().any(|status| view.has_status(*status)))
            || (is_other && some.iter().any(|status| view.has_status(*status)))
    })
}

/// The counting S of the paid refs, if there are two.
fn double_payment<'a>(order: &View<'a>) -> Vec<FactContent<'a>> {
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
) -> impl Iterator<Item = FactContent<'a>> + use<'a> {
    let counting = view.counting(terms).filter(move |(statement, _)| statement.status == status);
    counting.map(|(statement, _)| statement.content())
}

/// The counting S notices paid after the deadline of the O with their ref (the latest, if there are
/// two), else after the latest deadline of all O; none without an O.
fn paid_after_deadline<'a>(order: &View<'a>) -> Vec<FactContent<'a>> {
    let Some(last) = last_session_deadline(order) else { return Vec::new() };
    let mut raisers = Vec::new();
    for view in order.views() {
        let own =
            order.facts.sessions.iter().filter(|o| o.content.provider_ref == *view.provider_ref);
        let deadline = own.map(|o| o.content.deadline).max().unwrap_or(last);
        let late = view.counting(order.terms).filter(|(statement, _)| {
            statement.status == Success
                && statement.paid_at().is_some_and(|paid_at| paid_at > deadline)
        });
        raisers.extend(late.map(|(statement, _)| statement.content()));
    }
    raisers
}

/// The counting R of the refs with refunds below C that don't add up to exactly C.
fn partial_refund<'a>(order: &View<'a>, severity: Severity) -> Vec<FactContent<'a>> {
    let partial = order.refs.iter().filter(|one| one.refunds.partial == Some(severity));
    partial.flat_map(|outcome| counting(&outcome.view, order.terms, Refunded)).collect()
}

/// Whether a statement is S and the other source states F or E of the same ref, or the reverse.
fn disagrees(view: &RefView<'_>, statement: &Statement<'_>) -> bool {
    let opposes = |other: Statement<'_>| match statement.status {
        Success => matches!(other.status, Failed | Expired),
        Failed | Expired => other.status == Success,
        Refunded => false,
    };
    match statement.notice() {
        Some(_) => view.answers().any(opposes),
        None => view.notices().any(opposes),
    }
}

/// The counting answers with a status that no confirmed notice of their ref has.
fn settled_by_query<'a>(order: &View<'a>) -> Vec<FactContent<'a>> {
    let mut raisers = Vec::new();
    for view in order.views() {
        let alone = view.counting(order.terms).filter(|(statement, _)| {
            statement.notice().is_none()
                && !view.confirmed_notices().any(|notice| notice.status == statement.status)
        });
        raisers.extend(alone.map(|(statement, _)| statement.content()));
    }
    raisers
}
