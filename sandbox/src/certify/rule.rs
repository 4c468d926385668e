//! Owns the rules a partner is certified by: each with its name, the clause of the contract it comes from, and what it
//! asks. Names are stable: reports of different times are compared by them.

use payfold_partners::create::Violation;

/// One rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The create call gets a whole answer of success in time.
    CreateAnswered,
    /// A rule of the answer (contract 2.2), as the create call judges it everywhere else.
    Create(Violation),
    /// No two payments share a providerRef.
    CreateRefUnique,
    /// What became of a payment is told.
    IpnSent,
    /// Every IPN is signed.
    IpnSignature,
    /// Every field of the contract, each of its type.
    IpnFields,
    /// The ids are echoed.
    IpnIds,
    /// The amount is the create request's.
    IpnAmount,
    /// The currency is the create request's.
    IpnCurrency,
    /// A SUCCESS says when it was paid.
    IpnPaidAt,
    /// Nobody pays after the session's own end.
    IpnPaidInSession,
    /// The timestamp is near the time of delivery.
    IpnTimestamp,
    /// What is answered with 503 comes again.
    IpnRetryBusy,
    /// What is not answered comes again.
    IpnRetrySilent,
    /// A retry is stamped anew.
    IpnRetryFresh,
    /// A status has one content, however often it is told.
    IpnContent,
    /// What was acknowledged is not sent again.
    IpnOnce,
    /// No two statuses of a transaction contradict each other.
    IpnOneOutcome,
    /// A payment is paid by one transaction.
    IpnPaidOnce,
    /// A refund names the create request's amount.
    IpnRefundAmount,
    /// No more is given back than was paid.
    IpnRefundOnce,
    /// A payer who has paid is led back.
    ReturnSuccess,
    /// A payer who has given up is led back.
    ReturnCancel,
    /// A return is signed.
    ReturnSignature,
    /// A return says what the IPN says.
    ReturnFields,
    /// The page is there.
    PageShown,
    /// The page comes over https, with a certificate this machine trusts.
    PageHttps,
    /// No X-Frame-Options stops the shop's frame.
    PageFrameOptions,
    /// No frame-ancestors stops it.
    PageFrameAncestors,
    /// It works without cookies.
    PageCookies,
    /// It is usable at 360 px.
    PageWidth,
    /// It works in an app's WebView.
    PageWebView,
}

impl Rule {
    /// Every rule, in the order of the report.
    pub fn all() -> Vec<Self> {
        use Rule::*;
        let create = Violation::ALL.map(Create);
        let rest = [
            CreateRefUnique,
            IpnSent,
            IpnSignature,
            IpnFields,
            IpnIds,
            IpnAmount,
            IpnCurrency,
            IpnPaidAt,
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

    /// Its name, such as `ipn.retry_503`. A rule of the create answer has the name shops and facts know it by, after
    /// `contract_violation.`.
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
            Self::IpnPaidAt => "ipn.paid_at",
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

    /// The clause of the contract.
    pub fn clause(self) -> &'static str {
        match self {
            Self::Create(violation) => of_create(violation).0,
            Self::CreateAnswered => "4.1",
            Self::CreateRefUnique => "2.2",
            Self::IpnSent => "6",
            Self::IpnSignature => "5.1, 5.2",
            Self::IpnFields => "2.3",
            Self::IpnIds => "2.3",
            Self::IpnAmount => "2.3, 6, 7.3",
            Self::IpnCurrency => "2.3",
            Self::IpnPaidAt => "2.3, 6",
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

    /// What it asks, for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Create(violation) => of_create(violation).1,
            Self::CreateAnswered => "a create call gets a whole answer in time",
            Self::CreateRefUnique => "each payment has a providerRef of its own",
            Self::IpnSent => "every status change is told to ipnUrl",
            Self::IpnSignature => "every IPN is signed with the account's key",
            Self::IpnFields => "every IPN has the contract's fields, each of its type",
            Self::IpnIds => "merchantCode, orderId and providerRef are echoed",
            Self::IpnAmount => "the amount is the create request's",
            Self::IpnCurrency => "the currency is the create request's",
            Self::IpnPaidAt => "a SUCCESS has paidAt",
            Self::IpnPaidInSession => "no payment is taken after expiresAt",
            Self::IpnTimestamp => "the timestamp is within the skew of the delivery",
            Self::IpnRetryBusy => "an IPN that was answered 503 is sent again",
            Self::IpnRetrySilent => "an IPN that got no answer is sent again",
            Self::IpnRetryFresh => "a retry has a timestamp and a signature of its own",
            Self::IpnContent => {
                "a repeated IPN says the same: only timestamp, nonce and signature may differ"
            }
            Self::IpnOnce => "an IPN that was acknowledged is not sent again",
            Self::IpnOneOutcome => "no two statuses of a transaction contradict each other",
            Self::IpnPaidOnce => "a payment is paid by one transaction",
            Self::IpnRefundAmount => "a refund names the create request's amount",
            Self::IpnRefundOnce => "no more is given back than was paid",
            Self::ReturnSuccess => "a payer who has paid is led to returnUrl",
            Self::ReturnCancel => "a payer who has given up is led to returnUrl",
            Self::ReturnSignature => "every return is signed",
            Self::ReturnFields => "a return has the IPN's fields and says what it says",
            Self::PageShown => "redirectUrl shows the hosted page",
            Self::PageHttps => "the page comes over https with a trusted certificate",
            Self::PageFrameOptions => "no X-Frame-Options stops the shop's frame",
            Self::PageFrameAncestors => "no frame-ancestors stops the shop's frame",
            Self::PageCookies => "the page works without third-party cookies",
            Self::PageWidth => "the page is usable at a width of 360 px",
            Self::PageWebView => "the page works in an app's WebView",
        }
    }

    /// Whether it is about something that a run does not bring about: it is judged if it happens, and not missed if not.
    pub fn is_incidental(self) -> bool {
        matches!(self, Self::IpnRefundAmount | Self::IpnRefundOnce)
    }
}

/// Clause and title of a rule of the create answer.
fn of_create(violation: Violation) -> (&'static str, &'static str) {
    match violation {
        Violation::Redirect => ("4.1", "the create call is answered, not redirected"),
        Violation::NotJson => ("2.2", "the answer is one JSON object, no key twice"),
        Violation::ProviderRef => ("2.2", "the answer has a usable providerRef"),
        Violation::NoPresentation => ("2.2, 7.4", "the answer has a redirectUrl or a qrPayload"),
        Violation::TwoPresentations => ("2.2, 7.4", "the answer has not both"),
        Violation::RedirectUrl => ("2.2", "redirectUrl is an absolute address"),
        Violation::RedirectUrlNotHttps => ("2.2, 4.4.2", "redirectUrl is https"),
        Violation::RedirectUrlUserinfo => ("2.2", "redirectUrl carries no user name"),
        Violation::RedirectUrlPrivate => ("2.2", "redirectUrl is on the public internet"),
        Violation::QrPayload => ("2.2", "qrPayload is a text a QR code can carry"),
        Violation::ExpiresAt => ("2.2, 4.4.6", "the answer has an explicit expiresAt with a zone"),
        Violation::ExpiresAtPast => ("2.2, 4.4.6", "expiresAt is in the future"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_rule_has_a_name_of_its_own_and_a_clause() {
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
