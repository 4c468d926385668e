//! Owns the rules on the two people of a decision about money, or of a step that can't be undone.
//! Each decides with a token of their own that the system has known for a while: a token that was
//! just made would let one person be two.

use payfold_partners::token::LOCAL_OWNER;
use payfold_schemas::ids::Author;
use payfold_schemas::order::Severity;
use payfold_schemas::time::Time;

use super::ledger::Ledger;

const DAY_MS: i64 = 24 * 3_600 * 1_000;

/// Which people may decide.
#[derive(Clone, Copy, Debug)]
pub struct People {
    /// How long the system has to have known the tokens of both people, ms; 0 asks nothing.
    pub second_after_ms: i64,
    /// Whether the data folder's own token counts as a person's; in the demo only.
    pub takes_local: bool,
}

/// Why a person may not decide, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RefusedPerson(String);

impl Default for People {
    /// Tokens have to be known for a day.
    fn default() -> Self {
        Self { second_after_ms: DAY_MS, takes_local: false }
    }
}

impl People {
    /// Checks the author, and the second person if there is one, of a decision on something of this
    /// severity. Errors: a person may not decide it.
    pub(crate) fn check(
        &self,
        ledger: &Ledger,
        severity: Severity,
        (first, second): (&Author, Option<&Author>),
        now: Time,
    ) -> Result<(), RefusedPerson> {
        if severity != Severity::Critical {
            return Ok(());
        }
        let of_first = self.check_person(ledger, first, (second.is_some(), now));
        of_first.map_err(|RefusedPerson(why)| match second {
            Some(_) => RefusedPerson(format!(
                "{why}; or withdraw that first decision and decide anew, with two people"
            )),
            None => RefusedPerson(why),
        })?;
        second.map_or(Ok(()), |second| self.check_person(ledger, second, (true, now)))
    }

    /// Checks the person who proposes what takes two people. Errors: they may not.
    pub fn check_first(
        &self,
        ledger: &Ledger,
        first: &Author,
        now: Time,
    ) -> Result<(), RefusedPerson> {
        self.check_person(ledger, first, (false, now))
    }

    /// Checks the person who proposed it, and the one who agrees. Errors: one of them may not.
    pub fn check_both(
        &self,
        ledger: &Ledger,
        both: [&Author; 2],
        now: Time,
    ) -> Result<(), RefusedPerson> {
        both.into_iter().try_for_each(|person| self.check_person(ledger, person, (true, now)))
    }

    /// Checks one person, with the age of their tokens if two decide. Errors: why it is refused.
    fn check_person(
        &self,
        ledger: &Ledger,
        person: &Author,
        (of_two, now): (bool, Time),
    ) -> Result<(), RefusedPerson> {
        let refused = |why: String| Err(RefusedPerson(why));
        if person.as_str() == LOCAL_OWNER {
            return if self.takes_local {
                Ok(())
            } else {
                refused(format!(
                    "{person} is any user of this machine: a decision by two people takes tokens \
                     of people (payfold token add NAME --role ROLE, then --admin-token-file FILE)"
                ))
            };
        }
        if !of_two || self.second_after_ms == 0 {
            return Ok(());
        }
        let of_person = ledger.tokens().values().filter(|token| token.owner == *person);
        // The newest counts: which of them was used is not recorded.
        let Some(newest) = of_person.map(|token| token.at).max() else {
            return refused(format!(
                "{person} has no token that this system has recorded: it was retired, or added \
                 just now"
            ));
        };
        let from = newest.plus_ms(self.second_after_ms);
        if now < from {
            return refused(format!(
                "the token of {person} is new or has a new role, and a decision by two people \
                 takes tokens that are known for a while (reconciler.second_after_hours): decide \
                 from {from} on"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use payfold_schemas::digest::Digest;
    use payfold_schemas::token::{TokenChange, TokenRecorded, TokenRole};

    use super::*;

    fn at(day: i64) -> Time {
        Time::from_unix_ms(day * DAY_MS)
    }

    fn made(owner: &Author, day: i64) -> TokenRecorded {
        TokenRecorded {
            owner: owner.clone(),
            token: Digest::of_bytes(owner.as_str().as_bytes()),
            role: TokenRole::Finance,
            change: TokenChange::Added,
            at: at(day),
        }
    }

    #[test]
    fn two_people_are_two_tokens_that_are_known_for_a_while() {
        let people = |takes_local| People { takes_local, ..People::default() };
        let mut ledger = Ledger::in_memory().unwrap();
        let names = ["ann", "bob", "carl", LOCAL_OWNER].map(|name| Author::parse(name).unwrap());
        let [ann, bob, carl, local] = &names;
        ledger.add_token(made(ann, 1));
        ledger.add_token(made(bob, 3));
        for (takes_local, severity, first, second, day, problem) in [
            (false, Severity::Critical, ann, None, 1, ""),
            (false, Severity::Critical, ann, Some(bob), 3, "the token of bob is new"),
            (false, Severity::Critical, carl, Some(ann), 4, "carl has no token"),
            (false, Severity::Critical, local, Some(ann), 4, "withdraw that first decision"),
            (false, Severity::Critical, bob, Some(ann), 3, "the token of bob is new"),
            (false, Severity::Critical, ann, Some(bob), 4, ""),
            (false, Severity::High, local, None, 4, ""),
            (false, Severity::Critical, local, None, 4, "local is any user of this machine"),
            (false, Severity::Critical, ann, Some(local), 4, "local is any user of this machine"),
            (true, Severity::Critical, local, Some(ann), 4, ""),
        ] {
            let checked = people(takes_local).check(&ledger, severity, (first, second), at(day));
            match checked {
                Ok(()) => assert_eq!(problem, "", "{first} {second:?}"),
                Err(RefusedPerson(text)) => {
                    assert!(!problem.is_empty() && text.contains(problem), "{text}");
                }
            }
        }
    }
}
