//! Owns what a profile says of the query call in the contract's default scheme: where one payment is asked for, which
//! fields are signed in which order, how often and how many at once, and what the partner's status words mean.
//! Which address it goes to is a setting.

use std::collections::BTreeMap;
use std::fmt;

use payfold_schemas::ipn::Status;
use serde::Deserialize;
use toml::Spanned;

use super::file::{Wrong, within, wrong};

/// A field of the query, the signature left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum QueryField {
    /// Our account at the partner.
    MerchantCode,
    /// The transaction that is asked for; an empty slot where the order is.
    ProviderRef,
    /// The order that is asked for; an empty slot where the transaction is.
    OrderId,
    /// When the question was asked.
    Timestamp,
}

impl QueryField {
    /// Every field.
    pub const ALL: [QueryField; 4] =
        [Self::MerchantCode, Self::ProviderRef, Self::OrderId, Self::Timestamp];

    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MerchantCode => "merchantCode",
            Self::ProviderRef => "providerRef",
            Self::OrderId => "orderId",
            Self::Timestamp => "timestamp",
        }
    }
}

impl fmt::Display for QueryField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a status word of an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "WordFile")]
pub enum Word {
    /// Not decided yet: ask again.
    Pending,
    /// The partner knows no such payment (yet), as with 404: ask again.
    Unknown,
    /// A terminal status.
    Terminal(Status),
}

/// A word as a profile writes it.
#[derive(Clone, Copy, Deserialize)]
enum WordFile {
    #[serde(rename = "pending")]
    Pending,
    #[serde(rename = "unknown")]
    Unknown,
    #[serde(rename = "SUCCESS")]
    Success,
    #[serde(rename = "FAILED")]
    Failed,
    #[serde(rename = "EXPIRED")]
    Expired,
    #[serde(rename = "REFUNDED")]
    Refunded,
}

impl From<WordFile> for Word {
    fn from(word: WordFile) -> Self {
        match word {
            WordFile::Pending => Self::Pending,
            WordFile::Unknown => Self::Unknown,
            WordFile::Success => Self::Terminal(Status::Success),
            WordFile::Failed => Self::Terminal(Status::Failed),
            WordFile::Expired => Self::Terminal(Status::Expired),
            WordFile::Refunded => Self::Terminal(Status::Refunded),
        }
    }
}

/// How a payment is asked for at this partner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryRule {
    /// Behind the partner's address of the settings; starts with `/`. The transaction stands behind it, if one is named.
    pub path: String,
    /// The fields of the signing text, in order.
    pub signed_fields: Vec<QueryField>,
    /// The partner's status words.
    pub words: BTreeMap<String, Word>,
    /// The whole call, from connecting to the last byte of the answer, ms.
    pub timeout_ms: u64,
    /// Bytes of the answer at most.
    pub answer_bytes_max: usize,
    /// How hard the partner may be asked.
    pub pace: QueryPace,
}

/// How hard a partner may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryPace {
    /// Queries under way at the same time, at most.
    pub at_once: usize,
    /// Queries begun in a second, at most.
    pub per_s: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueryFile {
    path: Spanned<String>,
    fields: Spanned<Vec<Spanned<QueryField>>>,
    words: Spanned<BTreeMap<String, Word>>,
    timeout_s: Spanned<u64>,
    answer_bytes: Spanned<usize>,
    at_once: Spanned<usize>,
    per_s: Spanned<u32>,
}

pub(super) fn compile(file: &QueryFile) -> Result<QueryRule, Wrong> {
    let path = file.path.get_ref();
    let plain = |c: char| c.is_ascii_graphic() && c != '?' && c != '#';
    if !path.starts_with('/') || path.ends_with('/') || !path.chars().all(plain) {
        let problem = "query.path must be a path that starts with / and does not end with one";
        return wrong(file.path.span(), problem);
    }
    let timeout_s = within("query.timeout_s", &file.timeout_s, 1..=60)?;
    Ok(QueryRule {
        path: path.clone(),
        signed_fields: signed_fields(&file.fields)?,
        words: words(&file.words)?,
        timeout_ms: timeout_s * 1_000,
        answer_bytes_max: within("query.answer_bytes", &file.answer_bytes, 1_024..=1_048_576)?,
        pace: QueryPace {
            at_once: within("query.at_once", &file.at_once, 1..=64)?,
            per_s: within("query.per_s", &file.per_s, 1..=1_000)?,
        },
    })
}

/// All of them: whoever could change one on the way could have another payment told of.
fn signed_fields(list: &Spanned<Vec<Spanned<QueryField>>>) -> Result<Vec<QueryField>, Wrong> {
    let mut fields = Vec::with_capacity(QueryField::ALL.len());
    for item in list.get_ref() {
        let field = *item.get_ref();
        if fields.contains(&field) {
            return wrong(item.span(), format!("{field} is listed twice; keep one"));
        }
        fields.push(field);
    }
    match QueryField::ALL.into_iter().find(|field| !fields.contains(field)) {
        None => Ok(fields),
        Some(field) => {
            wrong(list.span(), format!("query.fields must name {field}; add it to the list"))
        }
    }
}

fn words(file: &Spanned<BTreeMap<String, Word>>) -> Result<BTreeMap<String, Word>, Wrong> {
    let words = file.get_ref();
    if words.values().any(|word| *word == Word::Terminal(Status::Success)) {
        Ok(words.clone())
    } else {
        wrong(file.span(), "query.words must name the partner's word for SUCCESS")
    }
}

#[cfg(test)]
mod tests {
    use payfold_schemas::ids::PartnerCode;

    use super::*;
    use crate::profile::{DEFAULT_PROFILE, Profile};

    fn parse(text: &str) -> Result<Profile, String> {
        Profile::parse(&PartnerCode::parse("acme").unwrap(), text).map_err(|error| error.problem)
    }

    #[test]
    fn the_shipped_profile_asks_as_the_contract_would() {
        let profile = parse(DEFAULT_PROFILE).unwrap();
        let rule = profile.query().unwrap();
        assert_eq!((rule.path.as_str(), rule.timeout_ms), ("/payments", 10_000));
        assert_eq!(rule.signed_fields, QueryField::ALL);
        assert_eq!(rule.pace, QueryPace { at_once: 4, per_s: 10 });
        assert_eq!(rule.words.len(), 5);
        for status in Status::ALL {
            assert_eq!(rule.words.get(status.as_str()), Some(&Word::Terminal(status)));
        }
        assert_eq!(rule.words.get("PENDING"), Some(&Word::Pending));
        let without = DEFAULT_PROFILE.split("[query]").next().unwrap();
        assert!(parse(without).unwrap().query().is_none());
    }

    /// What stands in the default profile => what is put there => part of the error.
    const MISTAKES: &str = r#"
        path = "/payments"        => path = "payments"          => query.path must be a path
        path = "/payments"        => path = "/payments/"        => query.path must be a path
        path = "/payments"        => path = "/payments?x"       => query.path must be a path
        "orderId", "timestamp",   => "timestamp",               => query.fields must name orderId
        "orderId", "timestamp",   => "orderId", "orderId",      => orderId is listed twice
        "orderId", "timestamp",   => "orderId", "amount",       => unknown variant `amount`
        SUCCESS = "SUCCESS",      =>                            => the partner's word for SUCCESS
        PENDING = "pending"       => PENDING = "later"          => unknown variant `later`
        at_once = 4               => at_once = 0                => query.at_once must be 1 to 64
        per_s = 10                => per_s = 1001               => query.per_s must be 1 to 1000
        timeout_s = 10            => timeout_s = 61             => query.timeout_s must be 1 to 60
        answer_bytes = 65536      => answer_bytes = 9           => query.answer_bytes must be
        at_once = 4               => at_onec = 4                => unknown field `at_onec`
    "#;

    #[test]
    fn a_mistake_is_named() {
        let (head, query) = DEFAULT_PROFILE.split_once("[query]").unwrap();
        for case in MISTAKES.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let [from, to, expected] =
                case.split("=>").map(str::trim).collect::<Vec<_>>().try_into().unwrap();
            assert!(query.contains(from), "{case}");
            let text = format!("{head}[query]{}", query.replacen(from, to, 1));
            let problem = parse(&text).unwrap_err();
            assert!(problem.contains(expected), "{case}: {problem}");
        }
    }
}
