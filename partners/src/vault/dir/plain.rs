//! Owns `vault.toml` of a directory of keys: the settings of accounts, and admin tokens and shops
//! with the hashes of their tokens. Pure. The file is not meant for secrets, but one may be there
//! by mistake: a problem names its line and never a value.

use std::collections::BTreeMap;

use ipnet::IpNet;
use payfold_schemas::ids::{MerchantCode, PartnerCode};
use payfold_schemas::record_keys::{RecordBaseline, RecordKeyEnd};
use serde::Deserialize;

use crate::document::DOCUMENT_VERSION;
use crate::shops::entry::ShopEntry;
use crate::token::TokenEntry;
use crate::vault::dir::problem::BadFile;

/// The content of `vault.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlainFile {
    #[serde(default = "this_version")]
    version: u32,
    #[serde(default)]
    pub(super) accounts: Vec<PlainAccount>,
    #[serde(default)]
    pub(super) tokens: Vec<TokenEntry>,
    #[serde(default)]
    pub(super) shops: Vec<ShopEntry>,
    #[serde(default)]
    pub(super) record_baselines: Vec<RecordBaseline>,
    #[serde(default)]
    pub(super) record_key_ends: Vec<RecordKeyEnd>,
}

/// The settings of an account. Its keys are in key files.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlainAccount {
    pub(super) partner: PartnerCode,
    pub(super) merchant_code: MerchantCode,
    #[serde(default = "yes")]
    pub(super) enabled: bool,
    #[serde(default)]
    pub(super) allow_sources: Vec<IpNet>,
    #[serde(default)]
    pub(super) rate_per_s: Option<u32>,
    #[serde(default)]
    pub(super) constants: BTreeMap<String, String>,
}

fn this_version() -> u32 {
    DOCUMENT_VERSION
}

fn yes() -> bool {
    true
}

/// Parses the file. Errors: the first line that is not understood.
pub(super) fn parse(bytes: &[u8]) -> Result<PlainFile, BadFile> {
    let text = std::str::from_utf8(bytes).map_err(|_| BadFile("it is not text".to_owned()))?;
    let file: PlainFile = toml::from_str(text).map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        // The text between double quotes may be a value, so the message ends before it.
        let message = error.message();
        let message = message.split('"').next().unwrap_or_default().trim_end();
        BadFile(format!(
            "line {line}: {message}; see [[accounts]], [[tokens]], [[shops]] in \
             docs/how-to/rotate-keys.md"
        ))
    })?;
    if file.version != DOCUMENT_VERSION {
        return BadFile::err(format!(
            "it has version {}, this program reads {DOCUMENT_VERSION}; run the later program",
            file.version
        ));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_enabled_and_open_by_default() {
        let file = parse(
            b"[[accounts]]\npartner = 'acme'\nmerchant_code = 'SHOP'\n\
              [[accounts]]\npartner = 'acme'\nmerchant_code = 'B'\nenabled = false\n\
              rate_per_s = 5\n\
              allow_sources = ['203.0.113.0/24']\nconstants = { app = '42' }\n",
        )
        .unwrap();
        let [a, b] = &file.accounts[..] else { panic!("two accounts") };
        assert!(a.enabled && a.allow_sources.is_empty() && a.rate_per_s.is_none());
        assert!(!b.enabled && b.allow_sources.len() == 1 && b.constants["app"] == "42");
        assert_eq!(parse(b"").unwrap().accounts.len(), 0);
    }

    #[test]
    fn a_mistake_is_reported_with_its_line_and_without_a_value() {
        for (text, expected) in [
            ("version = 9", "it has version 9"),
            ("\nenable = 1", "line 2: unknown field `enable`"),
            ("[[accounts]]\npartner = 'acme'", "missing field `merchant_code`"),
            (
                "[[accounts]]\npartner = 'acme'\nmerchant_code = 'S'\nrate_per_s = \"hush\"",
                "line 4: invalid type: string",
            ),
            ("[[accounts]]\nkeys = [{ secret = 'hush' }]", "line 2: unknown field `keys`"),
            (
                "[[tokens]]\nname = 'ada'\nrole = 'hush'",
                "line 3: a role is viewer, finance, operator or admin",
            ),
        ] {
            let BadFile(problem) = parse(text.as_bytes()).unwrap_err();
            assert!(problem.contains(expected) && !problem.contains("hush"), "{text}: {problem}");
        }
    }
}
