//! Owns the expected result of an order that has a payment with troubles. The expectations are
//! derived by hand from the rules of order states and refusals, never from a run, because runs are
//! compared with the expectations. Pure.

use payfold_partners::create::CreateViolation;
use payfold_schemas::order::{Flag, OrderState, Severity};

use crate::plan::DUPLICATES;
use crate::trouble::{Trouble, TroubleKind};
use crate::troubles::Troubles;

/// The expected result of a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The response to the shop.
    pub create: ExpectedAnswer,
    /// The order's state once every notice is acknowledged and `waits_for` has happened. An order
    /// that nothing settles is given as it is before its deadline, PENDING or REQUESTED; after it,
    /// it is EXPIRED.
    pub state: OrderState,
    /// The open flags in that state, sorted.
    pub flags: Vec<(Flag, Severity)>,
    /// Whether the shop may fulfil the order: PAID without an open critical flag.
    pub fulfil: bool,
    /// The number of acknowledged notices, repeats included.
    pub acked: usize,
    /// The HTTP statuses of the refused attempts, sorted.
    pub refused: Vec<u16>,
    /// The number of create calls that the partner gets for the order.
    pub calls: u32,
    /// The event besides the notices that must happen first.
    pub waits_for: WaitsFor,
}

/// The expected response to the shop's create request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedAnswer {
    /// The HTTP status: 201, 202 or 502.
    pub status: u16,
    /// The problem code of a 502.
    pub code: Option<String>,
}

/// An event that the state waits for, besides notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// No event.
    Nothing,
    /// The partner answered a query with the final status (the fact `QueryAnswered`).
    Query,
    /// Another order has the same providerRef, and the fact `RefShared` is recorded.
    SharedRef,
}

/// The expected result of an order that has a payment with these troubles.
pub fn expect_outcome(troubles: &Troubles) -> Expectation {
    let create = expect_answer(troubles.answer());
    if create.status == 502 {
        // A CreateFailed after the CreateRequested, no SessionOpened and no notice: FAILED.
        return Expectation {
            create,
            state: OrderState::Failed,
            flags: Vec::new(),
            fulfil: false,
            acked: 0,
            refused: Vec::new(),
            calls: 1,
            waits_for: WaitsFor::Nothing,
        };
    }
    let open = if create.status == 201 { OrderState::Pending } else { OrderState::Requested };
    let outcome = expect_state(troubles.outcome(), open);
    // The state depends on the set of facts, not on their order. The delivery troubles therefore do
    // not change the outcome. The only exception: `disorder` adds a refund to a plain payment.
    let outcome = match (troubles.outcome(), troubles.has(Trouble::Disorder)) {
        (Trouble::Pay, true) => {
            ExpectedOutcome { state: OrderState::Refunded, notices: 2, ..outcome }
        }
        _ => outcome,
    };
    let critical = outcome.flags.iter().any(|(_, severity)| *severity == Severity::Critical);
    Expectation {
        create,
        state: outcome.state,
        fulfil: outcome.state == OrderState::Paid && !critical,
        acked: count_acked(troubles, outcome.notices),
        refused: list_refused(troubles),
        flags: outcome.flags,
        calls: 1,
        waits_for: outcome.waits_for,
    }
}

/// The response to the shop: 201 with a session, 202 if the result is unknown, 502 if the call
/// definitely failed.
fn expect_answer(trouble: Option<Trouble>) -> ExpectedAnswer {
    let status = match trouble.map(Trouble::kind) {
        Some(TroubleKind::Unknown) => 202,
        Some(TroubleKind::Failing) => 502,
        Some(
            TroubleKind::Outcome
            | TroubleKind::Delivery
            | TroubleKind::Page
            | TroubleKind::Return
            | TroubleKind::Opening,
        )
        | None => 201,
    };
    ExpectedAnswer { status, code: trouble.and_then(failure_code) }
}

/// The code of the first contract rule that the response breaks, or of the refusal.
fn failure_code(trouble: Trouble) -> Option<String> {
    let rule = match trouble {
        Trouble::CreateRefused => return Some("partner_refused".to_owned()),
        Trouble::CreateRedirect => CreateViolation::Redirect,
        Trouble::CreateNotJson => CreateViolation::NotJson,
        Trouble::CreateNoRef => CreateViolation::ProviderRef,
        Trouble::CreateBoth => CreateViolation::TwoPresentations,
        Trouble::CreateNeither => CreateViolation::NoPresentation,
        Trouble::CreateBadUrl => CreateViolation::RedirectUrl,
        Trouble::CreateHttpUrl => CreateViolation::RedirectUrlNotHttps,
        Trouble::CreateUserinfo => CreateViolation::RedirectUrlUserinfo,
        Trouble::CreateBadQr => CreateViolation::QrPayload,
        Trouble::CreateNoExpiry => CreateViolation::ExpiresAt,
        Trouble::CreatePastExpiry => CreateViolation::ExpiresAtPast,
        _ => return None,
    };
    Some(rule.code())
}

struct ExpectedOutcome {
    state: OrderState,
    flags: Vec<(Flag, Severity)>,
    /// The number of different notices.
    notices: usize,
    waits_for: WaitsFor,
}

impl ExpectedOutcome {
    fn new(state: OrderState, notices: usize) -> Self {
        Self { state, flags: Vec::new(), notices, waits_for: WaitsFor::Nothing }
    }

    fn with_flag(mut self, flag: Flag, severity: Severity) -> Self {
        self.flags.push((flag, severity));
        self
    }

    fn with_wait(self, waits_for: WaitsFor) -> Self {
        Self { waits_for, ..self }
    }
}

/// The expected state of an outcome. `open` is the state while no notice counts: PENDING with a
/// session, REQUESTED without one.
fn expect_state(outcome: Trouble, open: OrderState) -> ExpectedOutcome {
    use OrderState::{Expired, Failed, Paid, Refunded};
    use Severity::{Critical, High, Info, Warn};
    match outcome {
        // FAILED counts without SUCCESS or REFUNDED. EXPIRED counts alone.
        Trouble::Fail | Trouble::Cancel => ExpectedOutcome::new(Failed, 1),
        Trouble::Expire => ExpectedOutcome::new(Expired, 1),
        // PAID takes precedence over the passed deadline. Only paidAt is compared with the
        // deadline.
        Trouble::Late => ExpectedOutcome::new(Paid, 1),
        // A counting SUCCESS with a paidAt after the session's deadline. A high flag does not stop
        // fulfilment.
        Trouble::PaidLate => ExpectedOutcome::new(Paid, 1).with_flag(Flag::PaidAfterDeadline, High),
        // The query answers SUCCESS, by the providerRef or, without a session, by the order. Its
        // answer counts as that status, also after the deadline. No notice confirms it, hence the
        // flag.
        Trouble::Never => ExpectedOutcome::new(Paid, 0)
            .with_flag(Flag::SettledByQuery, Info)
            .with_wait(WaitsFor::Query),
        // A SUCCESS with another amount or currency than requested does not count for the state.
        Trouble::WrongAmount => {
            ExpectedOutcome::new(open, 1).with_flag(Flag::AmountMismatch, Critical)
        }
        // The amount is the requested one, so only the currency differs.
        Trouble::WrongCurrency => {
            ExpectedOutcome::new(open, 1).with_flag(Flag::CurrencyMismatch, Critical)
        }
        // One providerRef and status with two contents. Both count, because only paidAt differs.
        Trouble::ContentVariant => {
            ExpectedOutcome::new(Paid, 2).with_flag(Flag::ContentVariant, Info)
        }
        // One counts, so PAID. The other does not, and the amounts of one providerRef and status
        // differ.
        Trouble::ContentVariantAmount => ExpectedOutcome::new(Paid, 2)
            .with_flag(Flag::AmountMismatch, Critical)
            .with_flag(Flag::ContentVariant, Critical),
        // Two paid providerRefs. The sandbox profile does not require the session's providerRef.
        Trouble::SecondRef => {
            ExpectedOutcome::new(Paid, 2).with_flag(Flag::DoublePayment, Critical)
        }
        // Both orders get the flag once the reconciler has seen the providerRef on both.
        Trouble::ReusedRef => ExpectedOutcome::new(Paid, 1)
            .with_flag(Flag::ProviderRefReused, Critical)
            .with_wait(WaitsFor::SharedRef),
        // REFUNDED and SUCCESS of one providerRef, in any order: refunded. REFUND_WITHOUT_SUCCESS
        // closes when the SUCCESS arrives.
        Trouble::RefundFirst => ExpectedOutcome::new(Refunded, 2),
        Trouble::RefundOnly => {
            ExpectedOutcome::new(Refunded, 1).with_flag(Flag::RefundWithoutSuccess, Critical)
        }
        // A refund without an event reference has no dedup key, so two of them raise no
        // CONTENT_VARIANT; and a providerRef counts as refunded once.
        Trouble::RefundTwice => ExpectedOutcome::new(Refunded, 3),
        // A refund below the requested amount: the providerRef stays paid.
        Trouble::RefundPart => ExpectedOutcome::new(Paid, 2).with_flag(Flag::PartialRefund, High),
        // Without event references, two partial refunds may be one refund reported twice. Their sum
        // is not certain, so the order stays PAID.
        Trouble::RefundParts => ExpectedOutcome::new(Paid, 3).with_flag(Flag::PartialRefund, High),
        // A REFUNDED without SUCCESS, and beside FAILED. REFUNDED takes precedence over FAILED.
        Trouble::RefundAfterFail => ExpectedOutcome::new(Refunded, 2)
            .with_flag(Flag::RefundWithoutSuccess, Critical)
            .with_flag(Flag::RefundAndNegative, High),
        // Only REFUNDED takes precedence over PAID.
        Trouble::FailAfterSuccess => {
            ExpectedOutcome::new(Paid, 2).with_flag(Flag::SuccessAndFailed, Warn)
        }
        Trouble::ExpireAfterSuccess => {
            ExpectedOutcome::new(Paid, 2).with_flag(Flag::SuccessAndExpired, Warn)
        }
        // A SUCCESS that is not admitted is not a fact.
        Trouble::NoPaidAt | Trouble::AmountText | Trouble::OtherMerchant => {
            ExpectedOutcome::new(open, 0)
        }
        // The SUCCESS counts. Sets without an outcome keyword have this outcome.
        _ => ExpectedOutcome::new(Paid, 1),
    }
}

/// The number of acknowledged notices. Every copy of a valid notice is acknowledged. With
/// `disorder`, all notices but the last are sent twice. A forged notice is never acknowledged.
fn count_acked(troubles: &Troubles, notices: usize) -> usize {
    let doubled = if troubles.has(Trouble::Disorder) { notices.saturating_sub(1) } else { 0 };
    let copies = if troubles.has(Trouble::Duplicates) { 1 + DUPLICATES } else { 1 };
    (notices + doubled) * copies
}

/// The statuses of refused attempts. 401: a wrong key, once for the forged notice and once for the
/// payment's own; an unknown merchantCode. 403: a timestamp of ten minutes ago. 400: a missing
/// required field, or one of a wrong type.
fn list_refused(troubles: &Troubles) -> Vec<u16> {
    let mut refused = Vec::new();
    if troubles.has(Trouble::NoPaidAt) || troubles.has(Trouble::AmountText) {
        refused.push(400);
    }
    if troubles.has(Trouble::OtherMerchant) {
        refused.push(401);
    }
    if troubles.has(Trouble::WrongKey) {
        refused.extend([401, 401]);
    }
    if troubles.has(Trouble::Stale) {
        refused.push(403);
    }
    refused
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{NoticeDefect, PlannedAnswer, RetryPolicy};
    use crate::planning::plan;

    /// Keywords => the response to the shop; the state; F if the order may be fulfilled; open
    /// flags; acknowledged notices; refused attempts.
    const EXPECTED: &str = "
        pay                    => 201 PAID F acked 1
        fail                   => 201 FAILED acked 1
        cancel                 => 201 FAILED acked 1
        expire                 => 201 EXPIRED acked 1
        late                   => 201 PAID F acked 1
        paid-late              => 201 PAID F PAID_AFTER_DEADLINE/high acked 1
        never                  => 201 PAID F SETTLED_BY_QUERY/info acked 0
        wrong-amount           => 201 PENDING AMOUNT_MISMATCH/critical acked 1
        wrong-currency         => 201 PENDING CURRENCY_MISMATCH/critical acked 1
        content-variant        => 201 PAID F CONTENT_VARIANT/info acked 2
        content-variant-amount => 201 PAID AMOUNT_MISMATCH/critical CONTENT_VARIANT/critical acked 2
        second-ref             => 201 PAID DOUBLE_PAYMENT/critical acked 2
        reused-ref             => 201 PAID PROVIDER_REF_REUSED/critical acked 1
        refund-first           => 201 REFUNDED acked 2
        refund-only            => 201 REFUNDED REFUND_WITHOUT_SUCCESS/critical acked 1
        refund-twice           => 201 REFUNDED acked 3
        refund-part            => 201 PAID F PARTIAL_REFUND/high acked 2
        refund-parts           => 201 PAID F PARTIAL_REFUND/high acked 3
        refund-after-fail      => 201 REFUNDED REFUND_WITHOUT_SUCCESS/critical REFUND_AND_NEGATIVE/high acked 2
        fail-after-success     => 201 PAID F SUCCESS_AND_FAILED/warn acked 2
        expire-after-success   => 201 PAID F SUCCESS_AND_EXPIRED/warn acked 2
        duplicates             => 201 PAID F acked 4
        disorder               => 201 REFUNDED acked 3
        stale                  => 201 PAID F acked 1 refused 403
        wrong-key              => 201 PAID F acked 1 refused 401 401
        before-create          => 201 PAID F acked 1
        create-delayed         => 201 PAID F acked 1
        create-500             => 202 PAID F acked 1
        create-slow            => 202 PAID F acked 1
        create-cut             => 202 PAID F acked 1
        create-huge            => 202 PAID F acked 1
        create-refused         => 502 partner_refused FAILED acked 0
        create-redirect        => 502 contract_violation.redirect FAILED acked 0
        create-not-json        => 502 contract_violation.not_json FAILED acked 0
        create-no-ref          => 502 contract_violation.provider_ref FAILED acked 0
        create-both            => 502 contract_violation.two_presentations FAILED acked 0
        create-neither         => 502 contract_violation.no_presentation FAILED acked 0
        create-bad-url         => 502 contract_violation.redirect_url FAILED acked 0
        create-http-url        => 502 contract_violation.redirect_url_not_https FAILED acked 0
        create-userinfo        => 502 contract_violation.redirect_url_userinfo FAILED acked 0
        create-bad-qr          => 502 contract_violation.qr_payload FAILED acked 0
        create-no-expiry       => 502 contract_violation.expires_at FAILED acked 0
        create-past-expiry     => 502 contract_violation.expires_at_past FAILED acked 0
        no-paid-at             => 201 PENDING acked 0 refused 400
        amount-text            => 201 PENDING acked 0 refused 400
        other-merchant         => 201 PENDING acked 0 refused 401
        same-bytes             => 201 PAID F acked 1
        give-up-refused        => 201 PAID F acked 1
        give-up-silent         => 201 PAID F acked 1
        frame-denied           => 201 PAID F acked 1
        frame-ancestors        => 201 PAID F acked 1
        cookie-wall            => 201 PAID F acked 1
        page-http              => 201 PAID F acked 1
        page-error             => 201 PAID F acked 1
        no-return              => 201 PAID F acked 1
        no-return-cancel       => 201 PAID F acked 1
        return-unsigned        => 201 PAID F acked 1
        return-amount          => 201 PAID F acked 1
        duplicates+disorder    => 201 REFUNDED acked 12
        stale+wrong-key        => 201 PAID F acked 1 refused 401 401 403
        wrong-amount+create-500 => 202 REQUESTED AMOUNT_MISMATCH/critical acked 1
        never+create-500       => 202 PAID F SETTLED_BY_QUERY/info acked 0
        second-ref+disorder+duplicates+create-cut => 202 PAID DOUBLE_PAYMENT/critical acked 12
    ";

    fn format_expectation(expectation: &Expectation) -> String {
        let mut parts = vec![expectation.create.status.to_string()];
        parts.extend(expectation.create.code.clone());
        parts.push(expectation.state.to_string());
        parts.extend(expectation.fulfil.then(|| "F".to_owned()));
        let flag = |(flag, severity): &(Flag, Severity)| format!("{flag}/{}", severity.as_str());
        parts.extend(expectation.flags.iter().map(flag));
        parts.push(format!("acked {}", expectation.acked));
        if !expectation.refused.is_empty() {
            parts.push("refused".to_owned());
            parts.extend(expectation.refused.iter().map(u16::to_string));
        }
        parts.join(" ")
    }

    #[test]
    fn every_keyword_has_the_expected_result() {
        let mut seen = Vec::new();
        for case in EXPECTED.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (keywords, wanted) = case.split_once("=>").unwrap();
            let troubles = Troubles::parse(keywords.trim()).unwrap();
            assert_eq!(format_expectation(&expect_outcome(&troubles)), wanted.trim(), "{troubles}");
            seen.push(troubles.to_string());
        }
        for trouble in Trouble::ALL {
            assert!(seen.contains(&trouble.name().to_owned()), "{trouble} has no row");
        }
    }

    /// The rule on private addresses is left out: a sandbox profile allows them, so no response
    /// breaks it.
    #[test]
    fn every_rule_of_the_create_response_has_a_keyword() {
        let codes: Vec<_> = Trouble::ALL.into_iter().filter_map(failure_code).collect();
        for rule in
            CreateViolation::ALL.into_iter().filter(|r| *r != CreateViolation::RedirectUrlPrivate)
        {
            assert!(codes.contains(&rule.code()), "{}", rule.name());
        }
    }

    /// Plan and expectation are written separately. They must agree on the numbers that both have.
    #[test]
    fn the_plan_agrees_with_the_expectation() {
        for one in Trouble::ALL {
            for other in Trouble::ALL {
                let Ok(troubles) = Troubles::new([one, other]) else { continue };
                let (plan, expectation) = (plan(&troubles, 7), expect_outcome(&troubles));
                let lasting =
                    || plan.deliveries.iter().filter(|d| d.retry_policy != RetryPolicy::Once);
                let sent: usize = lasting().map(|delivery| 1 + delivery.repeats.len()).sum();
                assert_eq!(sent, expectation.acked, "{troubles}");
                let defects = plan.deliveries.iter().flat_map(|delivery| &delivery.defects);
                let mut refused: Vec<u16> = defects
                    .map(|defect| match defect {
                        NoticeDefect::WrongKey => 401,
                        NoticeDefect::OldTimestamp => 403,
                        NoticeDefect::NoPaidAt | NoticeDefect::AmountText => 400,
                        NoticeDefect::OtherMerchant => 401,
                    })
                    .collect();
                refused.sort_unstable();
                assert_eq!(refused, expectation.refused, "{troubles}");
                let known = matches!(plan.answer, PlannedAnswer::Session | PlannedAnswer::Delayed);
                assert_eq!(known, expectation.create.status == 201, "{troubles}");
                assert_eq!(
                    plan.answer.opens_payment(),
                    expectation.create.status != 502,
                    "{troubles}"
                );
                assert!(expectation.flags.is_sorted(), "{troubles}");
            }
        }
    }
}
