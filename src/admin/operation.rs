//! Owns the description of one route of the admin listener, as OpenAPI 3.1 has it.

use payfold_partners::token::Permission;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use payfold_api::call::{Call, CallMethod, Problem};

/// The name of the token among the security schemes.
pub(super) const BEARER: &str = "adminToken";

/// Makes the schemas of a call's request and answer.
struct Types {
    method: CallMethod,
    status: u16,
    permission: Permission,
    query: fn(&mut SchemaGenerator) -> Schema,
    body: fn(&mut SchemaGenerator) -> Schema,
    answer: fn(&mut SchemaGenerator) -> Schema,
}

/// A route.
pub(super) struct Operation {
    pub(super) path: &'static str,
    pub(super) method: &'static str,
    summary: &'static str,
    /// `None` for a page, which needs no token.
    types: Option<Types>,
}

impl Operation {
    pub(super) fn of_call<Q: JsonSchema, A: JsonSchema>(call: &Call<Q, A>) -> Self {
        let types = Types {
            method: call.method,
            status: call.status,
            permission: call.permission,
            query: Q::json_schema,
            body: |generator| generator.subschema_for::<Q>(),
            answer: |generator| generator.subschema_for::<A>(),
        };
        let method = if call.method == CallMethod::Get { "get" } else { "post" };
        Self { path: call.path, method, summary: call.summary, types: Some(types) }
    }

    pub(super) fn of_page(path: &'static str, summary: &'static str) -> Self {
        Self { path, method: "get", summary, types: None }
    }

    /// Describes the route. Adds the schemas that it refers to, to the generators.
    pub(super) fn describe(
        &self,
        requests: &mut SchemaGenerator,
        answers: &mut SchemaGenerator,
    ) -> Value {
        let mut parameters = path_parameters(self.path);
        let problem =
            json!({ "application/problem+json": { "schema": answers.subschema_for::<Problem>() } });
        let mut described = json!({
            "operationId": operation_id(self.method, self.path),
            "summary": self.summary,
            "responses": {
                "default": { "description": "Why nothing is done.", "content": problem },
            },
        });
        match &self.types {
            None => {
                described["security"] = json!([{}]);
                described["responses"]["200"] = json!({ "description": self.summary });
            }
            Some(types) => {
                described["description"] = format!("Roles: {}.", types.permission.roles()).into();
                let answer = (types.answer)(answers);
                described["responses"][types.status.to_string()] = json!({
                    "description": "It is done, or has begun.",
                    "content": { "application/json": { "schema": answer } },
                });
                if types.method == CallMethod::Post {
                    let body = json!({ "application/json": { "schema": (types.body)(requests) } });
                    described["requestBody"] = json!({ "required": true, "content": body });
                } else {
                    parameters.extend(query_parameters(&(types.query)(requests).to_value()));
                }
                if types.method == CallMethod::Upload {
                    let file = json!({ "application/octet-stream": {} });
                    described["requestBody"] = json!({ "required": true, "content": file });
                }
            }
        }
        described["parameters"] = parameters.into();
        described
    }
}

/// `postRebuildPause` of `post /v1/rebuild/pause`.
fn operation_id(method: &str, path: &str) -> String {
    let words = path.split(['/', '{', '}', '.']).filter(|word| !word.is_empty() && *word != "v1");
    let capital = |word: &str| {
        let (first, rest) = word.split_at(1);
        first.to_uppercase() + rest
    };
    method.to_owned() + &words.map(capital).collect::<String>()
}

/// The names in a path.
fn path_parameters(path: &str) -> Vec<Value> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let parameter = |name: &str| {
        let about = match name {
            "partner" => "The partner's code.",
            "merchant" => "Our account at the partner.",
            "order" => "The id of the order.",
            "flag" => "The flag, such as AMOUNT_MISMATCH.",
            "finding" => "The id of the finding, or its first digits.",
            "ticket" => "What the comparison was answered with.",
            "day" => "The day in the zone of the partner's records, such as 2026-01-31.",
            "topic" => "`intake`, `orders`, `findings` or `quarantine`.",
            "position" => "Where the record stands in its topic, such as 0-12.",
            "role" => "A role of this process.",
            _ => "",
        };
        json!({
            "in": "path", "name": name, "required": true, "schema": { "type": "string" },
            "description": about,
        })
    };
    names.map(parameter).collect()
}

/// The members of a request that is a query.
fn query_parameters(request: &Value) -> Vec<Value> {
    let none = Map::new();
    let members = request["properties"].as_object().unwrap_or(&none);
    let is_required = |name: &String| {
        request["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name))
    };
    let parameter = |(name, schema): (&String, &Value)| {
        json!({
            "in": "query", "name": name, "required": is_required(name), "schema": schema,
            "description": schema["description"],
        })
    };
    members.iter().map(parameter).collect()
}
