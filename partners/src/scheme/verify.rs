//! Owns the verdict on a notice of a partner's own scheme: a `VerifiedNotice`, which only `Directory::verify_scheme` can
//! construct, or a `Rejection`. Each item of an array is judged by itself. Which sign block and which key matched is
//! kept. Unknown partner, account, key and forgery are one answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use payfold_schemas::ids::KeyId;
use payfold_schemas::time::Time;

use super::ack::{Ack, Answer};
use super::call::CallKey;
use super::crypt::{Algorithm, Ready, Strength, Unfit, certificate_ends_s, decode_secret};
use super::map::{Fault, FaultKind, Said, Unsigned, fault, said};
use super::reading::{Context, Of, Reading};
use super::request::Request;
use super::unique::{Readings, ambiguous};
use super::{Confirm, Forged, Scheme, SignRule};
use crate::directory::{Account, Directory, UNNAMED_TRIED_MAX};
use crate::document::{AccountEntry, KeyEntry};
use crate::keys::Channel;
use crate::profile::Profile;
use crate::secret::Secret;
use crate::verify::{RejectCode, Rejection};

/// One key of an account, ready for the sign blocks it fits.
#[derive(Clone, Debug)]
pub(crate) struct SchemeKey {
    pub(crate) id: KeyId,
    /// What the partner calls it, where that is not its id.
    pub(crate) serial: Option<String>,
    pub(crate) valid_from: Time,
    pub(crate) valid_until: Option<Time>,
    /// By sign block; `None` where it can't be used.
    pub(crate) ready: Vec<Option<Ready>>,
}

impl SchemeKey {
    /// What the partner calls it.
    pub(crate) fn name(&self) -> &str {
        self.serial.as_deref().unwrap_or(self.id.as_str())
    }
}

/// What an account has for its partner's own scheme.
#[derive(Clone, Debug, Default)]
pub struct SchemeKeys {
    pub(crate) keys: Vec<SchemeKey>,
    pub(crate) opening: Vec<Secret>,
    pub(crate) constants: BTreeMap<String, String>,
    /// By sign block: how its text could be read in more than one way.
    pub(crate) readings: Vec<Option<Readings>>,
    /// What our own calls are signed with: the keys of creates, and the shared ones of notices.
    pub(crate) asking: Vec<AskingKey>,
}

/// A key of our own calls.
#[derive(Clone, Debug)]
pub(crate) struct AskingKey {
    channel: Channel,
    valid_from: Time,
    valid_until: Option<Time>,
    secret: Secret,
}

impl SchemeKeys {
    /// Makes an account's keys ready. Errors: a key or a constant that can't be used, with how to mend it.
    pub(crate) fn new(
        scheme: &Scheme,
        entry: &AccountEntry,
        strength: Strength,
    ) -> Result<Self, String> {
        let is_short = scheme.exceptions.iter().any(|name| name == "short_key");
        let strength =
            if is_short && strength == Strength::Full { Strength::Short } else { strength };
        let mut keys = Vec::new();
        for key in entry.keys.iter().filter(|key| key.channel == Channel::Ipn) {
            keys.push(ready(scheme, key, strength)?);
        }
        let of_unwrap = entry.keys.iter().filter(|key| key.channel == Channel::Unwrap);
        let opening = of_unwrap.map(|key| key.secret.clone()).collect();
        let mut constants = BTreeMap::new();
        for (name, value) in &scheme.constants {
            let Some(value) = entry.constants.get(name).or(value.as_ref()) else {
                return Err(format!(
                    "its partner's profile needs the constant {name}; with the first key `payfold key add … --constant \
                     {name}=…` gives it, later `payfold account set {} {} --constant {name}=…`",
                    entry.partner, entry.merchant_code
                ));
            };
            constants.insert(name.clone(), value.clone());
        }
        let merchant = entry.merchant_code.as_str();
        let of = Of { merchant, constants: &constants, opening: &[], values: &[] };
        let readings = scheme.signs.iter().map(|sign| {
            Readings::of(scheme, sign, &of)
                .map_err(|error| format!("[[sign]] {}: {error}", sign.name))
        });
        let readings = readings.collect::<Result<_, _>>()?;
        let asking = asking(entry, &keys);
        Ok(Self { keys, opening, constants, readings, asking })
    }
}

fn asking(entry: &AccountEntry, notices: &[SchemeKey]) -> Vec<AskingKey> {
    let of_creates = entry.keys.iter().filter(|key| key.channel == Channel::Create).cloned();
    let own = of_creates.map(|key| {
        let KeyEntry { channel, valid_from, valid_until, secret, .. } = key;
        AskingKey { channel, valid_from, valid_until, secret }
    });
    // A public key checks notices and proves nothing of us.
    let shared = |key: &SchemeKey| {
        let secret = key.ready.iter().flatten().find_map(Ready::secret)?;
        let secret = Secret::from_bytes(secret.to_vec());
        let (valid_from, valid_until) = (key.valid_from, key.valid_until);
        Some(AskingKey { channel: Channel::Ipn, valid_from, valid_until, secret })
    };
    own.chain(notices.iter().filter_map(shared)).collect()
}

impl SchemeKeys {
    /// What our own calls are signed with at `now`: of the keys that count the one that began last.
    pub(crate) fn asking_secret(&self, which: CallKey, now: Time) -> Option<&[u8]> {
        let has_own = self.asking.iter().any(|key| key.channel == Channel::Create);
        let channel = match which {
            CallKey::Shared if !has_own => Channel::Ipn,
            CallKey::Shared | CallKey::Own => Channel::Create,
        };
        let valid = self.asking.iter().filter(|key| {
            key.channel == channel
                && key.valid_from <= now
                && key.valid_until.is_none_or(|until| now < until)
        });
        valid.max_by_key(|key| key.valid_from).map(|key| key.secret.expose())
    }
}

fn ready(scheme: &Scheme, key: &KeyEntry, strength: Strength) -> Result<SchemeKey, String> {
    let KeyEntry { id, serial, secret, valid_from, valid_until, .. } = key;
    let named = |unfit: Unfit| format!("key {id} {unfit}");
    let secret = decode_secret(secret, scheme.key.encoding, &scheme.key.prefix).map_err(named)?;
    let of = |sign: &SignRule| Ready::new(sign.algorithm, secret.clone(), strength);
    let tried: Vec<_> = scheme.signs.iter().map(of).collect();
    if !tried.iter().any(Result::is_ok) {
        let first = tried.into_iter().find_map(Result::err);
        return Err(first.map_or_else(|| format!("key {id} fits no [[sign]]"), named));
    }
    let ready = tried.into_iter().map(Result::ok).collect();
    // A certificate counts no longer than it says itself.
    let ends =
        certificate_ends_s(secret.expose()).map(|s| Time::from_unix_ms(s.saturating_mul(1_000)));
    let valid_until = (*valid_until).into_iter().chain(ends).min();
    Ok(SchemeKey {
        id: id.clone(),
        serial: serial.clone(),
        valid_from: *valid_from,
        valid_until,
        ready,
    })
}

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
        for key in keys.iter().filter(|key| is_valid(key, now)) {
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

fn is_valid(key: &SchemeKey, now: Time) -> bool {
    key.valid_from <= now && key.valid_until.is_none_or(|until| now < until)
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
        item: item.and_then(|item| u32::try_from(item).ok()),
        key_id: signer.key_id,
        account: signer.account,
        said,
        answers,
    }
}
