//! Owns the published contracts: a JSON Schema (2020-12) for the data of each event type, and the AsyncAPI 3 document of the
//! topics. Both are made from the types that write the events, their words from the types' own documentation, so neither can
//! say another thing than the program does. What is published is in `docs/schemas` and `docs/asyncapi.json`; a test holds
//! that it is what is made here, and that it only ever gained fields since a release.

mod asyncapi;
mod leaves;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

pub use self::asyncapi::asyncapi;
use crate::decision::{FLAG_DECIDED_TYPE, FlagDecided};
use crate::event::{ORDER_CHANGED_TYPE, OrderChanged};
use crate::finding::{FINDING_CHANGED_TYPE, FindingChanged};
use crate::raw_read::{RAW_READ_TYPE, RawRead};
use crate::release::{NOTICE_DECIDED_TYPE, NoticeDecided};
use crate::run::{PERIOD_CLOSED_TYPE, PeriodClosed, RUN_ENDED_TYPE, RunEnded};

/// The contract of one event type.
#[derive(Clone, Debug, PartialEq)]
pub struct Contract {
    /// The CloudEvents type, with its major version.
    pub kind: &'static str,
    /// The topic it stands on.
    pub topic: &'static str,
    /// What is the message's key: events of one key are in order.
    pub key: &'static str,
    /// What its id is made of: of two events with one id the first stands.
    pub id: &'static str,
    /// When one is told.
    pub told: &'static str,
    /// The JSON Schema of its data.
    pub schema: Value,
}

impl Contract {
    fn of<T: JsonSchema>(
        (kind, topic): (&'static str, &'static str),
        (key, id, told): (&'static str, &'static str, &'static str),
    ) -> Self {
        // As it is written, not as it would be read: what is always there is required.
        let settings = SchemaSettings::draft2020_12().for_serialize();
        let settings = settings.with(|settings| settings.inline_subschemas = true);
        let mut schema = settings.into_generator().into_root_schema_for::<T>();
        schema.insert("$id".to_owned(), format!("urn:payfold:schema:{kind}").into());
        schema.insert("title".to_owned(), kind.into());
        Self { kind, topic, key, id, told, schema: schema.to_value() }
    }
}

/// Every event type, by topic.
pub fn contracts() -> Vec<Contract> {
    const ORDER: &str = "partner/merchantCode/orderId";
    vec![
        Contract::of::<OrderChanged>(
            (ORDER_CHANGED_TYPE, "orders"),
            (
                ORDER,
                "key/generation/version",
                "An order has changed: one event for each fact that changed what is known of it.",
            ),
        ),
        Contract::of::<FindingChanged>(
            (FINDING_CHANGED_TYPE, "findings"),
            (
                "partner[/merchantCode[/orderId]], as far as it is about one",
                "findingId/version",
                "A difference to a partner's records was found, has changed, was decided or has gone.",
            ),
        ),
        Contract::of::<RunEnded>(
            (RUN_ENDED_TYPE, "findings"),
            ("partner", "run/run", "A day was compared with a partner's records."),
        ),
        Contract::of::<PeriodClosed>(
            (PERIOD_CLOSED_TYPE, "findings"),
            (
                "partner",
                "closed/partner/day",
                "A day was closed; its totals and findings are sealed.",
            ),
        ),
        Contract::of::<FlagDecided>(
            (FLAG_DECIDED_TYPE, "findings"),
            (
                ORDER,
                "flag/digest of the word",
                "A person has said what becomes of a flag of an order; what is critical takes two.",
            ),
        ),
        Contract::of::<NoticeDecided>(
            (NOTICE_DECIDED_TYPE, "findings"),
            (
                "partner/merchantCode",
                "notice/digest of the word",
                "A person has said what becomes of a quarantined notice; what moves money takes two.",
            ),
        ),
        Contract::of::<RawRead>(
            (RAW_READ_TYPE, "findings"),
            (
                "partner/merchantCode",
                "raw/digest of place, author and time",
                "A person reads a notice as it came; told before the bytes are given out.",
            ),
        ),
    ]
}
