//! Owns verifying a notice of a custom scheme: it returns a `VerifiedNotice` or a `Rejection`. Each
//! item of an array is verified alone. The matching `[[sign]]` and key are recorded.
//! Invariants: an unknown partner, account or key and a forgery get the same answer, but for an
//! item beside a signed one where the profile refuses items alone (`count_unsigned`); an unknown
//! account and a forgery cost the same number of signature checks (see `refusal_work`). Items that
//! one signature covers cost the checks of one notice for each merchant they name.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use payfold_schemas::time::Time;

use super::ack::AckKind;
use super::ambiguity::find_ambiguity;
use super::candidates::{WithoutMerchant, candidate_accounts, named_merchant};
use super::crypt::SignAlgorithm;
use super::map::map_notice;
use super::message::{ParsedMessage, TemplateContext};
use super::refusal_work::TriedKeys;
use super::request::NoticeRequest;
use super::signer::{NoticeSigner, find_account_signer};
use super::template_values::TemplateInputs;
use crate::directory::Directory;
use crate::directory::account::Account;
use crate::directory::route::Route;
use crate::notice_content::{FaultKind, fault};
use crate::profile::Profile;
use crate::rejection::{RejectCode, Rejection};
use crate::scheme::compiled::Scheme;
use crate::scheme::rules::ForgedItemPolicy;
use crate::verified::{UnsignedItems, VerifiedNotice, VerifiedRequest};

/// The bytes that the items of one array may take in the log: each is stored with the whole body.
const ITEMS_BYTES_MAX: usize = 256 * 1024 * 1024;
/// The bytes that the signature checks of one request may hash before an item is verified. One
/// signature of a long text would otherwise be checked for each merchant that the items name.
const CHECKED_BYTES_MAX: usize = 16 * 1024 * 1024;

impl Scheme {
    /// Whether a notice without a signature may be accepted.
    pub fn takes_unsigned(&self) -> bool {
        self.signs.iter().any(|sign| sign.algorithm == SignAlgorithm::None)
    }
}

impl Directory {
    /// The scheme of a partner. `None` if there is no such partner.
    pub fn scheme(&self, partner: &str) -> Option<&Scheme> {
        self.profile(partner).map(|profile| profile.scheme())
    }

    /// Verifies a request to the path of a partner with a custom scheme: returns one notice, or one
    /// for each item of its array. Errors: a `Rejection` that does not reveal which accounts exist.
    pub(crate) fn verify_scheme(
        &self,
        partner: &str,
        request: &NoticeRequest<'_>,
        now: Time,
    ) -> Result<VerifiedRequest, Rejection> {
        self.verify_items(partner, request, now, WithoutMerchant::TryAccounts)
    }

    /// Verifies a request. `nameless` decides about a notice that names no merchant. Errors: as
    /// `verify_scheme`.
    pub(crate) fn verify_items(
        &self,
        partner: &str,
        request: &NoticeRequest<'_>,
        now: Time,
        nameless: WithoutMerchant,
    ) -> Result<VerifiedRequest, Rejection> {
        let unauthenticated = || Rejection::new(RejectCode::Unauthenticated);
        let profile = self.profile(partner).ok_or_else(unauthenticated)?;
        let scheme = profile.scheme();
        let mut verifier = SchemeVerifier::new(self.route_of(partner), profile, request, now)?;
        verifier.nameless = nameless;
        let items = verifier.count_items()?;
        let too_complex =
            |why: &'static str| Rejection::new(RejectCode::TooComplex).with_detail(why);
        if items > profile.limits().keys {
            return Err(too_complex("the array has more notices than limits.keys"));
        }
        if items.saturating_mul(request.body.len()) > ITEMS_BYTES_MAX {
            return Err(too_complex("the array has too many notices for its length"));
        }
        let (mut notices, mut unsigned) = (Vec::new(), Vec::new());
        for item in 0..items {
            if notices.is_empty() && verifier.checked_bytes > CHECKED_BYTES_MAX {
                return Err(too_complex("the array names too many merchants for its length"));
            }
            let place = scheme.items.as_ref().map(|_| item);
            match verifier.verify_item(place) {
                Some(notice) => notices.push(notice),
                None if is_refused_whole(scheme) => return Err(unauthenticated()),
                None => unsigned.push(named_merchant(&verifier.plain)),
            }
        }
        if notices.is_empty() {
            return Err(unauthenticated());
        }
        let unsigned = self.count_unsigned(partner, nameless, &unsigned);
        Ok(VerifiedRequest { notices, unsigned })
    }

    /// Counts items by the merchants that they name. An account is ours even if it is disabled. On
    /// the shared path, an item may be for an account at any partner.
    fn count_unsigned(
        &self,
        partner: &str,
        nameless: WithoutMerchant,
        named: &[Option<String>],
    ) -> UnsignedItems {
        if named.is_empty() {
            return UnsignedItems::default();
        }
        let is_on_shared_path = nameless == WithoutMerchant::Refuse;
        let accounts = self
            .accounts()
            .iter()
            .filter(|account| is_on_shared_path || account.partner().as_str() == partner);
        let merchants: HashSet<_> =
            accounts.map(|account| account.merchant_code().as_str()).collect();
        let is_other = |merchant: &&Option<String>| {
            merchant.as_deref().is_some_and(|merchant| {
                !merchant.trim().is_empty() && !merchants.contains(merchant)
            })
        };
        let others = named.iter().filter(is_other).count();
        UnsignedItems { ours: named.len() - others, others }
    }

    /// Verifies one notice of a stored request again: the item at this place of its array, whatever
    /// the other items are. Errors: as `verify_scheme`.
    pub(crate) fn verify_scheme_item(
        &self,
        partner: &str,
        request: &NoticeRequest<'_>,
        item: Option<u32>,
        now: Time,
    ) -> Result<VerifiedNotice, Rejection> {
        let unauthenticated = || Rejection::new(RejectCode::Unauthenticated);
        let profile = self.profile(partner).ok_or_else(unauthenticated)?;
        let scheme = profile.scheme();
        let mut verifier = SchemeVerifier::new(self.route_of(partner), profile, request, now)?;
        let items = verifier.count_items()?;
        let place = item.and_then(|item| usize::try_from(item).ok());
        let is_there = match (&scheme.items, place) {
            (Some(_), Some(place)) => place < items,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let verified = is_there.then(|| verifier.verify_item(place)).flatten();
        verified.ok_or_else(unauthenticated)
    }
}

/// Verifies one request against the accounts it may be from. A request may be read differently for
/// each account, because documents are decrypted with the account's keys.
struct SchemeVerifier<'r> {
    route: &'r Route,
    scheme: &'r Scheme,
    now: Time,
    nameless: WithoutMerchant,
    /// The request as it is read without an account.
    plain: ParsedMessage<'r>,
    opened: Vec<(&'r Arc<Account>, Option<ParsedMessage<'r>>)>,
    /// Set if one signature covers every item, because no text, key or merchant that the scheme
    /// reads is in an item: the signers found so far, by the merchant that the
    /// item names.
    covering: Option<HashMap<Option<String>, Option<FoundSigner>>>,
    /// The bytes that the checks of the items so far have hashed.
    checked_bytes: usize,
}

/// A signer, with the index of its account in `SchemeVerifier::opened`.
#[derive(Clone, Debug)]
struct FoundSigner {
    signer: NoticeSigner,
    place: usize,
}

impl<'r> SchemeVerifier<'r> {
    /// Parses a request. Errors: what can't be parsed for any account.
    fn new(
        route: &'r Route,
        profile: &'r Profile,
        request: &'r NoticeRequest<'r>,
        now: Time,
    ) -> Result<Self, Rejection> {
        let scheme = profile.scheme();
        let mut plain = ParsedMessage::new(scheme, request, profile.limits())?;
        if scheme.items.as_ref().is_none_or(|rule| rule.of.0 <= crate::scheme::rules::ITEM) {
            // A parse error depends on no account, so its answer reveals none.
            plain.count_items()?;
        }
        plain.unwrap_open_documents().map_err(|_| Rejection::new(RejectCode::Unauthenticated))?;
        let covering = scheme.signs_items_alike().then(HashMap::new);
        let nameless = WithoutMerchant::TryAccounts;
        Ok(Self {
            route,
            scheme,
            now,
            nameless,
            plain,
            opened: Vec::new(),
            covering,
            checked_bytes: 0,
        })
    }

    /// The number of notices in the request. Errors: its array is absent, or no account can decrypt
    /// it.
    fn count_items(&mut self) -> Result<usize, Rejection> {
        if self.scheme.items.is_none() || self.plain.count_items().is_ok() {
            return self.plain.count_items();
        }
        // The array may be in a document that only an account's key decrypts.
        let found = self.route.unnamed().iter().find_map(|account| {
            let place = self.open(account);
            self.opened[place].1.as_ref().map(ParsedMessage::count_items)
        });
        found.unwrap_or_else(|| {
            self.refuse(&[], None, TriedKeys::none(self.scheme));
            Err(Rejection::new(RejectCode::Unauthenticated))
        })
    }

    /// Opens the request for an account and returns its index in `opened`. The entry is `None` if
    /// the request can't be opened.
    fn open(&mut self, account: &'r Arc<Account>) -> usize {
        let known = self.opened.iter().position(|(other, _)| Arc::ptr_eq(other, account));
        known.unwrap_or_else(|| {
            let mut message = self.plain.clone();
            // A document that this account's keys can't decrypt is not for this account.
            let is_open = message.unwrap_documents(&account.template_inputs()).is_ok();
            self.opened.push((account, is_open.then_some(message)));
            self.opened.len() - 1
        })
    }

    /// Verifies one notice. `None` costs the same whether the named account exists or not.
    fn verify_item(&mut self, item: Option<usize>) -> Option<VerifiedNotice> {
        if let Some(item) = item {
            self.plain.select_item(item);
        }
        let merchant = self.covering.is_some().then(|| named_merchant(&self.plain));
        let known = self.covering.as_ref().zip(merchant.as_ref()).and_then(|(all, m)| all.get(m));
        let found = match known {
            Some(found) => found.clone(),
            None => self.find_signer(item),
        };
        if let Some((covering, merchant)) = self.covering.as_mut().zip(merchant) {
            covering.insert(merchant, found.clone());
        }
        let FoundSigner { signer, place } = found?;
        let message = self.opened[place].1.as_mut()?;
        if let Some(item) = item {
            message.select_item(item);
        }
        let account = Arc::clone(&signer.account);
        let notice = build_notice(signer, message, &account.template_inputs(), item);
        Some(VerifiedNotice { shares_signature: self.covering.is_some(), ..notice })
    }

    /// Finds the signer of the item that `plain` reads. `None` after the checks of a refusal are
    /// made.
    fn find_signer(&mut self, item: Option<usize>) -> Option<FoundSigner> {
        let mut tried = TriedKeys::none(self.scheme);
        let accounts = candidate_accounts(self.route, &self.plain, self.nameless);
        for account in accounts {
            let place = self.open(account);
            let Some(message) = self.opened[place].1.as_mut() else { continue };
            if let Some(item) = item {
                message.select_item(item);
            }
            let inputs = account.template_inputs();
            let bare = TemplateContext::without_key(message, &inputs);
            if let Some(signer) = find_account_signer(account, bare, self.now, &mut tried) {
                self.checked_bytes = self.checked_bytes.saturating_add(tried.bytes);
                return Some(FoundSigner { signer, place });
            }
        }
        self.refuse(accounts, item, tried);
        None
    }

    /// Makes the signature checks that a refusal costs and that were not made yet, so that the
    /// response time does not reveal whether the account exists. An unknown account's request is
    /// read as the partner's first account reads it.
    fn refuse(&mut self, accounts: &'r [Arc<Account>], item: Option<usize>, mut tried: TriedKeys) {
        let stand_in = accounts.first().or(self.route.unnamed().first());
        let Some(stand_in) = stand_in else { return };
        let place = self.open(stand_in);
        let message = self.opened[place].1.as_mut().unwrap_or(&mut self.plain);
        if let Some(item) = item {
            message.select_item(item);
        }
        let inputs = stand_in.template_inputs();
        let bare = TemplateContext::without_key(message, &inputs);
        self.route.work.spend(&mut tried, bare, self.now);
        self.checked_bytes = self.checked_bytes.saturating_add(tried.bytes);
    }
}

/// Whether one forged item makes the whole array refused.
fn is_refused_whole(scheme: &Scheme) -> bool {
    scheme.items.as_ref().is_none_or(|rule| rule.forged == ForgedItemPolicy::RefuseAll)
}

fn build_notice(
    signer: NoticeSigner,
    message: &ParsedMessage<'_>,
    inputs: &TemplateInputs<'_>,
    item: Option<usize>,
) -> VerifiedNotice {
    let scheme = message.scheme();
    let context = TemplateContext::without_key(message, inputs);
    let sign = &scheme.signs[signer.sign];
    let readings = signer.account.scheme_keys().readings[signer.sign].as_ref();
    // A signed text with two readings is a fault of the notice, which goes to quarantine. Values
    // that a query confirms need no unambiguous signature.
    let is_believed = sign.algorithm.signs_the_text() && scheme.needs_one_reading;
    let ambiguity = is_believed.then(|| find_ambiguity(sign, readings, context)).flatten();
    let said = match ambiguity {
        Some(why) => fault(FaultKind::Ambiguous, why),
        None => map_notice(signer.account.profile(), context, sign),
    };
    let body = |ack| Some((ack, context.render_readable(scheme.acks.template(ack)?)));
    let answer_bodies = AckKind::ALL.into_iter().filter_map(body).collect();
    VerifiedNotice {
        sign: Some(sign.name.clone()),
        is_unsigned: sign.algorithm == SignAlgorithm::None,
        signed: signer.signed_text,
        covers_all: sign.covers_all,
        covers_time: sign.covers_time,
        shares_signature: false,
        item: item.and_then(|item| u32::try_from(item).ok()),
        key_id: signer.key_id,
        key_begins: signer.key_begins,
        account: signer.account,
        content: said,
        answer_bodies,
        unknown_fields: 0,
    }
}
