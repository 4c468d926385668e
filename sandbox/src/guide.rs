//! Owns the sandbox's front page: what it is, and every word of trouble with what must come of it.

use actix_web::HttpResponse;
use actix_web::web::Data;
use maud::{Markup, html};

use crate::expected::{Expectation, expected};
use crate::look::{self, Frame, Nonce};
use crate::partner::Partner;
use crate::trouble::{Trouble, Troubles};

/// `GET /`.
pub(crate) async fn show(partner: Data<Partner>) -> HttpResponse {
    let nonce = Nonce::new(partner.clock.request_id());
    let document =
        look::document(&Frame { title: "Sandbox partner", script: None }, &nonce, &body());
    look::html(200, &nonce, &document)
}

fn body() -> Markup {
    html! {
        main.wide {
            (look::ribbon())
            div.inside {
                h1 { "A simulated payment gateway partner" }
                p {
                    "A payment waits here for its payer, at its page or its QR code. One whose description ends in "
                    code { "#word" } " or " code { "#word+word" } " needs nobody: it is paid, or goes wrong, as asked."
                }
                div.scroll {
                    table {
                        thead { tr { th { "Word" } th { "The shop is answered" } th { "The order becomes" } th { "Flags" } } }
                        tbody { @for trouble in Trouble::ALL { (row(trouble)) } }
                    }
                }
            }
        }
    }
}

fn row(trouble: Trouble) -> Markup {
    let words = Troubles::new([trouble]).expect("a word goes with itself");
    let Expectation { create, state, flags, .. } = expected(&words);
    html! {
        tr {
            td { code { "#" (trouble.name()) } }
            td { (create.status) @if let Some(code) = create.code { " " code { (code) } } }
            td { (state.as_str()) }
            td { @for (flag, severity) in flags { (flag.as_str()) " (" (severity.as_str()) ") " } }
        }
    }
}
