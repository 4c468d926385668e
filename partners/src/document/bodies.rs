//! Owns the body keys in the vault: one for each month, created before the month begins, and
//! destroyed to erase the bytes of that month. Invariant: the id of a destroyed key stays in the
//! vault, and no other key gets it.

use payfold_schemas::ids::{Author, KeyId};
use payfold_schemas::month::Month;
use payfold_schemas::time::Time;

use super::{AccountEntry, KeyEntry};
use crate::document::erased::{ErasedKey, ErasureAgreement, ErasureProposal};
use crate::keys::Channel;
use crate::secret::Secret;

impl AccountEntry {
    /// Adds a proposal to destroy the body keys of a month.
    pub fn propose_erasure(&mut self, proposal: ErasureProposal) {
        self.erasure_proposals.push(proposal);
    }

    /// Removes a person's proposals about a month. Returns whether there were any.
    pub fn withdraw_erasure(&mut self, month: Month, author: &Author) -> bool {
        let before = self.erasure_proposals.len();
        self.erasure_proposals.retain(|it| it.month != month || it.author != *author);
        self.erasure_proposals.len() < before
    }

    /// Destroys the body keys of the proposal's month, as another person agrees to, and removes
    /// every proposal about it. No key of another channel is ever removed.
    pub fn erase_bodies(&mut self, proposal: &ErasureProposal, agreement: &ErasureAgreement) {
        let month = proposal.month;
        let is_of_month =
            |key: &KeyEntry| key.channel == Channel::Body && Month::of(key.valid_from) == month;
        for key in self.keys.extract_if(.., |key| is_of_month(key)) {
            self.erased.push(ErasedKey {
                key_id: key.id,
                valid_from: key.valid_from,
                at: agreement.at,
                author: proposal.author.clone(),
                seconded_by: Some(agreement.author.clone()),
                reason: proposal.reason.clone(),
                second_reason: Some(agreement.reason.clone()),
            });
        }
        self.erasure_proposals.retain(|it| it.month != month);
    }

    /// Whether notices are sealed at `now`: a body key is valid.
    pub fn is_sealed(&self, now: Time) -> bool {
        self.keys.iter().any(|key| key.channel == Channel::Body && key.is_valid_at(now))
    }

    /// Of this many months, from that of `now` on, those in which no body key begins. A key that
    /// has ended seals nothing.
    pub fn months_without_key(&self, now: Time, months: u32) -> Vec<Month> {
        let begins = |month: Month| {
            let seals = |key: &&KeyEntry| key.channel == Channel::Body && key.is_valid_after(now);
            let times = self.keys.iter().filter(seals).map(|key| key.valid_from);
            times
                .chain(self.erased.iter().map(|one| one.valid_from))
                .any(|at| Month::of(at) == month)
        };
        let all = std::iter::successors(Some(Month::of(now)), |month| Some(month.next()));
        let count = usize::try_from(months).unwrap_or(usize::MAX);
        all.take(count).filter(|month| !begins(*month)).collect()
    }

    /// Adds a secret as the body key of a month. The key is valid from the beginning of the month,
    /// or from `now` if the month has begun. Its id is that of the month, with a number behind it
    /// if the account has or had a key with that id.
    pub fn add_body_key(&mut self, month: Month, (now, secret): (Time, Secret)) -> KeyId {
        let is_known = |id: &KeyId| {
            let known = self.keys.iter().map(|key| &key.id);
            known.chain(self.erased.iter().map(|one| &one.key_id)).any(|known| known == id)
        };
        let first = format!("body-{month}");
        let ids = std::iter::once(first.clone()).chain((2..).map(|n: u64| format!("{first}-{n}")));
        let mut ids = ids.map(|id| KeyId::parse(&id).expect("a month makes an id"));
        let id = ids.find(|id| !is_known(id)).expect("numbers don't end");
        self.keys.push(KeyEntry {
            id: id.clone(),
            channel: Channel::Body,
            secret,
            valid_from: month.start().max(now),
            valid_until: None,
            serial: None,
            created_at: now,
        });
        id
    }

    /// The body keys that began in a month.
    pub fn body_keys_of(&self, month: Month) -> impl Iterator<Item = &KeyEntry> {
        self.keys
            .iter()
            .filter(move |key| key.channel == Channel::Body && Month::of(key.valid_from) == month)
    }
}

#[cfg(test)]
mod tests {
    use payfold_schemas::ids::{MerchantCode, PartnerCode};

    use super::*;
    use crate::sealing::BodyKeys;

    fn account() -> AccountEntry {
        let merchant = MerchantCode::parse("SHOP").unwrap();
        AccountEntry::new(PartnerCode::parse("acme").unwrap(), merchant)
    }

    fn at(text: &str) -> Time {
        Time::parse(text).unwrap()
    }

    fn made(account: &mut AccountEntry, now: Time) -> Vec<String> {
        let months = account.months_without_key(now, 2);
        let made = |month: &Month| {
            let secret = Secret::from_bytes(format!("the secret of {month}, long enough").into());
            account.add_body_key(*month, (now, secret)).to_string()
        };
        months.iter().map(made).collect()
    }

    #[test]
    fn a_key_is_created_a_month_ahead_and_once() {
        let mut account = account();
        let now = at("2026-11-22T10:00:00Z");
        assert!(!account.is_sealed(now));
        assert_eq!(made(&mut account, now), ["body-2026-11", "body-2026-12"]);
        assert_eq!(made(&mut account, now), [""; 0]);
        assert!(account.is_sealed(now) && !account.is_sealed(now.plus_ms(-1)));
        let sealing = |time: &str| {
            let keys = BodyKeys::of(&account);
            keys.sealing(at(time)).map(|key| key.id().to_string())
        };
        assert_eq!(sealing("2026-11-30T23:59:59Z").as_deref(), Some("body-2026-11"));
        assert_eq!(sealing("2026-12-01T00:00:00Z").as_deref(), Some("body-2026-12"));
        assert_eq!(sealing("2027-03-01T00:00:00Z").as_deref(), Some("body-2026-12"));
        assert_eq!(
            made(&mut account, at("2027-01-05T00:00:00Z")),
            ["body-2027-01", "body-2027-02"]
        );
    }

    #[test]
    fn an_erased_key_leaves_its_id_and_is_never_recreated() {
        let mut account = account();
        let now = at("2026-11-22T10:00:00Z");
        made(&mut account, now);
        let month = Month::of(now);
        let id = account.body_keys_of(month).next().unwrap().id.clone();
        let [linh, mai] = ["linh", "mai"].map(|name| Author::parse(name).unwrap());
        let proposal = |author: &Author| ErasureProposal {
            month,
            at: at("2026-12-24T00:00:00Z"),
            author: author.clone(),
            reason: "asked".to_owned(),
        };
        account.propose_erasure(proposal(&linh));
        account.propose_erasure(ErasureProposal { month: month.next(), ..proposal(&mai) });
        assert_eq!(account.body_keys_of(month).count(), 1, "a proposal changes nothing");
        let agreement = ErasureAgreement {
            author: mai.clone(),
            at: at("2026-12-25T00:00:00Z"),
            reason: "so did I".to_owned(),
        };
        account.erase_bodies(&proposal(&linh), &agreement);
        assert_eq!(account.body_keys_of(month).count(), 0);
        assert_eq!(account.body_keys_of(month.next()).count(), 1, "another month's stay");
        let [gone] = &account.erased[..] else { panic!("{:?}", account.erased) };
        let people = (&gone.author, gone.seconded_by.as_ref());
        assert_eq!((&gone.key_id, people), (&id, (&linh, Some(&mai))));
        assert_eq!(gone.second_reason.as_deref(), Some("so did I"));
        assert_eq!(account.erasure_proposals.len(), 1, "that about another month");
        let next = month.next();
        for (of, author, is_withdrawn) in
            [(next, &linh, false), (month, &mai, false), (next, &mai, true)]
        {
            assert_eq!(account.withdraw_erasure(of, author), is_withdrawn, "{of} {author}");
        }
        assert_eq!(account.months_without_key(now, 1), []);
        let other = account.add_body_key(month, (now, Secret::from_bytes(vec![1; 32])));
        assert_eq!(other.as_str(), "body-2026-11-2", "an id is used for one key only");
    }

    #[test]
    fn sealing_that_was_stopped_starts_with_new_keys() {
        let mut account = account();
        let (start, stop) = (at("2026-11-02T10:00:00Z"), at("2026-11-05T10:00:00Z"));
        for id in made(&mut account, start) {
            account.retire_key(&KeyId::parse(&id).unwrap(), stop).unwrap();
        }
        let again = at("2026-11-22T10:00:00Z");
        assert!(!account.is_sealed(again));
        assert_eq!(made(&mut account, again), ["body-2026-11-2", "body-2026-12-2"]);
        assert!(account.is_sealed(again));
        let keys = BodyKeys::of(&account);
        let sealing = |time: &str| keys.sealing(at(time)).map(|key| key.id().to_string());
        assert_eq!(sealing("2026-11-10T00:00:00Z"), None);
        assert_eq!(sealing("2026-12-01T00:00:00Z").as_deref(), Some("body-2026-12-2"));
        assert_eq!(made(&mut account, again), [""; 0]);
    }
}
