//! Owns the published contracts: a JSON Schema (2020-12) for the data of each event type, and the
//! AsyncAPI 3 document of the topics. Both are generated from the types that write the events and
//! from their doc comments, so they can't differ from the program. The generated files are
//! `docs/schemas` and `docs/asyncapi.json`. A test compares them with the types, and requires that
//! an event type only gained fields since a release.

mod leaves;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::Value;

use crate::decision::{FLAG_DECIDED_TYPE, FlagDecided};
use crate::event::{ORDER_CHANGED_TYPE, OrderChanged};
use crate::finding::{FINDING_CHANGED_TYPE, FindingChanged};
use crate::raw_read::{RAW_READ_TYPE, RawRead};
use crate::release::{NOTICE_DECIDED_TYPE, NoticeDecided};
use crate::run::{PERIOD_CLOSED_TYPE, PeriodClosed, RUN_ENDED_TYPE, RunEnded};
use crate::token::{TOKEN_RECORDED_TYPE, TokenRecorded};

/// The contract of one event type.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Contract {
    /// The CloudEvents type, with its major version.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The topic of its events.
    pub topic: &'static str,
    /// What the message key is made of; events with one key are in order.
    pub key: &'static str,
    /// What an event's id is made of; of two events with one id the first counts.
    pub id: &'static str,
    /// What happened when an event of this type is published.
    pub summary: &'static str,
    /// The JSON Schema of its data.
    pub schema: Value,
}

/// The texts about an event type that its schema doesn't contain.
struct ContractTexts {
    kind: &'static str,
    topic: &'static str,
    key: &'static str,
    id: &'static str,
    summary: &'static str,
}

impl Contract {
    fn of<T: JsonSchema>(texts: ContractTexts) -> Self {
        let ContractTexts { kind, topic, key, id, summary } = texts;
        // The schema describes written events, in which every field without a default is there.
        let settings = SchemaSettings::draft2020_12().for_serialize();
        let settings = settings.with(|settings| settings.inline_subschemas = true);
        let mut schema = settings.into_generator().into_root_schema_for::<T>();
        schema.insert("$id".to_owned(), format!("urn:payfold:schema:{kind}").into());
        schema.insert("title".to_owned(), kind.into());
        Self { kind, topic, key, id, summary, schema: schema.to_value() }
    }
}

/// Every event type, by topic.
pub fn contracts() -> Vec<Contract> {
    const ORDER: &str = "partner/merchantCode/orderId";
    vec![
        Contract::of::<OrderChanged>(ContractTexts {
            kind: ORDER_CHANGED_TYPE,
            topic: "orders",
            key: ORDER,
            id: "key/epoch/version",
            summary: "An order has changed: one event for each fact that changed what is known of \
                it.",
        }),
        Contract::of::<FindingChanged>(ContractTexts {
            kind: FINDING_CHANGED_TYPE,
            topic: "findings",
            key: "partner[/merchantCode[/orderId]], as far as it is about one",
            id: "findingId/version",
            summary: "A difference to a partner's records was found, changed, decided or cleared.",
        }),
        Contract::of::<RunEnded>(ContractTexts {
            kind: RUN_ENDED_TYPE,
            topic: "findings",
            key: "partner",
            id: "run/run",
            summary: "A day was compared with a partner's records.",
        }),
        Contract::of::<PeriodClosed>(ContractTexts {
            kind: PERIOD_CLOSED_TYPE,
            topic: "findings",
            key: "partner",
            id: "closed/partner/day",
            summary: "A day was closed; its totals and findings are sealed.",
        }),
        Contract::of::<FlagDecided>(ContractTexts {
            kind: FLAG_DECIDED_TYPE,
            topic: "findings",
            key: ORDER,
            id: "flag/digest of the decision",
            summary: "A person decided a flag of an order; a critical flag needs a second person.",
        }),
        Contract::of::<NoticeDecided>(ContractTexts {
            kind: NOTICE_DECIDED_TYPE,
            topic: "findings",
            key: "partner/merchantCode",
            id: "notice/digest of the decision",
            summary: "A person decided a quarantined notice; a release that moves money needs a \
                second person.",
        }),
        Contract::of::<RawRead>(ContractTexts {
            kind: RAW_READ_TYPE,
            topic: "findings",
            key: "partner/merchantCode",
            id: "raw/digest of position, author and time",
            summary: "A person reads the bytes of a notice; published before the bytes are handed \
                out.",
        }),
        Contract::of::<TokenRecorded>(ContractTexts {
            kind: TOKEN_RECORDED_TYPE,
            topic: "findings",
            key: "owner of the token",
            id: "token/digest of the change",
            summary: "A token of a person was added or removed, as the system found it in its \
                vault.",
        }),
    ]
}
