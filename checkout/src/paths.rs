//! Owns the paths of the shop listener, for the routes and the OpenAPI document.

/// Creates a payment; lists the attempts at a reference.
pub(crate) const PAYMENTS: &str = "/v1/payments";
/// Reads a payment.
pub(crate) const PAYMENT: &str = "/v1/payments/{partner}/{merchantCode}/{orderId}";
/// Follows a payment.
pub(crate) const EVENTS: &str = "/v1/payments/{partner}/{merchantCode}/{orderId}/events";
/// Lists the shop's accounts.
pub(crate) const PARTNERS: &str = "/v1/partners";
/// Reads a topic.
pub(crate) const TOPIC: &str = "/v1/topics/{topic}";
/// The OpenAPI document.
pub(crate) const OPENAPI: &str = "/openapi.json";
/// The OpenAPI document as a page.
pub(crate) const DOCS: &str = "/docs";
/// The script of that page.
pub(crate) const DOCS_SCRIPT: &str = "/docs/rapidoc.js";

/// Every path of the API.
pub const PATHS: [&str; 6] = [PAYMENTS, PAYMENT, EVENTS, PARTNERS, TOPIC, OPENAPI];
