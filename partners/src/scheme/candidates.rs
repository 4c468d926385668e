//! Owns which accounts a notice of a custom scheme is tried with. If its merchant can be read
//! before any account's keys are used, only the account it names is tried. Otherwise the first
//! `UNNAMED_TRIED_MAX` accounts of the partner are tried: a partner with a profile that reads no
//! merchant has no more (`Directory::build`), and a notice that names no merchant is kept in
//! quarantine and refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::message::{ParsedMessage, TemplateContext};
use super::template::{Template, TokenSource};
use super::template_values::TemplateInputs;
use crate::directory::account::Account;
use crate::directory::route::{Route, UNNAMED_TRIED_MAX};
use crate::scheme::compiled::Scheme;
use crate::scheme::rules::{ITEM, OpenParts};

static NO_CONSTANTS: BTreeMap<String, String> = BTreeMap::new();

/// The inputs of a template that is rendered without an account.
const WITHOUT_ACCOUNT: TemplateInputs<'static> =
    TemplateInputs { merchant: "", constants: &NO_CONSTANTS, decryption_keys: &[], values: &[] };

impl OpenParts {
    pub(crate) fn find(scheme: &Scheme) -> Self {
        let mut open = Self::default();
        for rule in &scheme.documents {
            let is_open = rule.decrypt.is_none() && open.can_render(scheme, &rule.from, 0);
            open.documents.push(is_open);
        }
        let items = scheme.items.as_ref();
        let items_are_open = items.is_none_or(|rule| open.is_open(scheme, rule.of.0));
        let merchant = scheme.map.merchant.as_ref();
        open.names_account =
            items_are_open && merchant.is_some_and(|merchant| open.can_render(scheme, merchant, 0));
        open
    }

    /// Whether a template can be rendered without an account's keys and constants. `depth` bounds
    /// nested texts.
    fn can_render(&self, scheme: &Scheme, template: &Template, depth: usize) -> bool {
        template.tokens().into_iter().all(|token| match &token.source {
            TokenSource::Secret | TokenSource::Merchant | TokenSource::Constant(_) => false,
            TokenSource::Field(document, _) => self.is_open(scheme, *document),
            TokenSource::Pairs(number) => self.is_open(scheme, scheme.pairs[*number].of.0),
            TokenSource::Text(number) => {
                // A text names only texts before it, so the depth ends by itself; the bound keeps
                // the cost low.
                depth < 16 && self.can_render(scheme, &scheme.texts[*number], depth + 1)
            }
            TokenSource::Body
            | TokenSource::Method
            | TokenSource::Path
            | TokenSource::Query
            | TokenSource::Url
            | TokenSource::Header(_)
            | TokenSource::Value(_) => true,
        })
    }

    fn is_open(&self, scheme: &Scheme, document: usize) -> bool {
        match (document, &scheme.items) {
            (ITEM, Some(rule)) if rule.of.0 != ITEM => self.is_open(scheme, rule.of.0),
            (..=ITEM, _) => true,
            (own, _) => self.documents.get(own - ITEM - 1).copied().unwrap_or(false),
        }
    }
}

/// The accounts a notice is tried with.
pub(crate) fn candidate_accounts<'d>(
    route: &'d Route,
    message: &ParsedMessage<'_>,
    nameless: WithoutMerchant,
) -> &'d [Arc<Account>] {
    match named_merchant(message) {
        Some(merchant) if merchant.trim().is_empty() && nameless == WithoutMerchant::Refuse => &[],
        Some(merchant) if !merchant.trim().is_empty() => route.named(&merchant),
        Some(_) | None => route.unnamed(),
    }
}

/// What happens to a notice that names no merchant although the profile reads one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WithoutMerchant {
    /// The partner's first accounts are tried, so that a signed notice can be kept. Used on the
    /// partner's own path.
    TryAccounts,
    /// No account is tried. Used on the shared path.
    Refuse,
}

/// The merchant a notice names; empty if it names none. `None` if the merchant can't be read
/// without an account.
pub(crate) fn named_merchant(message: &ParsedMessage<'_>) -> Option<String> {
    let scheme = message.scheme();
    let merchant = scheme.map.merchant.as_ref().filter(|_| scheme.open.names_account)?;
    Some(
        TemplateContext::without_key(message, &WITHOUT_ACCOUNT)
            .render_string(merchant)
            .unwrap_or_default(),
    )
}

/// Whether a notice names the merchant of this account. One that names none, or one that can't be
/// read, passes here; `map` then reports that.
pub(crate) fn names_this_account(bare: TemplateContext<'_>) -> bool {
    let merchant = bare.message.scheme().map.merchant.as_ref();
    merchant.is_none_or(|merchant| match bare.render_string(merchant) {
        Ok(merchant) => merchant == bare.inputs.merchant || merchant.trim().is_empty(),
        Err(unusable) => unusable.is_of_value(),
    })
}

impl ParsedMessage<'_> {
    /// Unwraps the documents that need no account. Errors: a document that can't be unwrapped.
    pub(crate) fn unwrap_open_documents(&mut self) -> Result<(), crate::rejection::Rejection> {
        self.unwrap_selected(&WITHOUT_ACCOUNT, |scheme, place| scheme.open.documents[place])
    }
}

impl Scheme {
    /// Describes how a notice's account is found, for people.
    pub fn describe_accounts(&self) -> String {
        match self.map.merchant.as_ref().filter(|_| self.open.names_account) {
            Some(merchant) => format!("found by the merchant a notice names: {merchant}"),
            None => format!("at most {UNNAMED_TRIED_MAX}, and the keys of each are tried"),
        }
    }
}
