//! Owns sets of words: reading them, and which words go together. Pure.
//! A set that exists makes sense: its plan and its expectation are defined.

use std::collections::BTreeSet;
use std::fmt;

use super::{Kind, Trouble};

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

    /// What is wrong with the page; `None` for nothing.
    pub(crate) fn page(&self) -> Option<Trouble> {
        self.words().find(|word| word.kind() == Kind::Page)
    }

    /// What is wrong with the payer's way back; `None` for nothing.
    pub(crate) fn way_back(&self) -> Option<Trouble> {
        self.words().find(|word| word.kind() == Kind::Return)
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

/// Words that leave a first attempt with a defect without a right one.
fn gives_up(word: Trouble) -> bool {
    use Trouble::{GiveUpRefused, GiveUpSilent, SameBytes};
    matches!(word, SameBytes | GiveUpRefused | GiveUpSilent)
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
    } else if kinds == (Kind::Page, Kind::Page) {
        Some("a page has one defect")
    } else if kinds == (Kind::Return, Kind::Return) {
        Some("there is one way back")
    } else if one.is_refused_for_good() && kinds.1 == Kind::Manner {
        Some("a notice that is refused for good has no other manner")
    } else if matches!(one, Trouble::Stale | Trouble::WrongKey) && gives_up(other) {
        Some("the attempt after the wrong one would never come right")
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
        x #cookie-wall+page-error           => a page has one defect
        x #no-return+return-amount          => there is one way back
        x #no-paid-at+duplicates            => refused for good
        x #amount-text+stale                => refused for good
        x #stale+same-bytes                 => never come right
        x #wrong-key+give-up-refused        => never come right
        x #cancel+no-return-cancel+cookie-wall => cancel+cookie-wall+no-return-cancel
        x #no-return+create-both            => followed by nothing
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
