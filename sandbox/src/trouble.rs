//! Owns the keywords that request a trouble. They stand at the end of a payment's description, as
//! in `Two tickets #duplicates+disorder`. Every shop can set a description, so no extra interface
//! is needed. Pure.

use std::fmt;

/// One keyword. The first four request no fault: they end the payment without a person at the
/// page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trouble {
    /// Paid: one SUCCESS.
    Pay,
    /// Failed: one FAILED.
    Fail,
    /// The payer cancelled: one FAILED, because the contract has no separate status for it.
    Cancel,
    /// The session ends unpaid, at once: one EXPIRED.
    Expire,
    /// A SUCCESS arrives after the end of the session, paid in time: the order becomes PAID after
    /// EXPIRED, without a flag.
    Late,
    /// As `Late`, but paid after the order's deadline: PAID with a flag.
    PaidLate,
    /// Paid, without any notice: only the query endpoint reports it.
    Never,
    /// The SUCCESS has another amount than requested: stored and flagged, and the order stays
    /// unpaid.
    WrongAmount,
    /// The SUCCESS has another currency.
    WrongCurrency,
    /// A second SUCCESS of the same payment with another `paidAt` and the same money.
    ContentVariant,
    /// A second SUCCESS of the same payment with another amount. Which one is true is unknown.
    ContentVariantAmount,
    /// A second transaction of the same order is paid too.
    SecondRef,
    /// Two orders share one providerRef: every second payment with this keyword gets that of the
    /// first.
    ReusedRef,
    /// REFUNDED is sent before its SUCCESS.
    RefundFirst,
    /// REFUNDED is sent, and its SUCCESS never.
    RefundOnly,
    /// The whole amount is refunded twice, at two times.
    RefundTwice,
    /// Half of the amount is refunded.
    RefundPart,
    /// Both halves are refunded, one after the other.
    RefundParts,
    /// A failed payment is refunded.
    RefundAfterFail,
    /// FAILED after SUCCESS.
    FailAfterSuccess,
    /// EXPIRED after SUCCESS.
    ExpireAfterSuccess,
    /// The SUCCESS has no `paidAt`: refused, and not sent again.
    NoPaidAt,
    /// The SUCCESS has its amount as a JSON string: refused, and not sent again.
    AmountText,
    /// The SUCCESS has another merchantCode: refused, and not sent again.
    OtherMerchant,
    /// Every notice is sent four times, some as the same bytes, some signed again.
    Duplicates,
    /// The notices are sent in reverse order, all but the last twice. A plain payment is also
    /// refunded, so that there are two notices.
    Disorder,
    /// The first attempt has a timestamp of ten minutes ago; its retry has not.
    Stale,
    /// A forged notice contradicts the payment, and the first attempt is signed with a wrong key.
    WrongKey,
    /// The notices are sent before the create response.
    BeforeCreate,
    /// Retries have the same bytes, with the old timestamp.
    SameBytes,
    /// A refused notice is not sent again.
    GiveUpRefused,
    /// A notice without an answer is not sent again.
    GiveUpSilent,
    /// The page forbids every frame, by X-Frame-Options.
    FrameDenied,
    /// The page forbids every frame, by its Content-Security-Policy.
    FrameAncestors,
    /// The page works only with a cookie.
    CookieWall,
    /// The page redirects to an address without TLS.
    PageHttp,
    /// The page responds 500.
    PageError,
    /// A payer who paid is not redirected to the shop.
    NoReturn,
    /// A payer who did not pay is not redirected to the shop.
    NoReturnCancel,
    /// The browser return has no signature.
    ReturnUnsigned,
    /// The browser return has another amount, with a valid signature.
    ReturnAmount,
    /// The create response is late, but within the profile's timeout.
    CreateDelayed,
    /// The create call gets a 5xx; the payment is made nevertheless.
    Create500,
    /// The create response comes after the profile's timeout; the payment is made nevertheless.
    CreateSlow,
    /// The create response is cut off; the payment is made nevertheless.
    CreateCut,
    /// The create response is valid and has 5 MB; the payment is made nevertheless.
    CreateHuge,
    /// The create call gets a 4xx; there is no payment.
    CreateRefused,
    /// The create call is redirected.
    CreateRedirect,
    /// The create response is not a JSON object.
    CreateNotJson,
    /// The create response has no providerRef.
    CreateNoRef,
    /// The create response has both redirectUrl and qrPayload.
    CreateBoth,
    /// The create response has neither redirectUrl nor qrPayload.
    CreateNeither,
    /// redirectUrl is not an absolute address.
    CreateBadUrl,
    /// redirectUrl is http, and not on this machine.
    CreateHttpUrl,
    /// redirectUrl has a user name.
    CreateUserinfo,
    /// qrPayload is not a valid content of a QR code.
    CreateBadQr,
    /// The create response has no expiresAt.
    CreateNoExpiry,
    /// expiresAt is not in the future.
    CreatePastExpiry,
}

/// What a keyword is about. A payment can have at most one keyword of each kind: outcome, page,
/// return and create response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TroubleKind {
    /// The outcome of the payment.
    Outcome,
    /// The delivery of its notices.
    Delivery,
    /// The defect of the page.
    Page,
    /// The defect of the browser return.
    Return,
    /// A create response after which the caller knows the session.
    Opening,
    /// A create response after which the outcome is unknown to the caller.
    Unknown,
    /// A create response after which the call has definitely failed.
    Failing,
}

impl Trouble {
    /// Every keyword.
    pub const ALL: [Trouble; 58] = [
        Self::Pay,
        Self::Fail,
        Self::Cancel,
        Self::Expire,
        Self::Late,
        Self::PaidLate,
        Self::Never,
        Self::WrongAmount,
        Self::WrongCurrency,
        Self::ContentVariant,
        Self::ContentVariantAmount,
        Self::SecondRef,
        Self::ReusedRef,
        Self::RefundFirst,
        Self::RefundOnly,
        Self::RefundTwice,
        Self::RefundPart,
        Self::RefundParts,
        Self::RefundAfterFail,
        Self::FailAfterSuccess,
        Self::ExpireAfterSuccess,
        Self::NoPaidAt,
        Self::AmountText,
        Self::OtherMerchant,
        Self::Duplicates,
        Self::Disorder,
        Self::Stale,
        Self::WrongKey,
        Self::BeforeCreate,
        Self::SameBytes,
        Self::GiveUpRefused,
        Self::GiveUpSilent,
        Self::FrameDenied,
        Self::FrameAncestors,
        Self::CookieWall,
        Self::PageHttp,
        Self::PageError,
        Self::NoReturn,
        Self::NoReturnCancel,
        Self::ReturnUnsigned,
        Self::ReturnAmount,
        Self::CreateDelayed,
        Self::Create500,
        Self::CreateSlow,
        Self::CreateCut,
        Self::CreateHuge,
        Self::CreateRefused,
        Self::CreateRedirect,
        Self::CreateNotJson,
        Self::CreateNoRef,
        Self::CreateBoth,
        Self::CreateNeither,
        Self::CreateBadUrl,
        Self::CreateHttpUrl,
        Self::CreateUserinfo,
        Self::CreateBadQr,
        Self::CreateNoExpiry,
        Self::CreatePastExpiry,
    ];

    /// The keyword as written in a description.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Pay => "pay",
            Self::Fail => "fail",
            Self::Cancel => "cancel",
            Self::Expire => "expire",
            Self::Late => "late",
            Self::PaidLate => "paid-late",
            Self::Never => "never",
            Self::WrongAmount => "wrong-amount",
            Self::WrongCurrency => "wrong-currency",
            Self::ContentVariant => "content-variant",
            Self::ContentVariantAmount => "content-variant-amount",
            Self::SecondRef => "second-ref",
            Self::ReusedRef => "reused-ref",
            Self::RefundFirst => "refund-first",
            Self::RefundOnly => "refund-only",
            Self::RefundTwice => "refund-twice",
            Self::RefundPart => "refund-part",
            Self::RefundParts => "refund-parts",
            Self::RefundAfterFail => "refund-after-fail",
            Self::FailAfterSuccess => "fail-after-success",
            Self::ExpireAfterSuccess => "expire-after-success",
            Self::NoPaidAt => "no-paid-at",
            Self::AmountText => "amount-text",
            Self::OtherMerchant => "other-merchant",
            Self::Duplicates => "duplicates",
            Self::Disorder => "disorder",
            Self::Stale => "stale",
            Self::WrongKey => "wrong-key",
            Self::BeforeCreate => "before-create",
            Self::SameBytes => "same-bytes",
            Self::GiveUpRefused => "give-up-refused",
            Self::GiveUpSilent => "give-up-silent",
            Self::FrameDenied => "frame-denied",
            Self::FrameAncestors => "frame-ancestors",
            Self::CookieWall => "cookie-wall",
            Self::PageHttp => "page-http",
            Self::PageError => "page-error",
            Self::NoReturn => "no-return",
            Self::NoReturnCancel => "no-return-cancel",
            Self::ReturnUnsigned => "return-unsigned",
            Self::ReturnAmount => "return-amount",
            Self::CreateDelayed => "create-delayed",
            Self::Create500 => "create-500",
            Self::CreateSlow => "create-slow",
            Self::CreateCut => "create-cut",
            Self::CreateHuge => "create-huge",
            Self::CreateRefused => "create-refused",
            Self::CreateRedirect => "create-redirect",
            Self::CreateNotJson => "create-not-json",
            Self::CreateNoRef => "create-no-ref",
            Self::CreateBoth => "create-both",
            Self::CreateNeither => "create-neither",
            Self::CreateBadUrl => "create-bad-url",
            Self::CreateHttpUrl => "create-http-url",
            Self::CreateUserinfo => "create-userinfo",
            Self::CreateBadQr => "create-bad-qr",
            Self::CreateNoExpiry => "create-no-expiry",
            Self::CreatePastExpiry => "create-past-expiry",
        }
    }

    /// Parses a keyword, case-sensitively. `None` if it is unknown.
    pub fn parse(keyword: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|trouble| trouble.name() == keyword)
    }

    pub(crate) const fn kind(self) -> TroubleKind {
        match self {
            Self::Pay
            | Self::Fail
            | Self::Cancel
            | Self::Expire
            | Self::Late
            | Self::PaidLate
            | Self::Never
            | Self::WrongAmount
            | Self::WrongCurrency
            | Self::ContentVariant
            | Self::ContentVariantAmount
            | Self::SecondRef
            | Self::ReusedRef
            | Self::RefundFirst
            | Self::RefundOnly
            | Self::RefundTwice
            | Self::RefundPart
            | Self::RefundParts
            | Self::RefundAfterFail
            | Self::FailAfterSuccess
            | Self::ExpireAfterSuccess
            | Self::NoPaidAt
            | Self::AmountText
            | Self::OtherMerchant => TroubleKind::Outcome,
            Self::Duplicates
            | Self::Disorder
            | Self::Stale
            | Self::WrongKey
            | Self::BeforeCreate
            | Self::SameBytes
            | Self::GiveUpRefused
            | Self::GiveUpSilent => TroubleKind::Delivery,
            Self::FrameDenied
            | Self::FrameAncestors
            | Self::CookieWall
            | Self::PageHttp
            | Self::PageError => TroubleKind::Page,
            Self::NoReturn | Self::NoReturnCancel | Self::ReturnUnsigned | Self::ReturnAmount => {
                TroubleKind::Return
            }
            Self::CreateDelayed => TroubleKind::Opening,
            Self::Create500 | Self::CreateSlow | Self::CreateCut | Self::CreateHuge => {
                TroubleKind::Unknown
            }
            Self::CreateRefused
            | Self::CreateRedirect
            | Self::CreateNotJson
            | Self::CreateNoRef
            | Self::CreateBoth
            | Self::CreateNeither
            | Self::CreateBadUrl
            | Self::CreateHttpUrl
            | Self::CreateUserinfo
            | Self::CreateBadQr
            | Self::CreateNoExpiry
            | Self::CreatePastExpiry => TroubleKind::Failing,
        }
    }

    pub(crate) const fn is_create_response(self) -> bool {
        matches!(self.kind(), TroubleKind::Opening | TroubleKind::Unknown | TroubleKind::Failing)
    }

    /// Whether the notice of this outcome is refused on every attempt.
    pub(crate) const fn is_always_refused(self) -> bool {
        matches!(self, Self::NoPaidAt | Self::AmountText | Self::OtherMerchant)
    }

    /// Whether this outcome has at most one notice, so that there is no order to change.
    pub(crate) const fn has_at_most_one_notice(self) -> bool {
        matches!(
            self,
            Self::Fail
                | Self::Cancel
                | Self::Expire
                | Self::Late
                | Self::PaidLate
                | Self::Never
                | Self::WrongAmount
                | Self::WrongCurrency
                | Self::ReusedRef
                | Self::RefundOnly
                | Self::NoPaidAt
                | Self::AmountText
                | Self::OtherMerchant
        )
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_keyword_parses_and_is_in_order() {
        for pair in Trouble::ALL.windows(2) {
            assert!(pair[0] < pair[1], "{} {}", pair[0], pair[1]);
        }
        for trouble in Trouble::ALL {
            assert_eq!(Trouble::parse(trouble.name()), Some(trouble));
            let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
            assert!(trouble.name().bytes().all(plain), "{trouble}");
        }
        assert_eq!(Trouble::parse("Pay"), None);
    }
}
