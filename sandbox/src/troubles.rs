//! Owns sets of trouble keywords: parsing, and which keywords can be combined. Pure. Every set that
//! can be constructed has a defined plan and a defined expectation.

use std::collections::BTreeSet;
use std::fmt;

use crate::trouble::{Trouble, TroubleKind};

/// Why keywords are not a valid set of troubles.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TroubleError {
    /// An unknown keyword.
    #[error("the sandbox does not know the keyword #{word}; it knows {}", list_keywords())]
    Unknown {
        /// The unknown keyword.
        word: String,
    },
    /// Two keywords that can't be combined.
    #[error("#{one} and #{other} can't be combined: {reason}")]
    Conflict {
        /// One keyword.
        one: Trouble,
        /// The other keyword.
        other: Trouble,
        /// Why they can't be combined.
        reason: &'static str,
    },
}

fn list_keywords() -> String {
    Trouble::ALL.map(Trouble::name).join(", ")
}

/// Keywords that can be combined; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Troubles(BTreeSet<Trouble>);

impl Troubles {
    /// Checks that keywords can be combined. An empty set becomes `pay`. Errors:
    /// `TroubleError::Conflict`.
    pub fn new(keywords: impl IntoIterator<Item = Trouble>) -> Result<Self, TroubleError> {
        let mut keywords: BTreeSet<_> = keywords.into_iter().collect();
        if keywords.is_empty() {
            keywords.insert(Trouble::Pay);
        }
        for one in &keywords {
            for other in keywords.iter().filter(|other| *other > one) {
                if let Some(reason) = find_conflict(*one, *other) {
                    return Err(TroubleError::Conflict { one: *one, other: *other, reason });
                }
            }
        }
        Ok(Self(keywords))
    }

    /// Parses `keyword+keyword`. Errors: `TroubleError`.
    pub fn parse(text: &str) -> Result<Self, TroubleError> {
        let word = |word: &str| {
            Trouble::parse(word).ok_or_else(|| TroubleError::Unknown { word: word.to_owned() })
        };
        Self::new(text.split('+').map(word).collect::<Result<BTreeSet<_>, _>>()?)
    }

    /// Parses the keywords after the `#` of a description's last word. `None` if the last word has
    /// no `#`: the payment then waits for its payer. Errors: `TroubleError`.
    pub(crate) fn parse_description(description: &str) -> Result<Option<Self>, TroubleError> {
        let last = description.split_whitespace().next_back();
        last.and_then(|word| word.strip_prefix('#')).map(Self::parse).transpose()
    }

    /// The keywords, in the order of `Trouble::ALL`.
    pub fn keywords(&self) -> impl Iterator<Item = Trouble> + '_ {
        self.0.iter().copied()
    }

    /// Whether the set has this keyword.
    pub fn has(&self, trouble: Trouble) -> bool {
        self.0.contains(&trouble)
    }

    /// The outcome of the payment; `Pay` if no keyword names one.
    pub(crate) fn outcome(&self) -> Trouble {
        self.keywords().find(|word| word.kind() == TroubleKind::Outcome).unwrap_or(Trouble::Pay)
    }

    /// The fault of the create response; `None` if it has none.
    pub fn answer(&self) -> Option<Trouble> {
        self.keywords().find(|word| word.is_create_response())
    }

    /// The defect of the page; `None` if it has none.
    pub(crate) fn page(&self) -> Option<Trouble> {
        self.keywords().find(|word| word.kind() == TroubleKind::Page)
    }

    /// The defect of the browser return; `None` if it has none.
    pub(crate) fn return_trouble(&self) -> Option<Trouble> {
        self.keywords().find(|word| word.kind() == TroubleKind::Return)
    }

    /// Whether the amount must be at least two minor units, for a partial refund.
    pub(crate) fn needs_two_units(&self) -> bool {
        self.has(Trouble::RefundPart) || self.has(Trouble::RefundParts)
    }
}

impl fmt::Display for Troubles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keywords: Vec<_> = self.keywords().map(Trouble::name).collect();
        f.pad(&keywords.join("+"))
    }
}

/// Whether the trouble prevents a correct retry after a defective attempt.
fn prevents_correct_retry(trouble: Trouble) -> bool {
    use Trouble::{GiveUpRefused, GiveUpSilent, SameBytes};
    matches!(trouble, SameBytes | GiveUpRefused | GiveUpSilent)
}

/// Why two keywords can't be combined; `None` if they can. `one` is before `other` in
/// `Trouble::ALL`.
fn find_conflict(one: Trouble, other: Trouble) -> Option<&'static str> {
    use Trouble::{BeforeCreate, Disorder, Late, Never, PaidLate};
    let kinds = (one.kind(), other.kind());
    if kinds == (TroubleKind::Outcome, TroubleKind::Outcome) {
        Some("a payment has one outcome")
    } else if one.is_create_response() && other.is_create_response() {
        Some("a create call has one response")
    } else if kinds.0 == TroubleKind::Failing || kinds.1 == TroubleKind::Failing {
        Some("nothing follows a failed create call")
    } else if kinds == (TroubleKind::Page, TroubleKind::Page) {
        Some("a page has one defect")
    } else if kinds == (TroubleKind::Return, TroubleKind::Return) {
        Some("a browser return has one defect")
    } else if one.is_always_refused() && kinds.1 == TroubleKind::Delivery {
        Some("a notice that is always refused has no other delivery trouble")
    } else if matches!(one, Trouble::Stale | Trouble::WrongKey) && prevents_correct_retry(other) {
        Some("no correct attempt would follow the defective one")
    } else if one == Never && kinds.1 == TroubleKind::Delivery {
        Some("no notice is sent")
    } else if matches!(one, Late | PaidLate) && other == BeforeCreate {
        Some("a notice after the session can't come before it")
    } else if matches!(one, Late | PaidLate) && kinds.1 == TroubleKind::Unknown {
        Some("the caller knows no session that the notice is late for")
    } else if other == Disorder && one.has_at_most_one_notice() {
        Some("a single notice has no order to change")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A description => the keywords, `-` for none, or a part of the error.
    const DESCRIPTIONS: &str = "
        Two tickets                         => -
        Two tickets #pay                    => pay
        #fail                               => fail
        Two tickets #disorder+duplicates    => duplicates+disorder
        Two tickets #duplicates+duplicates  => duplicates
        #pay for two tickets                => -
        C# and F#                           => -
        Order #5                            => keyword #5; it knows pay, fail, cancel
        Two tickets #Pay                    => keyword #Pay
        Two tickets #pay+                   => keyword #;
        x #pay+fail                         => #pay and #fail can't be combined: a payment has one outcome
        x #create-500+create-cut            => one response
        x #duplicates+create-both           => nothing follows a failed
        x #wrong-amount+create-refused      => nothing follows a failed
        x #never+stale                      => no notice is sent
        x #never+create-500                 => never+create-500
        x #late+before-create               => can't come before it
        x #paid-late+create-slow            => the caller knows no session
        x #late+duplicates+stale            => late+duplicates+stale
        x #fail+disorder                    => a single notice has no order
        x #pay+disorder                     => pay+disorder
        x #second-ref+disorder+wrong-key    => second-ref+disorder+wrong-key
        x #refund-part+create-huge+stale    => refund-part+stale+create-huge
        x #cookie-wall+page-error           => a page has one defect
        x #no-return+return-amount          => a browser return has one defect
        x #no-paid-at+duplicates            => always refused
        x #amount-text+stale                => always refused
        x #stale+same-bytes                 => no correct attempt
        x #wrong-key+give-up-refused        => no correct attempt
        x #cancel+no-return-cancel+cookie-wall => cancel+cookie-wall+no-return-cancel
        x #no-return+create-both            => nothing follows a failed
    ";

    #[test]
    fn the_end_of_a_description_requests_troubles() {
        for case in DESCRIPTIONS.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (description, expected) = case.split_once("=>").unwrap();
            let expected = expected.trim();
            match Troubles::parse_description(description) {
                Ok(found) => {
                    let found =
                        found.map_or_else(|| "-".to_owned(), |troubles| troubles.to_string());
                    assert_eq!(found, expected, "{case}");
                }
                Err(error) => assert!(error.to_string().contains(expected), "{case}: {error}"),
            }
        }
    }

    #[test]
    fn an_unknown_keyword_gets_the_list_of_known_ones() {
        let error = Troubles::parse("chaos").unwrap_err().to_string();
        for trouble in Trouble::ALL {
            assert!(error.contains(trouble.name()), "{trouble}");
        }
    }
}
