//! Owns the description of each operation: parameters, headers, answers, and which problems it may answer with.

use std::collections::BTreeMap;

use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{
    Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn, PathItem, Paths,
    PathsBuilder,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Ref, Schema, SchemaFormat, Type};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{Content, Header, HttpMethod, Required};

use crate::http;
use crate::problem::kinds::{self, Kind};
use crate::read::{PAGE, PAGE_MAX, WAIT_S_MAX};
use crate::topics::{LINES, LINES_MAX, NEXT, TOPICS};

/// Every path.
pub(super) fn paths() -> Paths {
    let get = |operation| PathItem::new(HttpMethod::Get, operation);
    let mut payments = get(list());
    payments.merge_operations(PathItem::new(HttpMethod::Post, create()));
    PathsBuilder::new()
        .path(http::PAYMENTS, payments)
        .path(http::PAYMENT, get(payment()))
        .path(http::EVENTS, get(events()))
        .path(http::PARTNERS, get(partners()))
        .path(http::TOPIC, get(topic()))
        .path(http::OPENAPI, get(description()))
        .build()
}

fn create() -> Operation {
    let key = parameter("Idempotency-Key", ParameterIn::Header, text().max_length(Some(255)))
        .description(Some(
            "Names this request of the shop for ever: 1 to 255 printable ASCII characters (IETF httpapi draft). The \
             same key with the same body is answered as the first time and never creates a second payment; after \
             any error without an answer, send the same again.",
        ));
    let body = RequestBodyBuilder::new()
        .content("application/json", content_of("PaymentRequest"))
        .required(Some(Required::True));
    let created =
        json("CreatedPayment", "The partner opened a session: show the payer its page or QR code.")
            .header("Location", header("The payment's path."));
    let accepted = json(
        "AcceptedPayment",
        "The partner's answer is unknown. Keep reading the payment; do not create another one for it.",
    )
    .header("Location", header("The payment's path."))
    .header("Retry-After", header("Seconds after which to read it."));
    let operation = OperationBuilder::new()
        .operation_id(Some("createPayment"))
        .summary(Some("Create a payment"))
        .description(Some(
            "Asks the partner for a session (contract 2.1, 2.2). 502 tells that the attempt definitely failed: a new \
             one may be made, under a new Idempotency-Key. Its `code` is `partner_refused`, `partner_unreachable`, \
             `contract_violation.<rule>`, or `not_called` where the storage was in trouble before the call.",
        ))
        .parameter(key)
        .request_body(Some(body.build()))
        .response("201", created)
        .response("202", accepted);
    with_problems(operation, CREATE_PROBLEMS).build()
}

fn list() -> Operation {
    let reference = parameter("reference", ParameterIn::Query, text().max_length(Some(128)))
        .description(Some("The shop's own name for what is paid."));
    let operation = OperationBuilder::new()
        .operation_id(Some("listPayments"))
        .summary(Some("List the attempts at a reference, the newest last"))
        .parameter(reference)
        .parameter(limit("Payments", PAGE, PAGE_MAX))
        .parameter(
            optional("after", ParameterIn::Query, text())
                .description(Some("`next` of the page before.")),
        )
        .response("200", json("PaymentList", "A page of payments."));
    with_problems(operation, &[&kinds::BAD_PARAMETER]).build()
}

fn payment() -> Operation {
    let version = text().pattern(Some("^[0-9]+\\.[0-9]+$"));
    let etag = || header("The payment's version in quotes, such as `\"1.3\"`.");
    let operation = named(OperationBuilder::new())
        .operation_id(Some("getPayment"))
        .summary(Some("Read a payment"))
        .description(Some(
            "With `wait` it is a long poll: answered as soon as the payment is newer than `version` (or than the tag \
             of If-None-Match), or is there at all if neither is given; else as it is when the wait ends. A payment \
             is there once it was folded, some milliseconds after 201 or 202.",
        ))
        .parameter(optional("wait", ParameterIn::Query, seconds()).description(Some(format!(
            "Seconds to wait for a newer version; over {WAIT_S_MAX} is {WAIT_S_MAX}."
        ))))
        .parameter(
            optional("version", ParameterIn::Query, version)
                .description(Some("The version that is known already, `generation.version`.")),
        )
        .parameter(
            optional("If-None-Match", ParameterIn::Header, text())
                .description(Some("The ETag that is known already (RFC 9110).")),
        )
        .response("200", json("Payment", "The payment.").header("ETag", etag()))
        .response(
            "304",
            ResponseBuilder::new()
                .description("It is what If-None-Match names.")
                .header("ETag", etag()),
        );
    let problems = &[&kinds::BAD_PARAMETER, &kinds::NOT_FOUND, &kinds::TOO_MANY_FOLLOWERS];
    with_problems(operation, problems).build()
}

fn events() -> Operation {
    let stream = ResponseBuilder::new()
        .description(
            "Server-sent events: `id` is the version, `event` is `payment`, `data` is the Payment as JSON. The first \
             tells the payment as it is, unless Last-Event-ID names that; then each change. A comment comes every \
             15 s. The stream ends when the process is replaced: come again.",
        )
        .content("text/event-stream", content(text()))
        .header("Cache-Control", header("Always `no-store`."))
        .header("X-Accel-Buffering", header("Always `no`: proxies must not keep events back."));
    let operation = named(OperationBuilder::new())
        .operation_id(Some("followPayment"))
        .summary(Some("Follow a payment live"))
        .parameter(
            optional("Last-Event-ID", ParameterIn::Header, text())
                .description(Some("The id of the last event that came, to go on after it.")),
        )
        .response("200", stream);
    with_problems(operation, &[&kinds::NOT_FOUND, &kinds::TOO_MANY_FOLLOWERS]).build()
}

fn partners() -> Operation {
    let operation = OperationBuilder::new()
        .operation_id(Some("listPartners"))
        .summary(Some("List the shop's accounts at its partners"))
        .response("200", json("AccountList", "The accounts."));
    with_problems(operation, &[]).build()
}

fn topic() -> Operation {
    let names = text().enum_values(Some(TOPICS.map(|topic| topic.name())));
    let lines = ResponseBuilder::new()
        .description(
            "One CloudEvent (see the schema of that name) a line, of the shop's accounts only; maybe none.",
        )
        .content("application/x-ndjson", content(text()))
        .header(NEXT, header("The position to go on after; also when there is no line."));
    let operation = OperationBuilder::new()
        .operation_id(Some("readTopic"))
        .summary(Some("Read the events of a topic"))
        .description(Some(
            "From the beginning without `after`. Events of one order come in the order of their versions; one may \
             come twice, under the same id.",
        ))
        .parameter(
            parameter("topic", ParameterIn::Path, names)
                .description(Some("`orders`: order.changed; `findings`: what reconciliation found.")),
        )
        .parameter(optional("after", ParameterIn::Query, text()).description(Some(format!(
            "A position such as `0-1234`, or several with commas, one per partition: {NEXT} of the answer before."
        ))))
        .parameter(limit("Lines", LINES, LINES_MAX))
        .parameter(optional("wait", ParameterIn::Query, seconds()).description(Some(format!(
            "Seconds to wait for a first line; over {WAIT_S_MAX} is {WAIT_S_MAX}."
        ))))
        .response("200", lines);
    let problems = &[
        &kinds::BAD_PARAMETER,
        &kinds::BAD_POSITION,
        &kinds::NOT_FOUND,
        &kinds::POSITION_GONE,
        &kinds::TOO_MANY_FOLLOWERS,
    ];
    with_problems(operation, problems).build()
}

fn description() -> Operation {
    let document = ObjectBuilder::new().schema_type(Type::Object);
    let response = ResponseBuilder::new()
        .description("This document.")
        .content("application/json", content(document));
    OperationBuilder::new()
        .operation_id(Some("getDescription"))
        .summary(Some("Read this document"))
        .security(SecurityRequirement::default())
        .response("200", response)
        .build()
}

/// What `POST /v1/payments` may answer with, besides what every operation may.
const CREATE_PROBLEMS: &[&Kind] = &[
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
    &kinds::SEPARATOR_IN_FIELD,
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

/// Adds a response per status, with the codes of each, and what every operation may answer with.
fn with_problems(operation: OperationBuilder, own: &[&Kind]) -> OperationBuilder {
    let common = [&kinds::UNAUTHENTICATED, &kinds::STORAGE_UNAVAILABLE, &kinds::METHOD_NOT_ALLOWED];
    let mut by_status: BTreeMap<u16, Vec<&Kind>> = BTreeMap::new();
    for kind in own.iter().chain(&common) {
        by_status.entry(kind.status).or_default().push(kind);
    }
    by_status.into_iter().fold(operation, |operation, (status, kinds)| {
        operation.response(status.to_string(), problem(status, &kinds))
    })
}

fn problem(status: u16, kinds: &[&Kind]) -> Response {
    let codes: Vec<_> =
        kinds.iter().map(|kind| format!("`{}`: {}.", kind.code, kind.title)).collect();
    let response = ResponseBuilder::new()
        .description(codes.join(" "))
        .content("application/problem+json", content_of("Problem"));
    let response = match status {
        401 => response.header("WWW-Authenticate", header("`Bearer realm=\"payfold\"`.")),
        405 => response.header("Allow", header("The methods this path takes.")),
        _ => response,
    };
    let comes_again = kinds.iter().any(|kind| kind.retry_after_s.is_some());
    let retry_after = || header("Seconds after which to send the same request again.");
    if comes_again {
        response.header("Retry-After", retry_after()).build()
    } else {
        response.build()
    }
}

/// The three parameters that name a payment.
fn named(operation: OperationBuilder) -> OperationBuilder {
    operation
        .parameter(
            parameter("partner", ParameterIn::Path, text())
                .description(Some("The gateway partner's code.")),
        )
        .parameter(
            parameter("merchantCode", ParameterIn::Path, text())
                .description(Some("The account at the partner (contract 2.1).")),
        )
        .parameter(
            parameter("orderId", ParameterIn::Path, text())
                .description(Some("The attempt, as 201 or 202 told it.")),
        )
}

fn limit(what: &str, usual: usize, most: usize) -> Parameter {
    let schema = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .minimum(Some(1))
        .maximum(Some(most))
        .default(Some(usual.into()));
    optional("limit", ParameterIn::Query, schema)
        .description(Some(format!("{what} of the answer at most.")))
        .build()
}

fn parameter(name: &str, place: ParameterIn, schema: impl Into<Schema>) -> ParameterBuilder {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
        .required(Required::True)
        .schema(Some(schema.into()))
}

fn optional(name: &str, place: ParameterIn, schema: impl Into<Schema>) -> ParameterBuilder {
    parameter(name, place, schema).required(Required::False)
}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn seconds() -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int32)))
        .minimum(Some(0))
}

fn header(description: &str) -> Header {
    HeaderBuilder::new().schema(Some(text())).description(Some(description)).build()
}

fn json(schema: &str, description: &str) -> ResponseBuilder {
    ResponseBuilder::new().description(description).content("application/json", content_of(schema))
}

fn content_of(schema: &str) -> Content {
    ContentBuilder::new().schema(Some(Ref::from_schema_name(schema))).build()
}

fn content(schema: impl Into<Schema>) -> Content {
    ContentBuilder::new().schema(Some(schema.into())).build()
}
