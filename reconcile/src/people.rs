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
        let check = |person: &Author| match second {
            // The newest token counts: which of them was used is not recorded.
            Some(_) => self.check_known(person, ledger.newest_token_of(person), now),
            None => self.check_named(person),
        };
        check(first).map_err(|error| match second {
            Some(_) => RefusedPerson(format!(
                "{error}; or withdraw that first decision and decide anew, with two people"
            )),
            None => error,
        })?;
        second.map_or(Ok(()), check)
    }

    /// Checks a person who begins what two people decide. Errors: it is the name of no person.
    pub fn check_named(&self, person: &Author) -> Result<(), RefusedPerson> {
        if person.as_str() == LOCAL_OWNER && !self.takes_local {
            return Err(RefusedPerson(format!(
                "{person} is any user of this machine: a decision by two people takes tokens of \
                 people (payfold token add NAME --role ROLE, then --admin-token-file FILE)"
            )));
        }
        Ok(())
    }

    /// Checks one of two people, with a token that the system knows since then. Errors: as
    /// `check_named`; it does not know the token, or not for long.
    pub fn check_known(
        &self,
        person: &Author,
        since: Option<Time>,
        now: Time,
    ) -> Result<(), RefusedPerson> {
        self.check_named(person)?;
        if self.second_after_ms == 0 || person.as_str() == LOCAL_OWNER {
            return Ok(());
        }
        let Some(since) = since else {
            return Err(RefusedPerson(format!(
                "{person} has no token that this system has recorded: it was retired, or added \
                 just now"
            )));
        };
        let from = since.plus_ms(self.second_after_ms);
        if now < from {
            return Err(RefusedPerson(format!(
                "the token of {person} is new or has a new role, and a decision by two people \
                 takes tokens that are known for a while (reconciler.second_after_hours): decide \
                 from {from} on"
            )));
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
