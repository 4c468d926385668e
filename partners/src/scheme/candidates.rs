//! Owns which accounts a notice of a custom scheme may be from. Where its merchant can be read before any account's
//! keys are used, the account it names and no other; else the first `UNNAMED_TRIED_MAX` accounts of the partner, which
//! are then all it may have (`Directory::build`).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::reading::{Context, Of, Reading};
use super::template::{Source, Template};
use super::{ITEM, Scheme};
use crate::directory::{Account, Route, UNNAMED_TRIED_MAX};

static NO_CONSTANTS: BTreeMap<String, String> = BTreeMap::new();

/// What is read without any account.
const OPEN: Of<'static> = Of { merchant: "", constants: &NO_CONSTANTS, opening: &[], values: &[] };

/// What of a notice can be read before an account is chosen.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenParts {
    /// By document of the profile: whether no account's key or constant is needed to unwrap it.
    pub(crate) documents: Vec<bool>,
    /// `map.merchant`, and the array of notices where there is one.
    pub(crate) names_account: bool,
}

impl OpenParts {
    pub(crate) fn of(scheme: &Scheme) -> Self {
        let mut open = Self::default();
        for rule in &scheme.documents {
            let is_open = rule.decrypt.is_none() && open.holds(scheme, &rule.from, 0);
            open.documents.push(is_open);
        }
        let items = scheme.items.as_ref();
        let items_are_open = items.is_none_or(|rule| open.holds_document(scheme, rule.of.0));
        let merchant = scheme.map.merchant.as_ref();
        open.names_account =
            items_are_open && merchant.is_some_and(|merchant| open.holds(scheme, merchant, 0));
        open
    }

    /// Whether a template can be read without an account.
    fn holds(&self, scheme: &Scheme, template: &Template, depth: usize) -> bool {
        template.tokens().into_iter().all(|token| match &token.source {
            Source::Secret | Source::Merchant | Source::Constant(_) => false,
            Source::Field(document, _) => self.holds_document(scheme, *document),
            Source::Pairs(number) => self.holds_document(scheme, scheme.pairs[*number].of.0),
            Source::Text(number) => {
                depth < 16 && self.holds(scheme, &scheme.texts[*number], depth + 1)
            }
            Source::Body
            | Source::Method
            | Source::Path
            | Source::Query
            | Source::Url
            | Source::Header(_)
            | Source::Value(_) => true,
        })
    }

    fn holds_document(&self, scheme: &Scheme, document: usize) -> bool {
        match (document, &scheme.items) {
            (ITEM, Some(rule)) if rule.of.0 != ITEM => self.holds_document(scheme, rule.of.0),
            (..=ITEM, _) => true,
            (own, _) => self.documents.get(own - ITEM - 1).copied().unwrap_or(false),
        }
    }
}

/// The accounts of a notice's partner that it may be from.
pub(crate) fn candidates<'d>(route: &'d Route, reading: &Reading<'_>) -> &'d [Arc<Account>] {
    match named(reading) {
        Some(merchant) => route.named(&merchant),
        None => route.unnamed(),
    }
}

/// The merchant a notice names, where that can be read without an account; empty if it names none.
pub(crate) fn named(reading: &Reading<'_>) -> Option<String> {
    let scheme = reading.scheme();
    let merchant = scheme.map.merchant.as_ref().filter(|_| scheme.open.names_account)?;
    Some(Context::bare(reading, &OPEN).string(merchant).unwrap_or_default())
}

impl Reading<'_> {
    /// Unwraps the documents that need no account. Errors: one that can't be unwrapped, for any account.
    pub(crate) fn unwrap_open(&mut self) -> Result<(), crate::verify::Rejection> {
        self.unwrap_where(&OPEN, |scheme, place| scheme.open.documents[place])
    }
}

impl Scheme {
    /// How the account of a notice is found, in words.
    pub fn describe_accounts(&self) -> String {
        match self.map.merchant.as_ref().filter(|_| self.open.names_account) {
            Some(merchant) => format!("found by the merchant a notice names: {merchant}"),
            None => format!("at most {UNNAMED_TRIED_MAX}, and the keys of each are tried"),
        }
    }
}
