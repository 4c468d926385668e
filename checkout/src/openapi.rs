//! Owns the description of the shop listener (OpenAPI 3.1): schemas from the types, operations from one table, and
//! where it is served. A test holds that every route is described and every described path routes.

mod operations;

use std::sync::LazyLock;

use actix_web::HttpResponse;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::accounts::AccountList;
use crate::answer::{AcceptedPayment, CreatedPayment};
use crate::call::Call;
use crate::problem::{Problem, ProblemDocument};
use crate::read::PaymentList;
use crate::request::PaymentRequest;
use crate::topics::CloudEvent;

const ABOUT: &str = "Create a payment, show the payer its page or QR code with a countdown, learn the outcome. \
    Every request but the one for this document carries the shop's key. Amounts are integers in minor units of their \
    currency (ISO 4217); times are RFC 3339. Errors are problem documents (RFC 9457) with a stable `code`; \
    new members may be added to any document, so ignore what you don't know. \
    \"Contract\" is the payment gateway partner contract of the project's documentation.";

/// The name of the shop's key among the security schemes.
const BEARER: &str = "shopKey";

static DOCUMENT: LazyLock<String> = LazyLock::new(|| format!("{:#}", describe()));

/// The description as JSON.
pub fn document() -> &'static str {
    &DOCUMENT
}

/// `GET /openapi.json`
pub(crate) async fn serve(_call: &mut Call) -> Result<HttpResponse, Problem> {
    Ok(HttpResponse::Ok().content_type("application/json").body(document()))
}

fn describe() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Payfold: the shop listener",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
        },
        "paths": operations::paths(),
        "components": {
            "schemas": schemas(),
            "securitySchemes": {
                (BEARER): {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The shop's key, as `payfold shop add` printed it.",
                },
            },
        },
        "security": [{ (BEARER): [] }],
    })
}

/// What is taken and answered, and what those refer to; as written: what is always there is required.
fn schemas() -> Map<String, Value> {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings =
        settings.with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    generator.subschema_for::<PaymentRequest>();
    generator.subschema_for::<CreatedPayment>();
    generator.subschema_for::<AcceptedPayment>();
    generator.subschema_for::<PaymentList>();
    generator.subschema_for::<AccountList>();
    generator.subschema_for::<CloudEvent<'_>>();
    generator.subschema_for::<ProblemDocument>();
    let mut schemas = generator.take_definitions(false);
    schemas.values_mut().for_each(never_null);
    schemas
}

/// A member that may be absent is left out then: its type doesn't say null.
fn never_null(schema: &mut Value) {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let members = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, member) in members.into_iter().flatten() {
        let may_be_absent = !required.iter().any(|required| required == name);
        let types = member.get_mut("type").filter(|_| may_be_absent);
        if let Some(kind) = types
            && let Some([one, null]) = kind.as_array().map(Vec::as_slice)
            && null == "null"
        {
            *kind = one.clone();
        }
    }
}

#[cfg(test)]
mod tests;
