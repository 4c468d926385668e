//! Owns the sandbox's front page: a table of all trouble keywords with their expected results.

use actix_web::HttpResponse;
use actix_web::web::Data;
use maud::{Markup, html};
use payfold_schemas::ids::PartnerCode;

use crate::expectation::{Expectation, expect_outcome};
use crate::layout::{self, DocumentFrame, Nonce};
use crate::partner::Partner;
use crate::trouble::Trouble;
use crate::troubles::Troubles;

/// Handles `GET /`.
pub(crate) async fn show(partner: Data<Partner>) -> HttpResponse {
    let nonce = Nonce::new(partner.clock.request_id());
    let document = layout::render_document(
        &DocumentFrame { title: "Sandbox partner", script: None },
        &nonce,
        &render_body(partner.create_endpoint.profile.partner()),
    );
    layout::respond_html(200, &nonce, &document)
}

fn render_body(played: &PartnerCode) -> Markup {
    html! {
        main.wide {
            (layout::render_ribbon())
            div.inside {
                h1 { "A simulated payment gateway partner: " (played.as_str()) }
                p {
                    "A payment waits for its payer at its page or QR code. If its description \
                     ends in "
                    code { "#word" } " or " code { "#word+word" }
                    ", it needs no payer: it is paid, or fails, as requested. The outcomes are \
                     those of the contract: another profile may have no value that a word is about."
                }
                div.scroll {
                    table {
                        thead { tr {
                            th { "Word" }
                            th { "The shop is answered" }
                            th { "The order becomes" }
                            th { "Flags" }
                        } }
                        tbody { @for trouble in Trouble::ALL { (render_row(trouble)) } }
                    }
                }
            }
        }
    }
}

fn render_row(trouble: Trouble) -> Markup {
    let troubles = Troubles::new([trouble]).expect("a keyword does not conflict with itself");
    let Expectation { create, state, flags, .. } = expect_outcome(&troubles);
    html! {
        tr {
            td { code { "#" (trouble.name()) } }
            td { (create.status) @if let Some(code) = create.code { " " code { (code) } } }
            td { (state.as_str()) }
            td { @for (flag, severity) in flags { (flag.as_str()) " (" (severity.as_str()) ") " } }
        }
    }
}
