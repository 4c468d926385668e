//! Owns the words trouble is asked for by, and which of them go together. They stand at the end of a payment's
//! description, `Two tickets #duplicates+disorder`: the way every shop has, no side channel. Pure.
//! A set of words that exists makes sense: its plan and its expectation are defined.

use std::collections::BTreeSet;
use std::fmt;

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
    /// Paid, and no notice ever says so: EXPIRED until somebody asks the query endpoint.
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

/// What a word is about; at most one word of a story and one of an answer go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// What becomes of the payment.
    Story,
    /// How its notices are delivered.
    Manner,
    /// The create call is answered in a way that leaves a session known.
    Opening,
    /// The create call's answer leaves the caller not knowing.
    Unknown,
    /// The create call definitely fails.
    Failing,
}

impl Trouble {
    /// Every word.
    pub const ALL: [Trouble; 43] = [
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
        Self::Duplicates,
        Self::Disorder,
        Self::Stale,
        Self::WrongKey,
        Self::BeforeCreate,
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
            Self::Duplicates => "duplicates",
            Self::Disorder => "disorder",
            Self::Stale => "stale",
            Self::WrongKey => "wrong-key",
            Self::BeforeCreate => "before-create",
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
            | Self::ExpireAfterSuccess => Kind::Story,
            Self::Duplicates
            | Self::Disorder
            | Self::Stale
            | Self::WrongKey
            | Self::BeforeCreate => Kind::Manner,
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
        )
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why words are no set of troubles.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TroubleError {
    /// A word nobody knows.
    #[error("the sandbox knows no #{word}; it knows {}", known())]
    Unknown {
        /// The word.
        word: String,
    },
    /// Two words that contradict each other.
    #[error("#{one} and #{other} do not go together: {reason}")]
    Conflict {
        /// The one.
        one: Trouble,
        /// The other.
        other: Trouble,
        /// Why not.
        reason: &'static str,
    },
}

fn known() -> String {
    Trouble::ALL.map(Trouble::name).join(", ")
}

/// Words that go together; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Troubles(BTreeSet<Trouble>);

impl Troubles {
    /// Checks that words go together; no words are `pay`. Errors: `TroubleError::Conflict`.
    pub fn new(words: impl IntoIterator<Item = Trouble>) -> Result<Self, TroubleError> {
        let mut words: BTreeSet<_> = words.into_iter().collect();
        if words.is_empty() {
            words.insert(Trouble::Pay);
        }
        for one in &words {
            for other in words.iter().filter(|other| *other > one) {
                if let Some(reason) = conflict(*one, *other) {
                    return Err(TroubleError::Conflict { one: *one, other: *other, reason });
                }
            }
        }
        Ok(Self(words))
    }

    /// Reads `word+word`. Errors: `TroubleError`.
    pub fn parse(text: &str) -> Result<Self, TroubleError> {
        let word = |word: &str| {
            Trouble::parse(word).ok_or_else(|| TroubleError::Unknown { word: word.to_owned() })
        };
        Self::new(text.split('+').map(word).collect::<Result<BTreeSet<_>, _>>()?)
    }

    /// Reads what stands behind the `#` of a description's last word; `None` if there is none: then the payment
    /// waits for its payer. Errors: `TroubleError`.
    pub fn of_description(description: &str) -> Result<Option<Self>, TroubleError> {
        let last = description.split_whitespace().next_back();
        last.and_then(|word| word.strip_prefix('#')).map(Self::parse).transpose()
    }

    /// The words, in the order of `Trouble::ALL`.
    pub fn words(&self) -> impl Iterator<Item = Trouble> + '_ {
        self.0.iter().copied()
    }

    /// Whether the word is one of them.
    pub fn has(&self, trouble: Trouble) -> bool {
        self.0.contains(&trouble)
    }

    /// What becomes of the payment.
    pub(crate) fn story(&self) -> Trouble {
        self.words().find(|word| word.kind() == Kind::Story).unwrap_or(Trouble::Pay)
    }

    /// How the create call is answered; `None` for well.
    pub(crate) fn answer(&self) -> Option<Trouble> {
        self.words().find(|word| word.is_answer())
    }

    /// Whether a payment needs two units of money at least, to give a part of it back.
    pub(crate) fn divides(&self) -> bool {
        self.has(Trouble::RefundPart) || self.has(Trouble::RefundParts)
    }
}

impl fmt::Display for Troubles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.words().map(Trouble::name).collect();
        f.pad(&words.join("+"))
    }
}

/// Why two words do not go together, `one` before `other` in `Trouble::ALL`.
fn conflict(one: Trouble, other: Trouble) -> Option<&'static str> {
    use Trouble::{BeforeCreate, Disorder, Late, Never, PaidLate};
    let kinds = (one.kind(), other.kind());
    if kinds == (Kind::Story, Kind::Story) {
        Some("a payment has one story")
    } else if one.is_answer() && other.is_answer() {
        Some("a create call has one answer")
    } else if kinds.0 == Kind::Failing || kinds.1 == Kind::Failing {
        Some("a create call that fails is followed by nothing")
    } else if one == Never && kinds.1 == Kind::Manner {
        Some("no notice is sent")
    } else if matches!(one, Late | PaidLate) && other == BeforeCreate {
        Some("what comes after the session does not come before it")
    } else if matches!(one, Late | PaidLate) && kinds.1 == Kind::Unknown {
        Some("nobody knows the session that it would be late for")
    } else if other == Disorder && one.has_one_notice() {
        Some("one notice has no order")
    } else {
        None
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

    /// A description => the words, `-` for none, or a piece of the error.
    const DESCRIPTIONS: &str = "
        Two tickets                         => -
        Two tickets #pay                    => pay
        #fail                               => fail
        Two tickets #disorder+duplicates    => duplicates+disorder
        Two tickets #duplicates+duplicates  => duplicates
        #pay for two tickets                => -
        C# and F#                           => -
        Order #5                            => knows no #5; it knows pay, fail, cancel
        Two tickets #Pay                    => knows no #Pay
        Two tickets #pay+                   => knows no #;
        x #pay+fail                         => #pay and #fail do not go together: a payment has one story
        x #create-500+create-cut            => one answer
        x #duplicates+create-both           => followed by nothing
        x #wrong-amount+create-refused      => followed by nothing
        x #never+stale                      => no notice is sent
        x #never+create-500                 => never+create-500
        x #late+before-create               => does not come before it
        x #paid-late+create-slow            => nobody knows the session
        x #late+duplicates+stale            => late+duplicates+stale
        x #fail+disorder                    => one notice has no order
        x #pay+disorder                     => pay+disorder
        x #second-ref+disorder+wrong-key    => second-ref+disorder+wrong-key
        x #refund-part+create-huge+stale    => refund-part+stale+create-huge
    ";

    #[test]
    fn the_end_of_a_description_asks() {
        for case in DESCRIPTIONS.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (description, expected) = case.split_once("=>").unwrap();
            let expected = expected.trim();
            match Troubles::of_description(description) {
                Ok(found) => {
                    let found = found.map_or_else(|| "-".to_owned(), |words| words.to_string());
                    assert_eq!(found, expected, "{case}");
                }
                Err(error) => assert!(error.to_string().contains(expected), "{case}: {error}"),
            }
        }
    }

    #[test]
    fn an_unknown_word_is_told_every_known_one() {
        let error = Troubles::parse("chaos").unwrap_err().to_string();
        for trouble in Trouble::ALL {
            assert!(error.contains(trouble.name()), "{trouble}");
        }
    }
}
