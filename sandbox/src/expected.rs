//! Owns what an order must come to when its payment is asked for with trouble. Derived from the rules of order
//! states and refusals by thinking, never by running: it is what a run is compared with. Pure.

use payfold_partners::create::Violation;
use payfold_schemas::order::{Flag, OrderState, Severity};

use crate::plan::DUPLICATES;
use crate::trouble::{Kind, Trouble, Troubles};

/// What a payment comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// What the shop is answered.
    pub create: CreateAnswer,
    /// Where the order stands once every notice is taken and `waits_for` has come. A session that is neither
    /// paid nor short stays open for its whole length: PENDING then, EXPIRED after it.
    pub state: OrderState,
    /// The flags that are open then, by flag.
    pub flags: Vec<(Flag, Severity)>,
    /// PAID and no critical flag is open.
    pub fulfil: bool,
    /// How many notices are acknowledged in the end, repeats included.
    pub acked: usize,
    /// The statuses of the attempts that are refused, sorted.
    pub refused: Vec<u16>,
    /// How many create calls the partner sees for the order.
    pub calls: u32,
    /// What else must have happened, beside the notices.
    pub waits_for: WaitsFor,
}

/// What the shop's create call is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateAnswer {
    /// 201, 202 or 502.
    pub status: u16,
    /// The code of a 502.
    pub code: Option<String>,
}

/// A fact that no notice brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// None.
    Nothing,
    /// The partner was asked and has told its end (P).
    Query,
    /// The ref is seen on the other order too (K), so there must be one.
    SharedRef,
}

/// What an order comes to whose payment is asked for with these words.
pub fn expected(troubles: &Troubles) -> Expectation {
    let create = create_answer(troubles.answer());
    if create.status == 502 {
        // CF and nothing else: FAILED if any F or CF without O.
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
    let outcome = outcome(troubles.story(), open);
    // Facts have no order: whatever the manner, the set that is known in the end is the story's. Only a lone
    // payment in disorder is another story, one with a refund.
    let outcome = match (troubles.story(), troubles.has(Trouble::Disorder)) {
        (Trouble::Pay, true) => Outcome { state: OrderState::Refunded, notices: 2, ..outcome },
        _ => outcome,
    };
    let critical = outcome.flags.iter().any(|(_, severity)| *severity == Severity::Critical);
    Expectation {
        create,
        state: outcome.state,
        fulfil: outcome.state == OrderState::Paid && !critical,
        acked: acked(troubles, outcome.notices),
        refused: refused(troubles),
        flags: outcome.flags,
        calls: 1,
        waits_for: outcome.waits_for,
    }
}

/// What the shop is told: 201 a session, 202 nobody knows, 502 the call definitely failed.
fn create_answer(word: Option<Trouble>) -> CreateAnswer {
    let status = match word.map(Trouble::kind) {
        Some(Kind::Unknown) => 202,
        Some(Kind::Failing) => 502,
        Some(Kind::Story | Kind::Manner | Kind::Page | Kind::Return | Kind::Opening) | None => 201,
    };
    CreateAnswer { status, code: word.and_then(failure_code) }
}

/// The first rule of the contract that the answer breaks, or the refusal.
fn failure_code(word: Trouble) -> Option<String> {
    let rule = match word {
        Trouble::CreateRefused => return Some("partner_refused".to_owned()),
        Trouble::CreateRedirect => Violation::Redirect,
        Trouble::CreateNotJson => Violation::NotJson,
        Trouble::CreateNoRef => Violation::ProviderRef,
        Trouble::CreateBoth => Violation::TwoPresentations,
        Trouble::CreateNeither => Violation::NoPresentation,
        Trouble::CreateBadUrl => Violation::RedirectUrl,
        Trouble::CreateHttpUrl => Violation::RedirectUrlNotHttps,
        Trouble::CreateUserinfo => Violation::RedirectUrlUserinfo,
        Trouble::CreateBadQr => Violation::QrPayload,
        Trouble::CreateNoExpiry => Violation::ExpiresAt,
        Trouble::CreatePastExpiry => Violation::ExpiresAtPast,
        _ => return None,
    };
    Some(rule.code())
}

struct Outcome {
    state: OrderState,
    flags: Vec<(Flag, Severity)>,
    /// Told once each.
    notices: usize,
    waits_for: WaitsFor,
}

impl Outcome {
    fn new(state: OrderState, notices: usize) -> Self {
        Self { state, flags: Vec::new(), notices, waits_for: WaitsFor::Nothing }
    }

    fn flag(mut self, flag: Flag, severity: Severity) -> Self {
        self.flags.push((flag, severity));
        self
    }

    fn waits_for(self, waits_for: WaitsFor) -> Self {
        Self { waits_for, ..self }
    }
}

/// `open` is where the order stands while nothing counts: PENDING with a session, REQUESTED without.
fn outcome(story: Trouble, open: OrderState) -> Outcome {
    use OrderState::{Expired, Failed, Paid, Refunded};
    use Severity::{Critical, High, Info, Warn};
    match story {
        // F counts and no S, R: FAILED. E counts alone: EXPIRED.
        Trouble::Fail | Trouble::Cancel => Outcome::new(Failed, 1),
        Trouble::Expire => Outcome::new(Expired, 1),
        // PAID wins over X; paidAt is before the deadline, and only that is looked at.
        Trouble::Late => Outcome::new(Paid, 1),
        // A counting S whose paidAt is after its O's deadline. High stops no fulfilment.
        Trouble::PaidLate => Outcome::new(Paid, 1).flag(Flag::PaidAfterDeadline, High),
        // The partner's books say SUCCESS, so P does once they are asked, by the ref or, without O, by the order. A P
        // alone counts as its status, X or not, and no notice of its ref says the same.
        Trouble::Never => {
            Outcome::new(Paid, 0).flag(Flag::SettledByQuery, Info).waits_for(WaitsFor::Query)
        }
        // S whose amount or currency is not C's does not count: the state stays as if it had not come.
        Trouble::WrongAmount => Outcome::new(open, 1).flag(Flag::AmountMismatch, Critical),
        // The amount is C's, so only the currency differs.
        Trouble::WrongCurrency => Outcome::new(open, 1).flag(Flag::CurrencyMismatch, Critical),
        // One (ref, status) with two contents; both count, only paidAt differs.
        Trouble::ContentVariant => Outcome::new(Paid, 2).flag(Flag::ContentVariant, Info),
        // One counts, so PAID; the other does not, and the amounts of one key differ.
        Trouble::ContentVariantAmount => Outcome::new(Paid, 2)
            .flag(Flag::AmountMismatch, Critical)
            .flag(Flag::ContentVariant, Critical),
        // Two refs paid. The sandbox profile does not say that a ref must be the session's.
        Trouble::SecondRef => Outcome::new(Paid, 2).flag(Flag::DoublePayment, Critical),
        // K exists on either order once the reconciler has seen the ref on both.
        Trouble::ReusedRef => Outcome::new(Paid, 1)
            .flag(Flag::ProviderRefReused, Critical)
            .waits_for(WaitsFor::SharedRef),
        // R and S on one ref: refunded, in either order; REFUND_WITHOUT_SUCCESS goes away when S comes.
        Trouble::RefundFirst => Outcome::new(Refunded, 2),
        Trouble::RefundOnly => Outcome::new(Refunded, 1).flag(Flag::RefundWithoutSuccess, High),
        // R has no variants without an event reference, and a ref is refunded but once.
        Trouble::RefundTwice => Outcome::new(Refunded, 3),
        // R below C: the ref stays paid.
        Trouble::RefundPart => Outcome::new(Paid, 2).flag(Flag::PartialRefund, High),
        // Without event references two parts may be one told twice: their sum is a lower bound, PAID stays.
        Trouble::RefundParts => Outcome::new(Paid, 3).flag(Flag::PartialRefund, High),
        // R without S, and R beside F; REFUNDED comes before FAILED.
        Trouble::RefundAfterFail => Outcome::new(Refunded, 2)
            .flag(Flag::RefundWithoutSuccess, High)
            .flag(Flag::RefundAndNegative, High),
        // PAID falls only to REFUNDED.
        Trouble::FailAfterSuccess => Outcome::new(Paid, 2).flag(Flag::SuccessAndFailed, Warn),
        Trouble::ExpireAfterSuccess => Outcome::new(Paid, 2).flag(Flag::SuccessAndExpired, Warn),
        // A SUCCESS that is not admitted is no fact.
        Trouble::NoPaidAt | Trouble::AmountText | Trouble::OtherMerchant => Outcome::new(open, 0),
        // S counts. The words that are no stories tell this one.
        _ => Outcome::new(Paid, 1),
    }
}

/// A notice is acknowledged however often it comes. In disorder all but the last come twice; a forged one never.
fn acked(troubles: &Troubles, notices: usize) -> usize {
    let doubled = if troubles.has(Trouble::Disorder) { notices.saturating_sub(1) } else { 0 };
    let copies = if troubles.has(Trouble::Duplicates) { 1 + DUPLICATES } else { 1 };
    (notices + doubled) * copies
}

/// A wrong key is 401, the forged notice and the genuine one, and so is a merchantCode of nobody; a stamp of ten minutes
/// ago with the right key 403; a required field that is missing or of another type 400.
fn refused(troubles: &Troubles) -> Vec<u16> {
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
    use crate::plan::{Answer, Defect, Persistence, plan};

    /// Words => the shop's answer; state; F if it may be fulfilled; open flags; notices acknowledged, refused.
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
        refund-only            => 201 REFUNDED REFUND_WITHOUT_SUCCESS/high acked 1
        refund-twice           => 201 REFUNDED acked 3
        refund-part            => 201 PAID F PARTIAL_REFUND/high acked 2
        refund-parts           => 201 PAID F PARTIAL_REFUND/high acked 3
        refund-after-fail      => 201 REFUNDED REFUND_WITHOUT_SUCCESS/high REFUND_AND_NEGATIVE/high acked 2
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

    fn written(expectation: &Expectation) -> String {
        let mut words = vec![expectation.create.status.to_string()];
        words.extend(expectation.create.code.clone());
        words.push(expectation.state.to_string());
        words.extend(expectation.fulfil.then(|| "F".to_owned()));
        let flag = |(flag, severity): &(Flag, Severity)| format!("{flag}/{}", severity.as_str());
        words.extend(expectation.flags.iter().map(flag));
        words.push(format!("acked {}", expectation.acked));
        if !expectation.refused.is_empty() {
            words.push("refused".to_owned());
            words.extend(expectation.refused.iter().map(u16::to_string));
        }
        words.join(" ")
    }

    #[test]
    fn every_word_comes_to_what_the_rules_say() {
        let mut seen = Vec::new();
        for case in EXPECTED.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (words, wanted) = case.split_once("=>").unwrap();
            let troubles = Troubles::parse(words.trim()).unwrap();
            assert_eq!(written(&expected(&troubles)), wanted.trim(), "{troubles}");
            seen.push(troubles.to_string());
        }
        for trouble in Trouble::ALL {
            assert!(seen.contains(&trouble.name().to_owned()), "{trouble} has no row");
        }
    }

    /// Of every rule of the answer but one: a sandbox profile lets private addresses pass, so none is broken.
    #[test]
    fn every_rule_of_the_create_answer_has_its_word() {
        let codes: Vec<_> = Trouble::ALL.into_iter().filter_map(failure_code).collect();
        for rule in Violation::ALL.into_iter().filter(|r| *r != Violation::RedirectUrlPrivate) {
            assert!(codes.contains(&rule.code()), "{}", rule.name());
        }
    }

    /// Plan and expectation are written separately; where both count the same thing they agree.
    #[test]
    fn the_plan_sends_what_is_expected_to_be_taken() {
        for one in Trouble::ALL {
            for other in Trouble::ALL {
                let Ok(troubles) = Troubles::new([one, other]) else { continue };
                let (plan, expectation) = (plan(&troubles, 7), expected(&troubles));
                let lasting =
                    || plan.deliveries.iter().filter(|d| d.persistence != Persistence::Once);
                let sent: usize = lasting().map(|delivery| 1 + delivery.repeats.len()).sum();
                assert_eq!(sent, expectation.acked, "{troubles}");
                let defects = plan.deliveries.iter().flat_map(|delivery| &delivery.defects);
                let mut refused: Vec<u16> = defects
                    .map(|defect| match defect {
                        Defect::WrongKey => 401,
                        Defect::OldStamp => 403,
                        Defect::NoPaidAt | Defect::AmountText => 400,
                        Defect::OtherMerchant => 401,
                    })
                    .collect();
                refused.sort_unstable();
                assert_eq!(refused, expectation.refused, "{troubles}");
                let known = matches!(plan.answer, Answer::Session | Answer::Delayed);
                assert_eq!(known, expectation.create.status == 201, "{troubles}");
                assert_eq!(plan.answer.opens(), expectation.create.status != 502, "{troubles}");
                assert!(expectation.flags.is_sorted(), "{troubles}");
            }
        }
    }
}
