//! Owns the rules of certification: each has an id, the clause of the contract it comes from, and a
//! title. Ids are stable, because reports of different runs are compared by them.

use payfold_partners::create::CreateViolation;

/// One rule of certification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The create call gets a complete 2xx response in time.
    CreateAnswered,
    /// A rule of the create response (contract 2.2), as the create call checks it in service.
    Create(CreateViolation),
    /// No two payments share a providerRef.
    CreateRefUnique,
    /// An ended payment is reported by an IPN.
    IpnSent,
    /// Every IPN is signed.
    IpnSignature,
    /// Every IPN is read and admissible: all its fields have the right types.
    IpnFields,
    /// IPNs repeat the ids of the create request and response.
    IpnIds,
    /// The amount is the create request's.
    IpnAmount,
    /// The currency is the create request's.
    IpnCurrency,
    /// No payment is made after the session's `expiresAt`.
    IpnPaidInSession,
    /// The timestamp is near the time of delivery.
    IpnTimestamp,
    /// An IPN answered 503, or as the profile says that it must come again, is sent again.
    IpnRetryBusy,
    /// An IPN without an answer is sent again.
    IpnRetrySilent,
    /// A retry has a new timestamp.
    IpnRetryFresh,
    /// Repeated IPNs of one status have the same content.
    IpnContent,
    /// An acknowledged IPN is not sent again.
    IpnOnce,
    /// No two statuses of a transaction contradict each other.
    IpnOneOutcome,
    /// At most one transaction pays a payment.
    IpnPaidOnce,
    /// A refund names the create request's amount.
    IpnRefundAmount,
    /// Refunds do not exceed the paid amount.
    IpnRefundOnce,
    /// A payer who paid returns to `returnUrl`.
    ReturnSuccess,
    /// A payer who cancelled returns to `returnUrl`.
    ReturnCancel,
    /// A return is signed.
    ReturnSignature,
    /// A return has the content of the IPN.
    ReturnFields,
    /// `redirectUrl` shows a page.
    PageShown,
    /// The page uses https with a certificate that this machine trusts.
    PageHttps,
    /// No X-Frame-Options forbids the shop's frame.
    PageFrameOptions,
    /// No frame-ancestors forbids the shop's frame.
    PageFrameAncestors,
    /// The page works without cookies.
    PageCookies,
    /// The page is usable at a width of 360 px.
    PageWidth,
    /// The page works in an app's WebView.
    PageWebView,
}

impl Rule {
    /// Every rule, in the order of the report.
    pub fn all() -> Vec<Self> {
        use Rule::*;
        let create = CreateViolation::ALL.map(Create);
        let rest = [
            CreateRefUnique,
            IpnSent,
            IpnSignature,
            IpnFields,
            IpnIds,
            IpnAmount,
            IpnCurrency,
            IpnPaidInSession,
            IpnTimestamp,
            IpnRetryBusy,
            IpnRetrySilent,
            IpnRetryFresh,
            IpnContent,
            IpnOnce,
            IpnOneOutcome,
            IpnPaidOnce,
            IpnRefundAmount,
            IpnRefundOnce,
            ReturnSuccess,
            ReturnCancel,
            ReturnSignature,
            ReturnFields,
            PageShown,
            PageHttps,
            PageFrameOptions,
            PageFrameAncestors,
            PageCookies,
            PageWidth,
            PageWebView,
        ];
        [CreateAnswered].into_iter().chain(create).chain(rest).collect()
    }

    /// The rule's id, such as `ipn.retry_503`. A rule of the create response has the same name as
    /// in the codes `contract_violation.NAME` of shops and facts.
    pub fn id(self) -> String {
        let id = match self {
            Self::Create(violation) => return format!("create.{}", violation.name()),
            Self::CreateAnswered => "create.answered",
            Self::CreateRefUnique => "create.ref_unique",
            Self::IpnSent => "ipn.sent",
            Self::IpnSignature => "ipn.signature",
            Self::IpnFields => "ipn.fields",
            Self::IpnIds => "ipn.ids",
            Self::IpnAmount => "ipn.amount",
            Self::IpnCurrency => "ipn.currency",
            Self::IpnPaidInSession => "ipn.paid_in_session",
            Self::IpnTimestamp => "ipn.timestamp",
            Self::IpnRetryBusy => "ipn.retry_503",
            Self::IpnRetrySilent => "ipn.retry_timeout",
            Self::IpnRetryFresh => "ipn.retry_fresh",
            Self::IpnContent => "ipn.content",
            Self::IpnOnce => "ipn.once",
            Self::IpnOneOutcome => "ipn.one_outcome",
            Self::IpnPaidOnce => "ipn.paid_once",
            Self::IpnRefundAmount => "ipn.refund_amount",
            Self::IpnRefundOnce => "ipn.refund_once",
            Self::ReturnSuccess => "return.success",
            Self::ReturnCancel => "return.cancel",
            Self::ReturnSignature => "return.signature",
            Self::ReturnFields => "return.fields",
            Self::PageShown => "page.shown",
            Self::PageHttps => "page.https",
            Self::PageFrameOptions => "page.x_frame_options",
            Self::PageFrameAncestors => "page.frame_ancestors",
            Self::PageCookies => "page.cookies",
            Self::PageWidth => "page.width_360",
            Self::PageWebView => "page.webview",
        };
        id.to_owned()
    }

    /// The clause of the contract that the rule comes from.
    pub fn clause(self) -> &'static str {
        match self {
            Self::Create(violation) => describe_create_rule(violation).0,
            Self::CreateAnswered => "4.1",
            Self::CreateRefUnique => "2.2",
            Self::IpnSent => "6",
            Self::IpnSignature => "5.1, 5.2",
            Self::IpnFields => "2.3",
            Self::IpnIds => "2.3",
            Self::IpnAmount => "2.3, 6, 7.3",
            Self::IpnCurrency => "2.3",
            Self::IpnPaidInSession => "2.2",
            Self::IpnTimestamp => "7.1, 8",
            Self::IpnRetryBusy => "6",
            Self::IpnRetrySilent => "6",
            Self::IpnRetryFresh => "6, 7.1",
            Self::IpnContent => "6",
            Self::IpnOnce => "6",
            Self::IpnOneOutcome => "3, 6",
            Self::IpnPaidOnce => "2.1, 6",
            Self::IpnRefundAmount => "2.3, 6",
            Self::IpnRefundOnce => "6",
            Self::ReturnSuccess => "4.4.4",
            Self::ReturnCancel => "4.4.4",
            Self::ReturnSignature => "2.4, 5.3",
            Self::ReturnFields => "2.4",
            Self::PageShown => "4.4",
            Self::PageHttps => "4.4.2",
            Self::PageFrameOptions => "4.4.1",
            Self::PageFrameAncestors => "4.4.1",
            Self::PageCookies => "4.4.3",
            Self::PageWidth => "4.4.5",
            Self::PageWebView => "1.2, 4.4",
        }
    }

    /// What the rule requires, for a person.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Create(violation) => describe_create_rule(violation).1,
            Self::CreateAnswered => "a create call gets a complete answer in time",
            Self::CreateRefUnique => "each payment has its own providerRef",
            Self::IpnSent => "every status change is sent to ipnUrl",
            Self::IpnSignature => "every IPN is signed with the account's key",
            Self::IpnFields => "every IPN has its fields, of the right types",
            Self::IpnIds => "an IPN repeats merchantCode, orderId and providerRef",
            Self::IpnAmount => "the amount is the create request's",
            Self::IpnCurrency => "the currency is the create request's",
            Self::IpnPaidInSession => "no payment is taken after expiresAt",
            Self::IpnTimestamp => "the timestamp is within the allowed skew of the delivery",
            Self::IpnRetryBusy => "an IPN answered 503 is sent again",
            Self::IpnRetrySilent => "an IPN without an answer is sent again",
            Self::IpnRetryFresh => "a retry has a new timestamp and a new signature",
            Self::IpnContent => {
                "a repeated IPN has the same content: only timestamp, nonce and signature may \
                 differ"
            }
            Self::IpnOnce => "an acknowledged IPN is not sent again",
            Self::IpnOneOutcome => "no two statuses of a transaction contradict each other",
            Self::IpnPaidOnce => "at most one transaction pays a payment",
            Self::IpnRefundAmount => "a refund names the create request's amount",
            Self::IpnRefundOnce => "refunds do not exceed the paid amount",
            Self::ReturnSuccess => "a payer who paid is sent to returnUrl",
            Self::ReturnCancel => "a payer who cancelled is sent to returnUrl",
            Self::ReturnSignature => "every return is signed",
            Self::ReturnFields => "a return has the fields and the content of the IPN",
            Self::PageShown => "redirectUrl shows the hosted page",
            Self::PageHttps => "the page uses https with a trusted certificate",
            Self::PageFrameOptions => "no X-Frame-Options forbids the shop's frame",
            Self::PageFrameAncestors => "no frame-ancestors forbids the shop's frame",
            Self::PageCookies => "the page works without third-party cookies",
            Self::PageWidth => "the page is usable at a width of 360 px",
            Self::PageWebView => "the page works in an app's WebView",
        }
    }

    /// Whether the rule is about an event that a run does not cause. It is checked if the event
    /// happens, and a run is complete without it.
    pub(crate) fn is_incidental(self) -> bool {
        matches!(self, Self::IpnRefundAmount | Self::IpnRefundOnce)
    }
}

/// Clause and title of a rule of the create response.
fn describe_create_rule(violation: CreateViolation) -> (&'static str, &'static str) {
    match violation {
        CreateViolation::Redirect => ("4.1", "the create call is answered, not redirected"),
        CreateViolation::NotJson => ("2.2", "the answer is one JSON object, no key twice"),
        CreateViolation::ProviderRef => ("2.2", "the answer has a usable providerRef"),
        CreateViolation::NoPresentation => {
            ("2.2, 7.4", "the answer has a redirectUrl or a qrPayload")
        }
        CreateViolation::TwoPresentations => ("2.2, 7.4", "the answer does not have both"),
        CreateViolation::RedirectUrl => ("2.2", "redirectUrl is an absolute address"),
        CreateViolation::RedirectUrlNotHttps => ("2.2, 4.4.2", "redirectUrl is https"),
        CreateViolation::RedirectUrlUserinfo => ("2.2", "redirectUrl has no user name"),
        CreateViolation::RedirectUrlPrivate => ("2.2", "redirectUrl is on the public internet"),
        CreateViolation::QrPayload => ("2.2", "qrPayload fits into a QR code"),
        CreateViolation::ExpiresAt => {
            ("2.2, 4.4.6", "the answer has an explicit expiresAt with a zone")
        }
        CreateViolation::ExpiresAtPast => ("2.2, 4.4.6", "expiresAt is in the future"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_rule_has_a_unique_id_a_clause_and_a_title() {
        let all = Rule::all();
        let ids: BTreeSet<_> = all.iter().map(|rule| rule.id()).collect();
        assert_eq!(ids.len(), all.len());
        for rule in all {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._".contains(c);
            assert!(rule.id().chars().all(plain) && rule.id().contains('.'), "{rule:?}");
            assert!(rule.clause().starts_with(|c: char| c.is_ascii_digit()), "{rule:?}");
            assert!(!rule.title().is_empty() && !rule.title().ends_with('.'), "{rule:?}");
        }
    }
}
