//! Owns the page of one partner: its accounts and keys, what its notices were answered, and how its
//! calls went.

use std::collections::BTreeMap;

use actix_web::web::Path;
use actix_web::{Error, HttpResponse};
use maud::{Markup, html};
use payfold_api::accounts::{AccountInForce, KeyInForce, KeyState};
use payfold_report::text::{count, isolated};
use payfold_schemas::time::Time;

use crate::failure;
use crate::overview::last_notice;
use crate::partners::{self, PartnerState};
use crate::system::System;
use crate::table::{Head, table};
use crate::text::moment;
use crate::visit::Visit;

/// Shows a partner.
pub(crate) async fn show(visit: Visit, partner: Path<String>) -> Result<HttpResponse, Error> {
    let (partners, system) = partners::read(&visit).await?;
    let Some(state) = partners.get(&*partner) else {
        let detail = format!("There is no account at a partner {partner}.");
        return Err(failure::missing(&visit.request, &detail));
    };
    let page =
        PartnerPage { partner: &partner, state, system: &system, now: (visit.console.now)() };
    Ok(visit.answer(&format!("Partner {partner}"), state, || page.render()))
}

struct PartnerPage<'p> {
    partner: &'p str,
    state: &'p PartnerState,
    system: &'p System,
    now: Time,
}

impl PartnerPage<'_> {
    fn render(&self) -> Markup {
        let first = self.state.accounts.first();
        html! {
            @if let Some(first) = first {
                p.over { "Profile version " (first.profile_version) ", " (first.stage) }
            }
            h1 { "Partner " (self.partner) }
            dl.facts {
                div {
                    dt { "Last notice" }
                    dd { (last_notice(&self.state.traffic, self.now)) }
                }
                div { dt { "What its notices made" } dd {
                    a href={ "/orders?partner=" (self.partner) } { "orders, the newest first" } } }
                div { dt { "Refused, and signed" } dd {
                    a href={ "/quarantine?partner=" (self.partner) } { "quarantine" } } }
                div { dt { "What its records say otherwise" } dd {
                    a href={ "/findings?partner=" (self.partner) } { "findings" } } }
                div { dt { "Compared" } dd {
                    a href={ "/days?partner=" (self.partner) } { "days" } } }
            }
            @for account in &self.state.accounts { (self.account(account)) }
            h2 { "Answers to its notices" }
            (self.counts("payfold_ingest_requests_total", "code", "Answer"))
            h2 { "Our calls to create payments" }
            (self.counts("payfold_checkout_creates_total", "outcome", "Outcome"))
        }
    }

    fn account(&self, account: &AccountInForce) -> Markup {
        let heads = [
            Head::Text("Key"),
            Head::Text("For"),
            Head::Text("From"),
            Head::Text("Until"),
            Head::Text("State"),
            Head::Number("Signed since the processes started"),
        ];
        let rows = html! { @for key in &account.keys { (self.key(account, key)) } };
        html! {
            h2 {
                "Account " (account.merchant_code) " "
                @if !account.enabled { span.badge.high { "disabled" } }
            }
            p {
                @if account.allow_sources.is_empty() { "Its notices may come from anywhere. " }
                @else { "Its notices may come from " (account.allow_sources.join(", ")) ". " }
                @if let Some(rate) = account.rate_per_s { "At most " (rate) " in a second." }
            }
            (table(&format!("Keys of {}", account.merchant_code), &heads, &rows))
        }
    }

    fn key(&self, account: &AccountInForce, key: &KeyInForce) -> Markup {
        let uses = self.sums("payfold_ingest_key_uses_total", "key_id");
        html! {
            tr {
                th scope="row" { code { (key.id) } }
                td { (key.channel.name()) }
                td { (moment(key.valid_from)) }
                td { @if let Some(until) = key.valid_until { (moment(until)) } @else { "–" } }
                td { (standing(account, key, self.now)) }
                td.num {
                    @if key.channel.name() != "ipn" { "–" }
                    @else {
                        (count(uses.get(key.id.as_str()).copied().unwrap_or_default() as u64))
                        @if self.is_shared(account, key) { small { "by all keys of this id" } }
                    }
                }
            }
        }
    }

    /// The sums of a metric of this partner over all processes, by a label.
    fn sums<'s>(&'s self, metric: &'s str, label: &str) -> BTreeMap<&'s str, f64> {
        self.system.sums(metric, label, |measured| measured.label("partner") == self.partner)
    }

    /// Whether another account of the partner has a key of this id: they are counted together.
    fn is_shared(&self, account: &AccountInForce, key: &KeyInForce) -> bool {
        let others = self.state.accounts.iter();
        let others = others.filter(|other| other.merchant_code != account.merchant_code);
        let mut keys = others.flat_map(|other| &other.keys);
        keys.any(|other| other.id == key.id && other.channel == key.channel)
    }

    /// A table of counts since the processes started.
    fn counts(&self, metric: &str, label: &str, head: &'static str) -> Markup {
        let counts = self.sums(metric, label);
        let heads = [Head::Text(head), Head::Number("Since the processes started")];
        let rows = html! {
            @for (name, counted) in &counts {
                tr { th scope="row" { (isolated(name)) } td.num { (count(*counted as u64)) } }
            }
        };
        html! {
            @if counts.is_empty() { p { "None since the processes started." } }
            @else { (table(head, &heads, &rows)) }
        }
    }
}

/// Whether a key counts now.
fn standing(account: &AccountInForce, key: &KeyInForce, now: Time) -> Markup {
    html! {
        @match key.state_among(&account.keys, now) {
            KeyState::Ended => span.badge { "ended" },
            KeyState::Next => span.badge { "next" },
            KeyState::Old => span.badge.high { "old" },
            KeyState::Current => span.badge.paid { "current" },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An account with these keys: id, channel, and the days in January from and until which each
    /// counts.
    fn account(merchant: &str, keys: &[(&str, &str, u32, Option<u32>)]) -> AccountInForce {
        let at = |day: u32| format!("2026-01-{day:02}T00:00:00Z");
        let keys = keys.iter().map(|&(id, channel, from, until)| {
            serde_json::json!({ "id": id, "channel": channel, "validFrom": at(from),
                "validUntil": until.map(at) })
        });
        let account = serde_json::json!({ "partner": "p", "merchantCode": merchant,
            "enabled": true, "stage": "live", "profileVersion": 1, "allowSources": [],
            "ratePerS": null, "keys": keys.collect::<Vec<_>>() });
        serde_json::from_value(account).unwrap()
    }

    #[test]
    fn keys_of_one_id_are_counted_together() {
        let keys = [("a", "ipn", 1, None), ("b", "ipn", 1, None), ("c", "create", 1, None)];
        let other = [("a", "ipn", 1, None), ("c", "ipn", 1, None)];
        let accounts = vec![account("M", &keys), account("N", &other)];
        let state = PartnerState { accounts, ..Default::default() };
        let system = System { processes: Vec::new() };
        let now = Time::from_unix_ms(0);
        let page = PartnerPage { partner: "p", state: &state, system: &system, now };
        let first = &state.accounts[0];
        let shared: Vec<_> = first.keys.iter().map(|key| page.is_shared(first, key)).collect();
        assert_eq!(shared, [true, false, false]);
    }

    #[test]
    fn a_channel_without_a_key_in_force_is_found() {
        for (keys, lacks) in [
            (&[][..], false),
            (&[("a", "ipn", 2, None)], false),
            (&[("a", "ipn", 2, Some(9)), ("b", "ipn", 9, None)], false),
            (&[("a", "ipn", 2, Some(9))], true),
            (&[("a", "ipn", 11, None)], true),
            (&[("a", "ipn", 2, None), ("b", "create", 2, Some(9))], true),
        ] {
            let now = Time::parse("2026-01-10T00:00:00Z").unwrap();
            assert_eq!(partners::lacks_key(&account("M", keys), now), lacks, "{keys:?}");
        }
    }
}
