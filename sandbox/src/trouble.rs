//! Owns the words trouble is asked for by. They stand at the end of a payment's description, `Two tickets
//! #duplicates+disorder`: the way every shop has, no side channel. Pure.

mod set;

use std::fmt;

pub use set::{TroubleError, Troubles};

/// One word. The first four are no trouble: they only say how the payment ends without anybody at a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trouble {
    /// Paid: one SUCCESS.
    Pay,
    /// Failed: one FAILED.
    Fail,
    /// The payer gave up: one FAILED, the contract has no word of its own for it.
    Cancel,
    /// The session ends unpaid, at once: one EXPIRED.
    Expire,
    /// The session ends, then a SUCCESS comes that was paid in time: EXPIRED becomes PAID and nothing is wrong.
    Late,
    /// The same, paid after the order's deadline: PAID, and a person should know.
    PaidLate,
    /// Paid, and no notice ever says so: only the query endpoint tells, whoever asks.
    Never,
    /// The SUCCESS names another amount than was asked for: kept, flagged, settles nothing.
    WrongAmount,
    /// The SUCCESS names another currency.
    WrongCurrency,
    /// A second SUCCESS of the same payment with another `paidAt`: worth knowing, the money is the same.
    ContentVariant,
    /// A second SUCCESS of the same payment with another amount: nobody can say which is true.
    ContentVariantAmount,
    /// A second transaction of the same order is paid too.
    SecondRef,
    /// Two orders get one providerRef: ask for it twice. The second of a pair closes it.
    ReusedRef,
    /// REFUNDED is told before the SUCCESS it gives back.
    RefundFirst,
    /// REFUNDED is told and its SUCCESS never.
    RefundOnly,
    /// The whole amount goes back twice, at two times.
    RefundTwice,
    /// Half of it goes back.
    RefundPart,
    /// Both halves go back, each by itself.
    RefundParts,
    /// A payment that failed is refunded.
    RefundAfterFail,
    /// FAILED after SUCCESS.
    FailAfterSuccess,
    /// EXPIRED after SUCCESS.
    ExpireAfterSuccess,
    /// The SUCCESS does not say when it was paid: refused, and not sent again.
    NoPaidAt,
    /// The SUCCESS has its amount in quotes: refused, and not sent again.
    AmountText,
    /// The SUCCESS names another merchantCode: refused, and not sent again.
    OtherMerchant,
    /// Every notice four times, some byte for byte, some stamped and signed anew.
    Duplicates,
    /// The notices in the opposite order with duplicates between; a payment of one notice is refunded for it.
    Disorder,
    /// The first notice is stamped ten minutes ago, its retry is not.
    Stale,
    /// A forged notice that contradicts the payment, and a first notice signed with a wrong key.
    WrongKey,
    /// The notices are sent before the create call is answered.
    BeforeCreate,
    /// A notice that is not taken is sent again byte for byte, with its old stamp.
    SameBytes,
    /// A notice that is refused is not sent again.
    GiveUpRefused,
    /// A notice that is not answered is not sent again.
    GiveUpSilent,
    /// The page forbids every frame, by X-Frame-Options.
    FrameDenied,
    /// The page forbids every frame, by its Content-Security-Policy.
    FrameAncestors,
    /// The page is of no use without a cookie.
    CookieWall,
    /// The page leads on to an address without TLS.
    PageHttp,
    /// The page is an error.
    PageError,
    /// A payer who has paid is not led back.
    NoReturn,
    /// A payer who has not paid is not led back.
    NoReturnCancel,
    /// The payer is led back without a signature.
    ReturnUnsigned,
    /// The payer is led back with another amount, signed.
    ReturnAmount,
    /// The create call is answered late, within the profile's time-out.
    CreateDelayed,
    /// The create call gets a 5xx; the payment is made all the same.
    Create500,
    /// The create call is answered after the profile's time-out; the payment is made all the same.
    CreateSlow,
    /// The answer to the create call breaks off; the payment is made all the same.
    CreateCut,
    /// The answer to the create call is a good one of 5 MB; the payment is made all the same.
    CreateHuge,
    /// The create call gets a 4xx: there is no payment.
    CreateRefused,
    /// The create call is redirected.
    CreateRedirect,
    /// The answer is no JSON object.
    CreateNotJson,
    /// The answer has no providerRef.
    CreateNoRef,
    /// The answer has redirectUrl and qrPayload.
    CreateBoth,
    /// The answer has neither.
    CreateNeither,
    /// redirectUrl is no absolute address.
    CreateBadUrl,
    /// redirectUrl is http, and not on this machine.
    CreateHttpUrl,
    /// redirectUrl carries a user name.
    CreateUserinfo,
    /// qrPayload is no text a code can carry.
    CreateBadQr,
    /// The answer has no expiresAt.
    CreateNoExpiry,
    /// expiresAt is not in the future.
    CreatePastExpiry,
}

/// What a word is about; at most one word of a story, of a page, of a return and of an answer go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// What becomes of the payment.
    Story,
    /// How its notices are delivered.
    Manner,
    /// What is wrong with the page.
    Page,
    /// What is wrong with the payer's way back.
    Return,
    /// The create call is answered in a way that leaves a session known.
    Opening,
    /// The create call's answer leaves the caller not knowing.
    Unknown,
    /// The create call definitely fails.
    Failing,
}

impl Trouble {
    /// Every word.
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

    /// The word.
    pub const fn name(self) -> &'static str {
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

    /// Reads a word; case matters. `None` for any other.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|trouble| trouble.name() == word)
    }

    pub(crate) const fn kind(self) -> Kind {
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
            | Self::OtherMerchant => Kind::Story,
            Self::Duplicates
            | Self::Disorder
            | Self::Stale
            | Self::WrongKey
            | Self::BeforeCreate
            | Self::SameBytes
            | Self::GiveUpRefused
            | Self::GiveUpSilent => Kind::Manner,
            Self::FrameDenied
            | Self::FrameAncestors
            | Self::CookieWall
            | Self::PageHttp
            | Self::PageError => Kind::Page,
            Self::NoReturn | Self::NoReturnCancel | Self::ReturnUnsigned | Self::ReturnAmount => {
                Kind::Return
            }
            Self::CreateDelayed => Kind::Opening,
            Self::Create500 | Self::CreateSlow | Self::CreateCut | Self::CreateHuge => {
                Kind::Unknown
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
            | Self::CreatePastExpiry => Kind::Failing,
        }
    }

    const fn is_answer(self) -> bool {
        matches!(self.kind(), Kind::Opening | Kind::Unknown | Kind::Failing)
    }

    /// Stories whose notice is not admitted and never will be.
    pub(crate) const fn is_refused_for_good(self) -> bool {
        matches!(self, Self::NoPaidAt | Self::AmountText | Self::OtherMerchant)
    }

    /// Stories of exactly one notice (or none), which leave nothing to put into another order.
    const fn has_one_notice(self) -> bool {
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
    fn every_word_is_read_back_and_stands_in_order() {
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
