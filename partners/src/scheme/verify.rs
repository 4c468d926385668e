//! Owns the verdict on a notice of a partner's own scheme: a `VerifiedNotice`, which only `Directory::verify_scheme` can
//! construct, or a `Rejection`. Each item of an array is judged by itself. Which sign block and which key matched is
//! kept. Unknown partner, account, key and forgery are one answer.

use std::sync::Arc;

use payfold_schemas::ids::KeyId;
use payfold_schemas::time::Time;

use super::ack::{Ack, Answer};
use super::crypt::{Algorithm, Ready};
use super::map::{Fault, FaultKind, Said, Unsigned, fault, said};
use super::reading::{Context, Of, Reading};
use super::request::Request;
use super::unique::ambiguous;
use super::{Confirm, Forged, Scheme, SignRule};
use crate::directory::{Account, Directory, UNNAMED_TRIED_MAX};
use crate::profile::Profile;
use crate::verify::{RejectCode, Rejection};

/// Who signed a notice, and how.
#[derive(Clone, Debug)]
struct Signer {
    account: Arc<Account>,
    key_id: KeyId,
    sign: usize,
}

/// A notice, or one item of an array, that a key of a known account has signed.
#[derive(Debug)]
pub struct VerifiedNotice {
    account: Arc<Account>,
    key_id: KeyId,
    sign: String,
    is_unsigned: bool,
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
        let mut opened = opened(profile, scheme, request, self.of_partner(partner))?;
        let Some((_, first)) = opened.first() else { return Err(unauthenticated()) };
        let items = first.items()?;
        let mut verified = Vec::new();
        for item in 0..items {
            let place = scheme.items.as_ref().map(|_| item);
            match verify_item(&mut opened, place, now) {
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
        let mut opened = opened(profile, scheme, request, self.of_partner(partner))?;
        let Some((_, first)) = opened.first() else { return Err(unauthenticated()) };
        let items = first.items()?;
        let place = item.and_then(|item| usize::try_from(item).ok());
        let is_there = match (&scheme.items, place) {
            (Some(_), Some(place)) => place < items,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let verified = is_there.then(|| verify_item(&mut opened, place, now)).flatten();
        verified.ok_or_else(unauthenticated)
    }
}

/// The request as each account reads it that can open it. Errors: what can't be parsed by anybody.
fn opened<'r>(
    profile: &Profile,
    scheme: &'r Scheme,
    request: &'r Request<'r>,
    accounts: &'r [Arc<Account>],
) -> Result<Vec<(&'r Arc<Account>, Reading<'r>)>, Rejection> {
    let parsed = Reading::new(scheme, request, profile.limits())?;
    if scheme.items.as_ref().is_none_or(|rule| rule.of.0 <= super::ITEM) {
        // Who nobody is known to be is told what can't be parsed as everybody is.
        parsed.items()?;
    }
    let mut opened = Vec::new();
    for account in accounts.iter().take(UNNAMED_TRIED_MAX) {
        let mut reading = parsed.clone();
        // What is wrapped may hang on the account's keys; what can't be opened is not for this one.
        if reading.unwrap(&account.of()).is_ok() {
            opened.push((account, reading));
        }
    }
    Ok(opened)
}

/// Whether one item that nobody signed leaves nothing of the others.
fn is_refused_whole(scheme: &Scheme) -> bool {
    scheme.items.as_ref().is_none_or(|rule| rule.forged == Forged::RefuseAll)
}

/// One item by the first account whose partner has signed it.
fn verify_item(
    opened: &mut [(&Arc<Account>, Reading<'_>)],
    item: Option<usize>,
    now: Time,
) -> Option<VerifiedNotice> {
    opened.iter_mut().find_map(|(account, reading)| {
        if let Some(item) = item {
            reading.go_to(item);
        }
        let of = account.of();
        let signer = signer(account, reading, &of, now)?;
        Some(verdict(signer, reading, &of, item))
    })
}

/// Whether this account's partner signed the reading for this account, and with which key.
fn signer(account: &Arc<Account>, reading: &Reading<'_>, of: &Of<'_>, now: Time) -> Option<Signer> {
    let scheme = reading.scheme();
    let bare = Context::bare(reading, of);
    let is_for = |context: &Context<'_>| {
        let same = |value, equals| {
            let value = context.text(value).ok()?;
            (value == context.text(equals).ok()?).then_some(())
        };
        let named = scheme.map.merchant.as_ref().is_none_or(|merchant| {
            context.string(merchant).is_ok_and(|merchant| merchant == of.merchant)
        });
        named && scheme.require.iter().all(|rule| same(&rule.value, &rule.equals).is_some())
    };
    if !is_for(&bare) {
        return None;
    }
    let wanted = scheme.key.id.as_ref().map(|id| bare.string(id).ok());
    let keys = &account.scheme_keys().keys;
    for (place, sign) in scheme.signs.iter().enumerate() {
        if sign.algorithm == Algorithm::None {
            let key_id = KeyId::parse("unsigned").expect("a key id");
            return Some(Signer { account: Arc::clone(account), key_id, sign: place });
        }
        for key in keys.iter().filter(|key| key.is_valid_at(now)) {
            let is_wanted = wanted.as_ref().is_none_or(|id| id.as_deref() == Some(key.name()));
            let Some(ready) = key.ready[place].as_ref().filter(|_| is_wanted) else { continue };
            if signs(sign, ready, bare) {
                let key_id = key.id.clone();
                return Some(Signer { account: Arc::clone(account), key_id, sign: place });
            }
        }
    }
    None
}

/// Whether one of the signatures that were sent is this key's.
fn signs(sign: &SignRule, key: &Ready, bare: Context<'_>) -> bool {
    let context = Context { secret: key.secret(), ..bare };
    let Ok(text) = context.text(&sign.text) else { return false };
    let claimed = claimed(sign, context);
    let matching = claimed.iter().filter(|claimed| {
        let claimed = sign.output.read(claimed);
        claimed.is_some_and(|claimed| key.verifies(sign.algorithm, &text, &claimed))
    });
    matching.count() > 0
}

/// The signatures that were sent, their prefixes taken off. Those without it are none.
pub(crate) fn claimed(sign: &SignRule, context: Context<'_>) -> Vec<String> {
    let Some(token) = &sign.signature else { return Vec::new() };
    let values = context.every(token);
    let split = values.iter().flat_map(|value| match &sign.split {
        Some(separator) => value.split(separator.as_str()).map(str::trim).collect::<Vec<_>>(),
        None => vec![value.as_str()],
    });
    split.filter_map(|value| value.strip_prefix(sign.prefix.as_str())).map(str::to_owned).collect()
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
    let is_believed = is_unsigned == Unsigned::No && scheme.confirm != Confirm::Always;
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
        item: item.and_then(|item| u32::try_from(item).ok()),
        key_id: signer.key_id,
        account: signer.account,
        said,
        answers,
    }
}
