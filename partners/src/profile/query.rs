//! Owns `[query]` of the default scheme: the path of a status query, its signed fields in order,
//! the query rate and concurrency, and the meaning of the partner's status codes. The partner's
//! address is a setting (`api_url`).

use std::collections::BTreeMap;
use std::fmt;

use payfold_schemas::ipn::Status;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::profile::bounds;
use crate::profile::mistake::{ProfileMistake, within, wrong};
use crate::profile::spanned::Spanned;

/// A field of the query, except the signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum QueryField {
    /// Our account at the partner.
    MerchantCode,
    /// The partner's transaction; empty if the query names the order instead.
    ProviderRef,
    /// The order; empty if the query names the transaction instead.
    OrderId,
    /// When the query is made.
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

/// The meaning of a status code in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(from = "StatusMeaningFile")]
pub enum StatusMeaning {
    /// Not decided yet. The query is repeated later.
    Pending,
    /// The partner knows no such payment yet, as with 404. The query is repeated later.
    Unknown,
    /// A terminal status.
    Terminal(Status),
}

/// The meaning of a status code, as a profile writes it.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
enum StatusMeaningFile {
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

impl From<StatusMeaningFile> for StatusMeaning {
    fn from(meaning: StatusMeaningFile) -> Self {
        match meaning {
            StatusMeaningFile::Pending => Self::Pending,
            StatusMeaningFile::Unknown => Self::Unknown,
            StatusMeaningFile::Success => Self::Terminal(Status::Success),
            StatusMeaningFile::Failed => Self::Terminal(Status::Failed),
            StatusMeaningFile::Expired => Self::Terminal(Status::Expired),
            StatusMeaningFile::Refunded => Self::Terminal(Status::Refunded),
        }
    }
}

/// How the status of a payment is queried at this partner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryRule {
    /// The path after `api_url`; starts with `/`. The transaction follows it if it is known.
    pub path: String,
    /// The fields of the signing text, in order.
    pub signed_fields: Vec<QueryField>,
    /// The partner's status codes with their meaning.
    pub statuses: BTreeMap<String, StatusMeaning>,
    /// The longest a whole call may take, from connecting to the last byte of the answer, in ms.
    pub timeout_ms: u64,
    /// The largest accepted answer, in bytes.
    pub answer_bytes_max: usize,
    /// The limits on the rate and concurrency of queries.
    pub pace: QueryPace,
}

/// The limits on the rate and concurrency of queries to one partner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryPace {
    /// The most queries in flight at the same time.
    pub at_once: usize,
    /// The most queries begun in a second.
    pub per_s: u32,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DefaultQueryFile {
    /// The path after api_url. The transaction follows it if it is known.
    path: Spanned<String>,
    /// The fields of the signing text, in order.
    fields: Spanned<Vec<Spanned<QueryField>>>,
    /// The partner's status = pending, unknown, SUCCESS, FAILED, EXPIRED or REFUNDED.
    // Profiles of the first build call it `words`.
    #[serde(alias = "words")]
    statuses: Spanned<BTreeMap<String, StatusMeaning>>,
    /// The longest the whole call may take, in seconds. Default: 10.
    #[schemars(range(min = bounds::TIMEOUT_S.min, max = bounds::TIMEOUT_S.max))]
    timeout_s: Spanned<u64>,
    /// The largest accepted answer, in bytes. Default: 65536.
    #[schemars(range(min = bounds::ANSWER_BYTES.min, max = bounds::ANSWER_BYTES.max))]
    answer_bytes: Spanned<usize>,
    /// The most queries in flight at the same time. Default: 4.
    #[schemars(range(min = bounds::AT_ONCE.min, max = bounds::AT_ONCE.max))]
    at_once: Spanned<usize>,
    /// The most queries begun in a second. Default: 5.
    #[schemars(range(min = bounds::PER_S.min, max = bounds::PER_S.max))]
    per_s: Spanned<u32>,
}

pub(super) fn compile(file: &DefaultQueryFile) -> Result<QueryRule, ProfileMistake> {
    let path = file.path.get_ref();
    let plain = |c: char| c.is_ascii_graphic() && c != '?' && c != '#';
    if !path.starts_with('/') || path.ends_with('/') || !path.chars().all(plain) {
        let problem = "query.path must be a path that starts with / and does not end with one";
        return wrong(file.path.span(), problem);
    }
    let timeout_s = within("query.timeout_s", &file.timeout_s, bounds::TIMEOUT_S)?;
    Ok(QueryRule {
        path: path.clone(),
        signed_fields: signed_fields(&file.fields)?,
        statuses: status_meanings(&file.statuses)?,
        timeout_ms: timeout_s * 1_000,
        answer_bytes_max: within("query.answer_bytes", &file.answer_bytes, bounds::ANSWER_BYTES)?,
        pace: QueryPace {
            at_once: within("query.at_once", &file.at_once, bounds::AT_ONCE)?,
            per_s: within("query.per_s", &file.per_s, bounds::PER_S)?,
        },
    })
}

/// Checks that every field is signed. A field that is not signed could be changed on the way, so
/// that the partner would answer about another payment.
fn signed_fields(
    list: &Spanned<Vec<Spanned<QueryField>>>,
) -> Result<Vec<QueryField>, ProfileMistake> {
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

fn status_meanings(
    file: &Spanned<BTreeMap<String, StatusMeaning>>,
) -> Result<BTreeMap<String, StatusMeaning>, ProfileMistake> {
    let meanings = file.get_ref();
    if meanings.values().any(|meaning| *meaning == StatusMeaning::Terminal(Status::Success)) {
        Ok(meanings.clone())
    } else {
        wrong(file.span(), "query.statuses has no status that means SUCCESS; add the partner's")
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
    fn the_shipped_profile_queries_as_the_contract_requires() {
        let profile = parse(DEFAULT_PROFILE).unwrap();
        let rule = profile.query().unwrap();
        assert_eq!((rule.path.as_str(), rule.timeout_ms), ("/payments", 10_000));
        assert_eq!(rule.signed_fields, QueryField::ALL);
        assert_eq!(rule.pace, QueryPace { at_once: 4, per_s: 10 });
        assert_eq!(rule.statuses.len(), 5);
        for status in Status::ALL {
            assert_eq!(rule.statuses.get(status.as_str()), Some(&StatusMeaning::Terminal(status)));
        }
        assert_eq!(rule.statuses.get("PENDING"), Some(&StatusMeaning::Pending));
        let without = DEFAULT_PROFILE.split("[query]").next().unwrap();
        assert!(parse(without).unwrap().query().is_none());
    }

    /// A line of the default profile => its replacement => part of the error.
    const MISTAKES: &str = r#"
        path = "/payments"        => path = "payments"          => query.path must be a path
        path = "/payments"        => path = "/payments/"        => query.path must be a path
        path = "/payments"        => path = "/payments?x"       => query.path must be a path
        "orderId", "timestamp",   => "timestamp",               => query.fields must name orderId
        "orderId", "timestamp",   => "orderId", "orderId",      => orderId is listed twice
        "orderId", "timestamp",   => "orderId", "amount",       => unknown variant `amount`
        SUCCESS = "SUCCESS",      =>                            => no status that means SUCCESS
        PENDING = "pending"       => PENDING = "later"          => unknown variant `later`
        at_once = 4               => at_once = 0                => query.at_once must be 1 to 64
        per_s = 10                => per_s = 1001               => query.per_s must be 1 to 1000
        timeout_s = 10            => timeout_s = 61             => query.timeout_s must be 1 to 60
        answer_bytes = 65536      => answer_bytes = 9           => query.answer_bytes must be
        at_once = 4               => at_onec = 4                => unknown field `at_onec`
    "#;

    #[test]
    fn every_mistake_is_reported() {
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
