//! Owns the OpenAPI 3.1 document of the shop listener, and serves it. Schemas come from the types,
//! operations from `operations`. A test ensures that the document and the routes have the same
//! paths.

mod operations;

use std::sync::LazyLock;

use actix_web::HttpResponse;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::accounts::AccountList;
use crate::payment_request::PaymentRequest;
use crate::problem::{Problem, ProblemDocument};
use crate::read::PaymentList;
use crate::shop_request::ShopRequest;
use crate::topics::CloudEvent;

const ABOUT: &str = "Create a payment, show the payer its page or QR code with a countdown, and \
    learn the outcome. Every request but the one for this document carries the shop's key. \
    Amounts are integers in minor units of their currency (ISO 4217); times are RFC 3339. Errors \
    are problem documents (RFC 9457) with a stable `code`; new members may be added to any \
    document, so ignore what you don't know. \"Contract\" is the payment gateway partner \
    contract of the project's documentation.";

/// The name of the shop's key in the security schemes.
const BEARER: &str = "shopKey";

static DOCUMENT: LazyLock<String> = LazyLock::new(|| format!("{:#}", describe()));

/// The OpenAPI document as JSON.
pub fn document() -> &'static str {
    &DOCUMENT
}

/// `GET /openapi.json`
pub(crate) async fn serve(_request: &mut ShopRequest) -> Result<HttpResponse, Problem> {
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

/// The schemas of all requests and answers. A member is required if answers always have it.
fn schemas() -> Map<String, Value> {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings =
        settings.with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    generator.subschema_for::<PaymentRequest>();
    generator.subschema_for::<PaymentList>();
    generator.subschema_for::<AccountList>();
    generator.subschema_for::<CloudEvent<'_>>();
    generator.subschema_for::<ProblemDocument>();
    let mut schemas = generator.take_definitions(false);
    schemas.values_mut().for_each(remove_null);
    schemas
}

/// Removes `null` from the types of optional members: an absent member is left out, never null.
fn remove_null(schema: &mut Value) {
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
