//! Owns the description of the admin listener (OpenAPI 3.1), made from its routes and the types of
//! its calls.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::operation::{BEARER, Operation};

const ABOUT: &str = "Probes, metrics, and the calls by which people change something. A call \
    carries the token of a person. The name of the token is the author of the change. Amounts \
    are integers in minor units of their currency (ISO 4217); times are RFC 3339. Errors are \
    problem documents (RFC 9457) with a stable `code`; new members may be added to any answer, \
    so ignore what you don't know.";

/// Makes the document of these routes.
pub(super) fn document(operations: &[Operation]) -> Value {
    let set_path = |settings: &mut SchemaSettings| {
        settings.definitions_path = "/components/schemas".into();
    };
    // The schema of a request marks members with a default as optional. The schema of an answer
    // has all members that are written.
    let mut requests = SchemaSettings::draft2020_12().with(set_path).into_generator();
    let mut answers =
        SchemaSettings::draft2020_12().for_serialize().with(set_path).into_generator();
    let mut paths = Map::new();
    for operation in operations {
        let described = operation.describe(&mut requests, &mut answers);
        paths.entry(operation.path).or_insert_with(|| json!({}))[operation.method] = described;
    }
    let mut schemas = requests.take_definitions(false);
    schemas.append(&mut answers.take_definitions(false));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Payfold: the admin listener",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                (BEARER): {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of `payfold token add`, or the data folder's own. The \
                        description of a call names the roles that may make it.",
                },
            },
        },
        "security": [{ (BEARER): [] }],
    })
}
