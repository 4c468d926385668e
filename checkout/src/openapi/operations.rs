//! Owns the description of each operation: its parameters, headers and answers, and the problems it
//! may answer with.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::paths;
use crate::problem::kinds::{self, ProblemKind};
use crate::read::{PAGE_DEFAULT, PAGE_MAX, WAIT_S_MAX};
use crate::topics::{LINES_DEFAULT, LINES_MAX, NEXT, TOPICS};
use crate::version::Version;

/// The operations of every path.
pub(super) fn paths() -> Value {
    json!({
        (paths::PAYMENTS): { "get": list(), "post": create() },
        (paths::PAYMENT): { "get": payment() },
        (paths::EVENTS): { "get": events() },
        (paths::PARTNERS): { "get": partners() },
        (paths::TOPIC): { "get": topic() },
        (paths::OPENAPI): { "get": document() },
    })
}

fn create() -> Value {
    let key = "Identifies this request of the shop for ever: 1 to 255 printable ASCII characters \
        (IETF httpapi draft). The same key with the same body is answered as the order stands \
        now and never creates a second payment; after any error without an answer, send the same \
        again.";
    let answers = json!({
        "201": {
            "description":
                "The partner opened a session: show the payer its page or QR code. `expiresAt` and \
                 `providerRef` are always there, and what was asked for.",
            "headers": { "Location": header("The payment's path.") },
            "content": json_of("Payment"),
        },
        "202": {
            "description":
                "The partner's answer is unknown. Keep reading the payment; do not \
                create another one for it.",
            "headers": {
                "Location": header("The payment's path."),
                "Retry-After": header("Seconds after which to read the payment."),
            },
            "content": json_of("Payment"),
        },
    });
    json!({
        "operationId": "createPayment",
        "summary": "Create a payment",
        "description":
            "Asks the partner for a session (contract 2.1, 2.2). 502 says that the attempt \
             definitely failed: a new one may be made, with a new Idempotency-Key. Its `code` is \
             `partner_refused`, `partner_unreachable`, `contract_violation.<rule>`, or \
             `not_called` if the storage failed before the call.",
        "parameters": [required("header", "Idempotency-Key", text_to(255), key)],
        "requestBody": { "content": json_of("PaymentRequest"), "required": true },
        "responses": with_problems(answers, CREATE_PROBLEMS),
    })
}

fn list() -> Value {
    let reference = "The shop's own reference for what is paid: lists the attempts at it.";
    let order_id = "The id that the browser returns with: lists the payment with it. Either this \
        or `reference` is required.";
    let page = json!({ "description": "A page of payments.", "content": json_of("PaymentList") });
    json!({
        "operationId": "listPayments",
        "summary": "List the attempts at a reference, the newest last, or find an order id",
        "parameters": [
            optional("query", "reference", text_to(128), reference),
            optional("query", "orderId", text_to(64), order_id),
            limit("payments", PAGE_DEFAULT, PAGE_MAX),
            optional("query", "after", text(), "`next` of the page before; with `reference`."),
        ],
        "responses": with_problems(json!({ "200": page }), &[&kinds::BAD_PARAMETER]),
    })
}

fn payment() -> Value {
    let [partner, merchant_code, order_id] = payment_key();
    let version = json!({ "type": "string", "pattern": Version::PATTERN });
    let about_version = "The version that is known already, `epoch.version`.";
    let about_tag = "The ETag that the client has already (RFC 9110).";
    let etag = json!({ "ETag": header("The payment's version in quotes, such as `\"1.3\"`.") });
    let answers = json!({
        "200": { "description": "The payment.", "headers": etag, "content": json_of("Payment") },
        "304": {
            "description": "The payment has not changed: If-None-Match names its version.",
            "headers": etag,
        },
    });
    let problems = &[&kinds::BAD_PARAMETER, &kinds::NOT_FOUND, &kinds::TOO_MANY_FOLLOWERS];
    json!({
        "operationId": "getPayment",
        "summary": "Read a payment",
        "description":
            "With `wait` this is a long poll. It is answered as soon as the payment is newer \
             than `version` (or than the tag of If-None-Match); if neither is given, as soon as \
             the payment exists. When the wait ends it is answered with the payment as it is. A \
             payment exists once it is folded, some milliseconds after the 201 or 202.",
        "parameters": [
            partner,
            merchant_code,
            order_id,
            wait("a newer version"),
            optional("query", "version", version, about_version),
            optional("header", "If-None-Match", text(), about_tag),
        ],
        "responses": with_problems(answers, problems),
    })
}

fn events() -> Value {
    let [partner, merchant_code, order_id] = payment_key();
    let last = "The id of the last event that was received: the stream goes on after it.";
    let stream = json!({
        "description":
            "Server-sent events: `id` is the version, `event` is `payment`, `data` is the \
             Payment as JSON. The first event is the payment as it is, unless Last-Event-ID \
             names that version; its newest state follows after changes. A comment is sent after \
             15 s without an event. The stream ends when the process is replaced: open it again.",
        "headers": {
            "Cache-Control": header("Always `no-store`."),
            "X-Accel-Buffering": header("Always `no`: proxies must not buffer events."),
        },
        "content": { "text/event-stream": { "schema": text() } },
    });
    let problems = &[&kinds::NOT_FOUND, &kinds::TOO_MANY_FOLLOWERS];
    json!({
        "operationId": "followPayment",
        "summary": "Follow a payment live",
        "parameters": [
            partner,
            merchant_code,
            order_id,
            optional("header", "Last-Event-ID", text(), last),
        ],
        "responses": with_problems(json!({ "200": stream }), problems),
    })
}

fn partners() -> Value {
    let accounts = json!({ "description": "The accounts.", "content": json_of("AccountList") });
    json!({
        "operationId": "listPartners",
        "summary": "List the shop's accounts at its partners",
        "responses": with_problems(json!({ "200": accounts }), &[]),
    })
}

fn topic() -> Value {
    let names = json!({ "type": "string", "enum": TOPICS.map(|topic| topic.name()) });
    let about_names = "`orders`: order.changed events; `findings`: the findings of reconciliation.";
    let about_after = format!(
        "A position such as `0-1234`, or several with commas, one per partition: the {NEXT} of the \
         answer before."
    );
    let lines = json!({
        "description":
            "One CloudEvent (see the schema of that name) a line, of the shop's accounts only. \
             There may be none.",
        "headers": {
            (NEXT): header("The `after` of the next request, also if there is no line."),
        },
        "content": { "application/x-ndjson": { "schema": text() } },
    });
    let problems = &[
        &kinds::BAD_PARAMETER,
        &kinds::BAD_POSITION,
        &kinds::NOT_FOUND,
        &kinds::POSITION_GONE,
        &kinds::TOO_MANY_FOLLOWERS,
    ];
    json!({
        "operationId": "readTopic",
        "summary": "Read the events of a topic",
        "description":
            "Without `after`, from the beginning. Events of one order come in the order of their \
             versions. An event may come twice, with the same id.",
        "parameters": [
            required("path", "topic", names, about_names),
            optional("query", "after", text(), &about_after),
            limit("lines", LINES_DEFAULT, LINES_MAX),
            wait("a first line"),
        ],
        "responses": with_problems(json!({ "200": lines }), problems),
    })
}

fn document() -> Value {
    let document = json!({ "application/json": { "schema": { "type": "object" } } });
    json!({
        "operationId": "getDescription",
        "summary": "Read this document",
        "security": [{}],
        "responses": { "200": { "description": "This document.", "content": document } },
    })
}

/// The problems of `POST /v1/payments`, besides those of every operation.
const CREATE_PROBLEMS: &[&ProblemKind] = &[
    &kinds::BAD_REQUEST,
    &kinds::EMPTY_BODY,
    &kinds::MALFORMED_JSON,
    &kinds::NOT_AN_OBJECT,
    &kinds::DUPLICATE_FIELD,
    &kinds::IDEMPOTENCY_KEY_MISSING,
    &kinds::REQUEST_TIMEOUT,
    &kinds::IDEMPOTENCY_KEY_IN_FLIGHT,
    &kinds::BODY_TOO_LARGE,
    &kinds::UNSUPPORTED_MEDIA_TYPE,
    &kinds::UNSUPPORTED_CONTENT_ENCODING,
    &kinds::UNKNOWN_FIELD,
    &kinds::MISSING_FIELD,
    &kinds::EMPTY_FIELD,
    &kinds::WRONG_TYPE,
    &kinds::WRONG_VALUE,
    &kinds::FIELD_TOO_LONG,
    &kinds::ILLEGAL_CHARACTER,
    &kinds::TOO_MANY_ENTRIES,
    &kinds::AMOUNT_NOT_INTEGER,
    &kinds::AMOUNT_OUT_OF_RANGE,
    &kinds::UNKNOWN_CURRENCY,
    &kinds::BAD_TIMESTAMP,
    &kinds::EXPIRES_AT_PAST,
    &kinds::UNKNOWN_ACCOUNT,
    &kinds::UNKNOWN_RETURN_TO,
    &kinds::PRESENTATION_NOT_SUPPORTED,
    &kinds::CURRENCY_NOT_SUPPORTED,
    &kinds::AMOUNT_NOT_SUPPORTED,
    &kinds::CREATE_NOT_SUPPORTED,
    &kinds::IDEMPOTENCY_KEY_REUSED,
    &kinds::INTERNAL,
    &kinds::PARTNER_REFUSED,
    &kinds::PARTNER_UNREACHABLE,
    &kinds::CONTRACT_VIOLATION,
    &kinds::NOT_CALLED,
    &kinds::PARTNER_BUSY,
    &kinds::ACCOUNT_NOT_READY,
];

/// Adds the answer of each status that a problem has, with the codes; also of the problems that
/// every operation may have.
fn with_problems(mut answers: Value, own: &[&ProblemKind]) -> Value {
    let common = [&kinds::UNAUTHENTICATED, &kinds::STORAGE_UNAVAILABLE, &kinds::METHOD_NOT_ALLOWED];
    let mut by_status: BTreeMap<u16, Vec<&ProblemKind>> = BTreeMap::new();
    for kind in own.iter().chain(&common) {
        by_status.entry(kind.status).or_default().push(kind);
    }
    for (status, kinds) in by_status {
        answers[status.to_string()] = problem(status, &kinds);
    }
    answers
}

fn problem(status: u16, kinds: &[&ProblemKind]) -> Value {
    let codes: Vec<_> =
        kinds.iter().map(|kind| format!("`{}`: {}.", kind.code, kind.title)).collect();
    let mut answer = json!({
        "description": codes.join(" "),
        "content": { "application/problem+json": { "schema": reference("Problem") } },
    });
    match status {
        401 => answer["headers"]["WWW-Authenticate"] = header(r#"`Bearer realm="payfold"`."#),
        405 => answer["headers"]["Allow"] = header("The methods this path takes."),
        _ => {}
    }
    if kinds.iter().any(|kind| kind.retry_after_s.is_some()) {
        let about = "Seconds after which to send the same request again.";
        answer["headers"]["Retry-After"] = header(about);
    }
    answer
}

/// The three path parameters that identify a payment.
fn payment_key() -> [Value; 3] {
    [
        required("path", "partner", text(), "The gateway partner's code."),
        required("path", "merchantCode", text(), "The account at the partner (contract 2.1)."),
        required("path", "orderId", text(), "The attempt: the orderId of the 201 or 202."),
    ]
}

fn limit(what: &str, default: usize, maximum: usize) -> Value {
    let schema = json!({ "type": "integer", "default": default, "minimum": 1, "maximum": maximum });
    optional("query", "limit", schema, &format!("The most {what} of one answer."))
}

fn wait(what: &str) -> Value {
    let schema = json!({ "type": "integer", "format": "int32", "minimum": 0 });
    let about =
        format!("Seconds to wait for {what}; more than {WAIT_S_MAX} counts as {WAIT_S_MAX}.");
    optional("query", "wait", schema, &about)
}

fn required(place: &str, name: &str, schema: Value, about: &str) -> Value {
    json!({ "in": place, "name": name, "required": true, "schema": schema, "description": about })
}

fn optional(place: &str, name: &str, schema: Value, about: &str) -> Value {
    json!({ "in": place, "name": name, "required": false, "schema": schema, "description": about })
}

fn header(about: &str) -> Value {
    json!({ "schema": text(), "description": about })
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn text_to(chars: usize) -> Value {
    json!({ "type": "string", "maxLength": chars })
}

fn json_of(schema: &str) -> Value {
    json!({ "application/json": { "schema": reference(schema) } })
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}
