//! Owns the list of partners: the profile and the accounts of each, the next key that ends, and
//! when it was heard last.

use std::collections::BTreeMap;

use actix_web::{Error, HttpResponse};
use maud::{Markup, html};
use payfold_api::accounts::{ACCOUNTS, AccountInForce};
use payfold_api::call::Nothing;
use payfold_api::process::PartnerTraffic;
use payfold_report::text::count;
use payfold_schemas::time::Time;
use serde::Serialize;

use crate::client::EACH_MAX;
use crate::failure;
use crate::overview::last_notice;
use crate::system::System;
use crate::table::{Head, table};
use crate::text::moment;
use crate::visit::Visit;

/// A partner as all processes know it.
#[derive(Debug, Default, Serialize)]
pub(crate) struct PartnerState {
    pub(crate) accounts: Vec<AccountInForce>,
    pub(crate) traffic: PartnerTraffic,
}

/// Every partner, by its code.
pub(crate) async fn read(visit: &Visit) -> Result<(BTreeMap<String, PartnerState>, System), Error> {
    let client = visit.client();
    let system = System::read(&client, EACH_MAX).await;
    let system = system.map_err(|error| failure::failed(&visit.request, &error))?;
    let mut partners = BTreeMap::<String, PartnerState>::new();
    let answering = client.only(&system.answering());
    let accounts = answering.call(&ACCOUNTS, &[], &Nothing {}).await;
    let accounts = accounts.map_err(|error| failure::failed(&visit.request, &error))?;
    for account in accounts.accounts {
        let partner = account.partner.to_string();
        partners.entry(partner).or_default().accounts.push(account);
    }
    for traffic in system.traffic() {
        if let Some(known) = partners.get_mut(&traffic.partner) {
            known.traffic = traffic;
        }
    }
    Ok((partners, system))
}

/// Lists the partners.
pub(crate) async fn list(visit: Visit) -> Result<HttpResponse, Error> {
    let (partners, _) = read(&visit).await?;
    let now = (visit.console.now)();
    Ok(visit.answer("Partners", &partners, || render(&partners, now)))
}

fn render(partners: &BTreeMap<String, PartnerState>, now: Time) -> Markup {
    let heads = [
        Head::Text("Partner"),
        Head::Text("Profile"),
        Head::Number("Accounts"),
        Head::Text("Next key that ends"),
        Head::Text("Last notice"),
    ];
    let rows = html! {
        @for (partner, state) in partners { (row(partner, state, now)) }
    };
    html! {
        h1 { "Partners" }
        @if partners.is_empty() {
            p { "There is no account at a partner: " code { "payfold key add" } " makes one." }
        } @else {
            (table("Partners", &heads, &rows))
        }
    }
}

fn row(partner: &str, state: &PartnerState, now: Time) -> Markup {
    let in_force = || state.accounts.iter().filter(|account| account.enabled);
    let keys = in_force().flat_map(|account| &account.keys);
    let next_end = keys.filter_map(|key| key.valid_until).filter(|until| *until > now).min();
    let has_ended = in_force().any(|account| lacks_key(account, now));
    let enabled = state.accounts.iter().filter(|account| account.enabled).count();
    html! {
        tr {
            th scope="row" { a href={ "/partners/" (partner) } { (partner) } }
            td { @if let Some(first) = state.accounts.first() {
                "version " (first.profile_version) ", " (first.stage)
            } }
            td.num {
                (count(enabled as u64))
                @if enabled < state.accounts.len() {
                    small { (state.accounts.len() - enabled) " disabled" }
                }
            }
            td {
                @if let Some(until) = next_end { (moment(until)) } @else { "none ends" }
                @if has_ended { " " span.badge.critical { "one has no key now" } }
            }
            td { (last_notice(&state.traffic, now)) }
        }
    }
}

/// Whether an account has keys of a channel, and none that counts now.
pub(crate) fn lacks_key(account: &AccountInForce, now: Time) -> bool {
    account.keys.iter().any(|key| {
        let mut alike = account.keys.iter().filter(|other| other.channel == key.channel);
        !alike.any(|other| other.counts_at(now))
    })
}
