//! Owns the description of the shop listener (OpenAPI 3.1): schemas from the types, operations from one table, and
//! where it is served. A test holds that every route is described and every described path routes.

mod operations;

use std::sync::LazyLock;

use actix_web::HttpResponse;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Components, ComponentsBuilder, InfoBuilder, OpenApi, OpenApiBuilder};

use crate::accounts::{AccountList, AccountView};
use crate::answer::{AcceptedPayment, CreatedPayment};
use crate::call::Call;
use crate::payment::{Links, Payment};
use crate::problem::{Problem, ProblemDocument};
use crate::read::PaymentList;
use crate::request::{PaymentRequest, WantedPresentation};
use crate::topics::CloudEvent;

const ABOUT: &str = "Create a payment, show the payer its page or QR code with a countdown, learn the outcome. \
    Every request but the one for this document carries the shop's key. Amounts are integers in minor units of their \
    currency (ISO 4217); times are RFC 3339. Errors are problem documents (RFC 9457) with a stable `code`; \
    new members may be added to any document, so ignore what you don't know. \
    \"Contract\" is the payment gateway partner contract of the project's documentation.";

/// The name of the shop's key among the security schemes.
const BEARER: &str = "shopKey";

static DOCUMENT: LazyLock<String> =
    LazyLock::new(|| describe().to_pretty_json().expect("a description is texts and numbers"));

/// The description as JSON.
pub fn document() -> &'static str {
    &DOCUMENT
}

/// `GET /openapi.json`
pub(crate) async fn serve(_call: &mut Call) -> Result<HttpResponse, Problem> {
    Ok(HttpResponse::Ok().content_type("application/json").body(document()))
}

fn describe() -> OpenApi {
    let info = InfoBuilder::new()
        .title("Payfold: the shop listener")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(ABOUT));
    OpenApiBuilder::new()
        .info(info)
        .paths(operations::paths())
        .components(Some(components()))
        .security(Some([SecurityRequirement::new(BEARER, [] as [&str; 0])]))
        .build()
}

fn components() -> Components {
    let mut bearer = Http::new(HttpAuthScheme::Bearer);
    bearer.description = Some("The shop's key, as `payfold shop add` printed it.".to_owned());
    ComponentsBuilder::new()
        .schema_from::<PaymentRequest>()
        .schema_from::<WantedPresentation>()
        .schema_from::<CreatedPayment>()
        .schema_from::<AcceptedPayment>()
        .schema_from::<Payment>()
        .schema_from::<PaymentList>()
        .schema_from::<Links>()
        .schema_from::<AccountList>()
        .schema_from::<AccountView>()
        .schema_from::<CloudEvent>()
        .schema_from::<ProblemDocument>()
        .security_scheme(BEARER, SecurityScheme::Http(bearer))
        .build()
}

#[cfg(test)]
mod tests;
