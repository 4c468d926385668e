//! Owns the hosted page: what is to be paid, how long it may take, and what a person can do. It works without script,
//! in a frame and in a WebView; the time that is left is the server's, never the visitor's clock.

use maud::{Markup, html};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;

use crate::look::{self, COUNTDOWN, Frame, Nonce};
use crate::partner::Partner;
use crate::payment::{Payer, Payment};

/// Around the ring of the countdown: 2π of its radius.
const ROUND: f64 = 119.4;

/// A longer amount is shown smaller, so that it stays on one line at 360 px.
const LINE_CHARS_MAX: usize = 11;

/// What a page shows of a payment.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) page: String,
    pub(crate) merchant: String,
    pub(crate) order: String,
    pub(crate) provider_ref: String,
    pub(crate) description: String,
    pub(crate) amount: Amount,
    pub(crate) currency: Currency,
    pub(crate) stage: Stage,
    pub(crate) expires_at: Time,
    pub(crate) left_ms: i64,
    pub(crate) length_ms: i64,
}

/// Where a payment stands for who looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// A person may act.
    Open,
    /// A plan will.
    Scripted,
    /// It came to this; the way back to the shop, if there is one.
    Ended(Status, Option<String>),
    /// The time is over and nobody has said so yet.
    Over,
}

/// What there is to show of a payment now.
pub(crate) fn shown(partner: &Partner, payment: &Payment) -> Shown {
    let now = partner.clock.now();
    let left_ms = payment.expires_at.nanos_since(now).max(0) / 1_000_000;
    let stage = match (partner.way_back(payment), payment.payer) {
        (Some((status, way)), _) => Stage::Ended(status, way),
        (None, Payer::Plan) => Stage::Scripted,
        (None, Payer::Person) if left_ms == 0 => Stage::Over,
        (None, Payer::Person) => Stage::Open,
    };
    Shown {
        page: payment.page.to_string(),
        merchant: payment.account.merchant_code.to_string(),
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

/// The page of a payment.
pub(crate) fn page(shown: &Shown, nonce: &Nonce) -> String {
    let body = card(
        shown,
        &match &shown.stage {
            Stage::Open => html! {
                (countdown(shown))
                form method="post" action={ (shown.page) "/pay" } {
                    button.first type="submit" { "Pay " (money(shown)) }
                    div.pair {
                        button type="submit" formaction={ (shown.page) "/fail" } { "Fail" }
                        button type="submit" formaction={ (shown.page) "/cancel" } { "Cancel" }
                    }
                }
                p.quiet { "Or close the tab: nothing is sent, and the session ends by itself." }
            },
            other => outcome(other),
        },
    );
    document(shown, nonce, &body)
}

/// What a payment came to, and the way back.
pub(crate) fn outcome(stage: &Stage) -> Markup {
    let (text, good) = match stage {
        Stage::Ended(Status::Success, _) => ("Paid", true),
        Stage::Ended(Status::Refunded, _) => ("Paid and given back", true),
        Stage::Ended(Status::Failed, _) => ("Not paid", false),
        Stage::Ended(Status::Expired, _) | Stage::Over => ("This session has ended", false),
        Stage::Open | Stage::Scripted => ("This payment is made without you", true),
    };
    html! {
        div.sign.bad[!good] aria-hidden="true" {
            svg viewBox="0 0 24 24" {
                @if good { path d="M5 12.5l4.5 4.5L19 7.5" {} } @else { path d="M7 7l10 10M17 7L7 17" {} }
            }
        }
        p.outcome role="status" { (text) }
        @match stage {
            Stage::Ended(_, Some(way)) => a.button.first href=(way) rel="noreferrer" { "Back to the shop" },
            Stage::Scripted => p.quiet { "Its description asks for it. Load the page again to see how it ends." },
            Stage::Ended(_, None) | Stage::Open | Stage::Over => {},
        }
    }
}

/// How long a payer has, by the server's time.
pub(crate) fn countdown(shown: &Shown) -> Markup {
    let seconds = shown.left_ms.max(0) / 1_000;
    html! {
        div.clock role="timer" data-left-ms=(shown.left_ms) data-length-ms=(shown.length_ms) {
            svg viewBox="0 0 44 44" aria-hidden="true" {
                circle cx="22" cy="22" r="19" {}
                circle.left cx="22" cy="22" r="19" transform="rotate(-90 22 22)"
                    stroke-dasharray=(ROUND) stroke-dashoffset="0" {}
            }
            p {
                b { (seconds / 60) ":" (format!("{:02}", seconds % 60)) }
                "left, until " (time_of_day(shown.expires_at)) " UTC"
            }
        }
    }
}

/// `10:15:00` of an instant.
fn time_of_day(time: Time) -> String {
    let text = Time::from_unix_ms(time.unix_ms() / 1_000 * 1_000).to_string();
    text.get(11..19).unwrap_or_default().to_owned()
}

fn money(shown: &Shown) -> String {
    format!("{} {}", look::amount(shown.amount, shown.currency), shown.currency)
}

/// The frame of everything that shows a payment.
pub(crate) fn card(shown: &Shown, inside: &Markup) -> Markup {
    let amount = look::amount(shown.amount, shown.currency);
    html! {
        main {
            (look::ribbon())
            div.inside {
                h1 { (shown.merchant) }
                p.money.long[amount.len() > LINE_CHARS_MAX] { (amount) " " small { (shown.currency) } }
                p.what { (shown.description) }
                (inside)
                dl {
                    dt { "Order" } dd { code { (shown.order) } }
                    dt { "Reference" } dd { code { (shown.provider_ref) } }
                }
            }
        }
    }
}

/// A payment's card as a whole document.
pub(crate) fn document(shown: &Shown, nonce: &Nonce, body: &Markup) -> String {
    let title = format!("Pay {} to {} (sandbox)", money(shown), shown.merchant);
    let script = (shown.stage == Stage::Open).then_some(COUNTDOWN);
    look::document(&Frame { title: &title, script }, nonce, body)
}

/// The page of no payment.
pub(crate) fn unknown(nonce: &Nonce) -> String {
    let body = html! {
        main {
            (look::ribbon())
            div.inside {
                h1 { "There is no such payment here" }
                p.quiet { "It was never made, or it is over for so long that the sandbox has forgotten it." }
            }
        }
    };
    look::document(&Frame { title: "No such payment (sandbox)", script: None }, nonce, &body)
}

#[cfg(test)]
mod tests;
