//! Owns the hosted page: the payment, the remaining time, and the payer's buttons. The page works
//! without scripts, in a frame and in a WebView. The remaining time comes from the server, never
//! from the visitor's clock.

use maud::{Markup, html};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;

use crate::layout::{self, COUNTDOWN, DocumentFrame, Nonce};
use crate::partner::Partner;
use crate::payment::{Payer, Payment};

/// The circumference of the countdown ring with radius 19.
const RING_LENGTH: f64 = 119.4;

/// Longer amounts are shown in a smaller font, so that they fit on one line at 360 px.
const LINE_CHARS_MAX: usize = 11;

/// The data of a payment that its page shows.
#[derive(Clone, Debug)]
pub(crate) struct PageView {
    pub(crate) page: String,
    pub(crate) merchant: String,
    pub(crate) order: String,
    pub(crate) provider_ref: String,
    pub(crate) description: String,
    pub(crate) amount: Amount,
    pub(crate) currency: Currency,
    pub(crate) stage: PageState,
    pub(crate) expires_at: Time,
    pub(crate) left_ms: i64,
    pub(crate) length_ms: i64,
}

/// The state of a payment for its page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PageState {
    /// A person can act.
    Open,
    /// A plan will act.
    Planned,
    /// The payment ended with this status; the return address, if there is one.
    Ended(Status, Option<String>),
    /// The session time is over, and the payment is not yet ended.
    TimeOver,
}

/// Collects the current data of a payment for its page.
pub(crate) fn view_payment(partner: &Partner, payment: &Payment) -> PageView {
    let now = partner.clock.now();
    let left_ms = payment.expires_at.nanos_since(now).max(0) / 1_000_000;
    let stage = match (partner.find_return(payment), payment.payer) {
        (Some((status, way)), _) => PageState::Ended(status, way),
        (None, Payer::Plan) => PageState::Planned,
        (None, Payer::Person) if left_ms == 0 => PageState::TimeOver,
        (None, Payer::Person) => PageState::Open,
    };
    PageView {
        page: payment.page.to_string(),
        merchant: payment.account.merchant_code().to_string(),
        order: payment.order_id.to_string(),
        provider_ref: payment.provider_ref.to_string(),
        description: payment.description.to_string(),
        amount: payment.amount,
        currency: payment.currency,
        stage,
        expires_at: payment.expires_at,
        left_ms,
        length_ms: payment.expires_at.nanos_since(payment.created_at) / 1_000_000,
    }
}

/// Renders the page of a payment.
pub(crate) fn render_page(view: &PageView, nonce: &Nonce) -> String {
    let body = render_card(
        view,
        &match &view.stage {
            PageState::Open => html! {
                (render_countdown(view))
                form method="post" action={ (view.page) "/pay" } {
                    button.first type="submit" { "Pay " (format_money(view)) }
                    div.pair {
                        button type="submit" formaction={ (view.page) "/fail" } { "Fail" }
                        button type="submit" formaction={ (view.page) "/cancel" } { "Cancel" }
                    }
                }
                p.quiet { "Or close the tab: nothing is sent, and the session ends by itself." }
            },
            other => render_outcome(other),
        },
    );
    render_payment_document(view, nonce, &body)
}

/// Renders the outcome of a payment and the link back to the shop.
pub(crate) fn render_outcome(stage: &PageState) -> Markup {
    let (text, good) = match stage {
        PageState::Ended(Status::Success, _) => ("Paid", true),
        PageState::Ended(Status::Refunded, _) => ("Paid and refunded", true),
        PageState::Ended(Status::Failed, _) => ("Not paid", false),
        PageState::Ended(Status::Expired, _) | PageState::TimeOver => {
            ("This session has ended", false)
        }
        PageState::Open | PageState::Planned => ("This payment is made automatically", true),
    };
    html! {
        div.sign.bad[!good] aria-hidden="true" {
            svg viewBox="0 0 24 24" {
                @if good { path d="M5 12.5l4.5 4.5L19 7.5" {} }
                @else { path d="M7 7l10 10M17 7L7 17" {} }
            }
        }
        p.outcome role="status" { (text) }
        @match stage {
            PageState::Ended(_, Some(address)) => {
                a.button.first href=(address) rel="noreferrer" { "Back to the shop" }
            },
            PageState::Planned => {
                p.quiet { "Its description requests that. Reload the page to see how it ends." }
            },
            PageState::Ended(_, None) | PageState::Open | PageState::TimeOver => {},
        }
    }
}

/// Renders the remaining time, by the server's clock.
pub(crate) fn render_countdown(view: &PageView) -> Markup {
    let seconds = view.left_ms.max(0) / 1_000;
    html! {
        div.clock role="timer" data-left-ms=(view.left_ms) data-length-ms=(view.length_ms) {
            svg viewBox="0 0 44 44" aria-hidden="true" {
                circle cx="22" cy="22" r="19" {}
                circle.left cx="22" cy="22" r="19" transform="rotate(-90 22 22)"
                    stroke-dasharray=(RING_LENGTH) stroke-dashoffset="0" {}
            }
            p {
                b { (seconds / 60) ":" (format!("{:02}", seconds % 60)) }
                "left, until " (format_time_of_day(view.expires_at)) " UTC"
            }
        }
    }
}

/// The time of day in UTC, such as `10:15:00`.
fn format_time_of_day(time: Time) -> String {
    let text = Time::from_unix_ms(time.unix_ms() / 1_000 * 1_000).to_string();
    text.get(11..19).unwrap_or_default().to_owned()
}

fn format_money(view: &PageView) -> String {
    format!("{} {}", layout::format_amount(view.amount, view.currency), view.currency)
}

/// Renders the card of a payment around `inside`.
pub(crate) fn render_card(view: &PageView, inside: &Markup) -> Markup {
    let amount = layout::format_amount(view.amount, view.currency);
    html! {
        main {
            (layout::render_ribbon())
            div.inside {
                h1 { (view.merchant) }
                p.money.long[amount.len() > LINE_CHARS_MAX] {
                    (amount) " " small { (view.currency) }
                }
                p.what { (view.description) }
                (inside)
                dl {
                    dt { "Order" } dd { code { (view.order) } }
                    dt { "Reference" } dd { code { (view.provider_ref) } }
                }
            }
        }
    }
}

/// Renders the card of a payment as a complete document.
pub(crate) fn render_payment_document(view: &PageView, nonce: &Nonce, body: &Markup) -> String {
    let title = format!("Pay {} to {} (sandbox)", format_money(view), view.merchant);
    let script = (view.stage == PageState::Open).then_some(COUNTDOWN);
    layout::render_document(&DocumentFrame { title: &title, script }, nonce, body)
}

/// Renders the page for an unknown payment.
pub(crate) fn render_unknown(nonce: &Nonce) -> String {
    let body = html! {
        main {
            (layout::render_ribbon())
            div.inside {
                h1 { "There is no such payment here" }
                p.quiet {
                    "It was never created, or it ended so long ago that the sandbox no longer \
                     remembers it."
                }
            }
        }
    };
    layout::render_document(
        &DocumentFrame { title: "No such payment (sandbox)", script: None },
        nonce,
        &body,
    )
}

#[cfg(test)]
mod tests;
