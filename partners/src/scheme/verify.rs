//! Owns the verdict on a notice of a partner's own scheme: a `VerifiedNotice`, which only `Directory::verify_scheme` can
//! construct, or a `Rejection`. Each item of an array is judged by itself. Which sign block and which key matched is
//! kept. Unknown partner, account, key and forgery are one answer, an unknown account and a forgery after the same
//! number of signature checks. Items that one signature covers cost the checks of one notice for each merchant they name.

use std::collections::HashMap;
use std::sync::Arc;

use payfold_schemas::ids::KeyId;
use payfold_schemas::time::Time;

use super::ack::{Ack, Answer};
use super::candidates::{candidates, named};
use super::crypt::Algorithm;
use super::map::{Fault, FaultKind, Said, Unsigned, fault, said};
use super::reading::{Context, Of, Reading};
use super::request::Request;
use super::signed_text::SignedTextDigest;
use super::unique::ambiguous;
use super::work::{Tried, find_signed_text};
use super::{Forged, Scheme};
use crate::directory::{Account, Directory, Route};
use crate::profile::Profile;
use crate::verify::{RejectCode, Rejection};

/// Who signed a notice, and how.
#[derive(Clone, Debug)]
struct Signer {
    account: Arc<Account>,
    key_id: KeyId,
    sign: usize,
    signed_text: SignedTextDigest,
}

/// A notice, or one item of an array, that a key of a known account has signed.
#[derive(Debug)]
pub struct VerifiedNotice {
    account: Arc<Account>,
    key_id: KeyId,
    sign: String,
    is_unsigned: bool,
    signed_text: SignedTextDigest,
    covers_all: bool,
    item: Option<u32>,
    said: Result<Said, Fault>,
    answers: Vec<(Ack, Answer)>,
}

impl VerifiedNotice {
    /// Whose it is.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// How this partner does it.
    pub fn profile(&self) -> &Arc<Profile> {
        self.account.profile()
    }

    /// The key that signed it.
    pub fn key_id(&self) -> &KeyId {
        &self.key_id
    }

    /// The name of the sign block that matched.
    pub fn sign(&self) -> &str {
        &self.sign
    }

    /// Whether its scheme signs nothing at all.
    pub fn is_unsigned(&self) -> bool {
        self.is_unsigned
    }

    /// The SHA-256 of the text that was signed; of no text where nothing was. Not to be shown: the text may hold the
    /// key's secret.
    pub fn signed_text_digest(&self) -> &[u8; 32] {
        self.signed_text.as_bytes()
    }

    /// Whether the signature covers all that decides money. If not, a query has to confirm it.
    pub fn covers_all(&self) -> bool {
        self.covers_all
    }

    /// Its place in the array it came in, from 0.
    pub fn item(&self) -> Option<u32> {
        self.item
    }

    /// What it says. Errors: why it can't be taken.
    pub fn said(&self) -> Result<&Said, &Fault> {
        self.said.as_ref()
    }

    /// The partner's own answer for an outcome; `None` where the contract's holds.
    pub fn answer(&self, ack: Ack) -> Option<&Answer> {
        self.answers.iter().find(|(other, _)| *other == ack).map(|(_, answer)| answer)
    }
}

impl Scheme {
    /// Whether a notice may come without any signature.
    pub fn takes_unsigned(&self) -> bool {
        self.signs.iter().any(|sign| sign.algorithm == Algorithm::None)
    }
}

impl Directory {
    /// The partner's own scheme of a route, if it has one.
    pub fn scheme(&self, partner: &str) -> Option<&Scheme> {
        self.profile(partner)?.scheme()
    }

    /// Who signed this request of a partner with a scheme of its own: one verified notice, or one for each item of
    /// its array. Errors: a `Rejection` that says nothing of who is known.
    pub fn verify_scheme(
        &self,
        partner: &str,
        request: &Request<'_>,
        now: Time,
    ) -> Result<Vec<VerifiedNotice>, Rejection> {
        let unauthenticated = || Rejection::new(RejectCode::Unauthenticated);
        let profile = self.profile(partner).ok_or_else(unauthenticated)?;
        let scheme = profile.scheme().ok_or_else(unauthenticated)?;
        let mut judging = Judging::new(self.route_of(partner), (profile, scheme), request, now)?;
        let items = judging.items()?;
        if items > profile.limits().keys {
            return Err(Rejection::new(RejectCode::TooComplex)
                .with_detail("the array has more notices than limits.keys"));
        }
        let mut verified = Vec::new();
        for item in 0..items {
            let place = scheme.items.as_ref().map(|_| item);
            match judging.judge(place) {
                Some(notice) => verified.push(notice),
                None if is_refused_whole(scheme) => return Err(unauthenticated()),
                None => {}
            }
        }
        if verified.is_empty() { Err(unauthenticated()) } else { Ok(verified) }
    }

    /// Who signed one notice of a request that was taken before: the item at this place of its array, whatever becomes
    /// of the others. Errors: as `verify_scheme`.
    pub fn verify_scheme_item(
        &self,
        partner: &str,
        request: &Request<'_>,
        item: Option<u32>,
        now: Time,
    ) -> Result<VerifiedNotice, Rejection> {
        let unauthenticated = || Rejection::new(RejectCode::Unauthenticated);
        let profile = self.profile(partner).ok_or_else(unauthenticated)?;
        let scheme = profile.scheme().ok_or_else(unauthenticated)?;
        let mut judging = Judging::new(self.route_of(partner), (profile, scheme), request, now)?;
        let items = judging.items()?;
        let place = item.and_then(|item| usize::try_from(item).ok());
        let is_there = match (&scheme.items, place) {
            (Some(_), Some(place)) => place < items,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let verified = is_there.then(|| judging.judge(place)).flatten();
        verified.ok_or_else(unauthenticated)
    }
}

/// One request and the accounts it may be from, each with the request as it reads it.
struct Judging<'r> {
    route: &'r Route,
    scheme: &'r Scheme,
    now: Time,
    /// As it is read without any account.
    plain: Reading<'r>,
    opened: Vec<(&'r Arc<Account>, Option<Reading<'r>>)>,
    /// Where one signature covers every item: the signer of the items that name a merchant, by that name.
    covering: Option<HashMap<Option<String>, Option<FoundSigner>>>,
}

/// A signer, with the place of its account's reading in `Judging::opened`.
#[derive(Clone, Debug)]
struct FoundSigner {
    signer: Signer,
    place: usize,
}

impl<'r> Judging<'r> {
    /// Reads a request. Errors: what can't be parsed, whoever the account is.
    fn new(
        route: &'r Route,
        (profile, scheme): (&Profile, &'r Scheme),
        request: &'r Request<'r>,
        now: Time,
    ) -> Result<Self, Rejection> {
        let mut plain = Reading::new(scheme, request, profile.limits())?;
        if scheme.items.as_ref().is_none_or(|rule| rule.of.0 <= super::ITEM) {
            // Nobody known has to be named for a request to be told that it can't be parsed.
            plain.items()?;
        }
        plain.unwrap_open().map_err(|_| Rejection::new(RejectCode::Unauthenticated))?;
        let covering = scheme.signs_items_alike().then(HashMap::new);
        Ok(Self { route, scheme, now, plain, opened: Vec::new(), covering })
    }

    /// How many notices it has. Errors: there is no such array, or no account can open it.
    fn items(&mut self) -> Result<usize, Rejection> {
        if self.scheme.items.is_none() || self.plain.items().is_ok() {
            return self.plain.items();
        }
        // The array may stand in a document that only an account's key opens.
        let found = self.route.unnamed().iter().find_map(|account| {
            let place = self.open(account);
            self.opened[place].1.as_ref().map(Reading::items)
        });
        found.unwrap_or_else(|| {
            self.refuse(&[], None, &Tried::none(self.scheme));
            Err(Rejection::new(RejectCode::Unauthenticated))
        })
    }

    /// The place in `opened` of the request as this account reads it; `None` stands there if it can't be opened.
    fn open(&mut self, account: &'r Arc<Account>) -> usize {
        let known = self.opened.iter().position(|(other, _)| Arc::ptr_eq(other, account));
        known.unwrap_or_else(|| {
            let mut reading = self.plain.clone();
            // What is wrapped may need the account's keys; what can't be opened is not for this account.
            let is_open = reading.unwrap(&account.of()).is_ok();
            self.opened.push((account, is_open.then_some(reading)));
            self.opened.len() - 1
        })
    }

    /// One notice, by the account whose partner has signed it. `None` costs the same whether that account exists or not.
    fn judge(&mut self, item: Option<usize>) -> Option<VerifiedNotice> {
        if let Some(item) = item {
            self.plain.go_to(item);
        }
        let merchant = self.covering.is_some().then(|| named(&self.plain));
        let known = self.covering.as_ref().zip(merchant.as_ref()).and_then(|(all, m)| all.get(m));
        let found = match known {
            Some(found) => found.clone(),
            None => self.find_signer(item),
        };
        if let Some((covering, merchant)) = self.covering.as_mut().zip(merchant) {
            covering.insert(merchant, found.clone());
        }
        let FoundSigner { signer, place } = found?;
        let reading = self.opened[place].1.as_mut()?;
        if let Some(item) = item {
            reading.go_to(item);
        }
        let account = Arc::clone(&signer.account);
        Some(verdict(signer, reading, &account.of(), item))
    }

    /// Who has signed the item that `plain` reads. `None` once the checks of a refusal are made.
    fn find_signer(&mut self, item: Option<usize>) -> Option<FoundSigner> {
        let mut tried = Tried::none(self.scheme);
        let accounts = candidates(self.route, &self.plain);
        for account in accounts {
            let place = self.open(account);
            let Some(reading) = self.opened[place].1.as_mut() else { continue };
            if let Some(item) = item {
                reading.go_to(item);
            }
            let of = account.of();
            let bare = Context::bare(reading, &of);
            if let Some(signer) = signer(account, bare, self.now, &mut tried) {
                return Some(FoundSigner { signer, place });
            }
        }
        self.refuse(accounts, item, &tried);
        None
    }

    /// Makes the checks a refusal costs and that were not made. A request for an account that does not exist is read as
    /// the partner's first one reads it.
    fn refuse(&mut self, accounts: &'r [Arc<Account>], item: Option<usize>, tried: &Tried) {
        let stand_in = accounts.first().or(self.route.unnamed().first());
        let Some(stand_in) = stand_in else { return };
        let place = self.open(stand_in);
        let reading = self.opened[place].1.as_mut().unwrap_or(&mut self.plain);
        if let Some(item) = item {
            reading.go_to(item);
        }
        self.route.work().spend(tried, Context::bare(reading, &stand_in.of()));
    }
}

/// Whether one item that nobody signed leaves nothing of the others.
fn is_refused_whole(scheme: &Scheme) -> bool {
    scheme.items.as_ref().is_none_or(|rule| rule.forged == Forged::RefuseAll)
}

/// Whether this account's partner signed the notice for this account, and with which key.
fn signer(
    account: &Arc<Account>,
    bare: Context<'_>,
    now: Time,
    tried: &mut Tried,
) -> Option<Signer> {
    let scheme = bare.reading.scheme();
    if !is_for(bare) {
        return None;
    }
    let wanted = scheme.key.id.as_ref().map(|id| bare.string(id).ok());
    let keys = &account.scheme_keys().keys;
    for (place, sign) in scheme.signs.iter().enumerate() {
        if sign.algorithm == Algorithm::None {
            let key_id = KeyId::parse("unsigned").expect("a key id");
            let (account, signed_text) = (Arc::clone(account), SignedTextDigest::of(&[]));
            return Some(Signer { account, key_id, sign: place, signed_text });
        }
        for key in keys.iter().filter(|key| key.is_valid_at(now)) {
            let is_wanted = wanted.as_ref().is_none_or(|id| id.as_deref() == Some(key.name()));
            let Some(ready) = key.ready[place].as_ref().filter(|_| is_wanted) else { continue };
            tried.add(place);
            if let Some(signed_text) = find_signed_text(sign, ready, bare) {
                let (account, key_id) = (Arc::clone(account), key.id.clone());
                return Some(Signer { account, key_id, sign: place, signed_text });
            }
        }
    }
    None
}

/// Whether a notice says that it is for the account that reads it, as far as the scheme asks.
fn is_for(bare: Context<'_>) -> bool {
    let scheme = bare.reading.scheme();
    let same = |value, equals| {
        let value = bare.text(value).ok()?;
        (value == bare.text(equals).ok()?).then_some(())
    };
    let named = scheme.map.merchant.as_ref().is_none_or(|merchant| {
        bare.string(merchant).is_ok_and(|merchant| merchant == bare.of.merchant)
    });
    named && scheme.require.iter().all(|rule| same(&rule.value, &rule.equals).is_some())
}

fn verdict(
    signer: Signer,
    reading: &Reading<'_>,
    of: &Of<'_>,
    item: Option<usize>,
) -> VerifiedNotice {
    let scheme = reading.scheme();
    let context = Context::bare(reading, of);
    let sign = &scheme.signs[signer.sign];
    let is_unsigned = if sign.algorithm.signs_the_text() { Unsigned::No } else { Unsigned::Yes };
    let readings = signer.account.scheme_keys().readings[signer.sign].as_ref();
    // What a query confirms is not believed for its signature.
    let is_believed = is_unsigned == Unsigned::No && scheme.needs_one_reading;
    let said = match ambiguous(sign, readings, context).filter(|_| is_believed) {
        Some(why) => fault(FaultKind::Ambiguous, why),
        None => said(signer.account.profile(), context, is_unsigned),
    };
    let answers = Ack::ALL
        .into_iter()
        .filter_map(|ack| Some((ack, scheme.acks.answer(ack, context)?)))
        .collect();
    VerifiedNotice {
        sign: sign.name.clone(),
        is_unsigned: sign.algorithm == Algorithm::None,
        signed_text: signer.signed_text,
        covers_all: is_believed,
        item: item.and_then(|item| u32::try_from(item).ok()),
        key_id: signer.key_id,
        account: signer.account,
        said,
        answers,
    }
}
