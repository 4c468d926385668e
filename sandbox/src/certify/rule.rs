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
        if let Self::Create(violation) = self {
            return format!("create.{}", violation.name());
        }
        self.text().0.to_owned()
    }

    /// The clause of the contract.
    pub fn clause(self) -> &'static str {
        self.text().1
    }

    /// What it asks, for people.
    pub fn title(self) -> &'static str {
        self.text().2
    }

    /// Whether it is about something that a run does not bring about: it is judged if it happens, and not missed if not.
    pub fn is_incidental(self) -> bool {
        matches!(self, Self::IpnRefundAmount | Self::IpnRefundOnce)
    }

    fn text(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::CreateAnswered => {
                ("create.answered", "4.1", "a create call gets a whole answer in time")
            }
            Self::Create(violation) => of_create(violation),
            Self::CreateRefUnique => {
                ("create.ref_unique", "2.2", "each payment has a providerRef of its own")
            }
            Self::IpnSent => ("ipn.sent", "6", "every status change is told to ipnUrl"),
            Self::IpnSignature => {
                ("ipn.signature", "5.1, 5.2", "every IPN is signed with the account's key")
            }
            Self::IpnFields => {
                ("ipn.fields", "2.3", "every IPN has the contract's fields, each of its type")
            }
            Self::IpnIds => ("ipn.ids", "2.3", "merchantCode, orderId and providerRef are echoed"),
            Self::IpnAmount => ("ipn.amount", "2.3, 6, 7.3", "the amount is the create request's"),
            Self::IpnCurrency => ("ipn.currency", "2.3", "the currency is the create request's"),
            Self::IpnPaidAt => ("ipn.paid_at", "2.3, 6", "a SUCCESS has paidAt"),
            Self::IpnPaidInSession => {
                ("ipn.paid_in_session", "2.2", "no payment is taken after expiresAt")
            }
            Self::IpnTimestamp => {
                ("ipn.timestamp", "7.1, 8", "the timestamp is within the skew of the delivery")
            }
            Self::IpnRetryBusy => {
                ("ipn.retry_503", "6", "an IPN that was answered 503 is sent again")
            }
            Self::IpnRetrySilent => {
                ("ipn.retry_timeout", "6", "an IPN that got no answer is sent again")
            }
            Self::IpnRetryFresh => {
                ("ipn.retry_fresh", "6, 7.1", "a retry has a timestamp and a signature of its own")
            }
            Self::IpnContent => (
                "ipn.content",
                "6",
                "a repeated IPN says the same: only timestamp, nonce and signature may differ",
            ),
            Self::IpnOnce => ("ipn.once", "6", "an IPN that was acknowledged is not sent again"),
            Self::IpnOneOutcome => (
                "ipn.one_outcome",
                "3, 6",
                "no two statuses of a transaction contradict each other",
            ),
            Self::IpnPaidOnce => {
                ("ipn.paid_once", "2.1, 6", "a payment is paid by one transaction")
            }
            Self::IpnRefundAmount => {
                ("ipn.refund_amount", "2.3, 6", "a refund names the create request's amount")
            }
            Self::IpnRefundOnce => ("ipn.refund_once", "6", "no more is given back than was paid"),
            Self::ReturnSuccess => {
                ("return.success", "4.4.4", "a payer who has paid is led to returnUrl")
            }
            Self::ReturnCancel => {
                ("return.cancel", "4.4.4", "a payer who has given up is led to returnUrl")
            }
            Self::ReturnSignature => ("return.signature", "2.4, 5.3", "every return is signed"),
            Self::ReturnFields => {
                ("return.fields", "2.4", "a return has the IPN's fields and says what it says")
            }
            Self::PageShown => ("page.shown", "4.4", "redirectUrl shows the hosted page"),
            Self::PageHttps => {
                ("page.https", "4.4.2", "the page comes over https with a trusted certificate")
            }
            Self::PageFrameOptions => {
                ("page.x_frame_options", "4.4.1", "no X-Frame-Options stops the shop's frame")
            }
            Self::PageFrameAncestors => {
                ("page.frame_ancestors", "4.4.1", "no frame-ancestors stops the shop's frame")
            }
            Self::PageCookies => {
                ("page.cookies", "4.4.3", "the page works without third-party cookies")
            }
            Self::PageWidth => {
                ("page.width_360", "4.4.5", "the page is usable at a width of 360 px")
            }
            Self::PageWebView => ("page.webview", "1.2, 4.4", "the page works in an app's WebView"),
        }
    }
}

fn of_create(violation: Violation) -> (&'static str, &'static str, &'static str) {
    let (clause, title) = match violation {
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
    };
    ("create", clause, title)
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
