//! Owns the admin call that shows how this process is.

use std::collections::BTreeMap;

use actix_web::web::Data;
use payfold_api::process::{PROCESS, PartnerTraffic, ProcessState};

use super::answer::{Answer, answer};
use super::router::Router;
use super::state::Admin;
use crate::traffic::TrafficNow;

/// The routes.
pub(super) fn route(router: &mut Router) {
    router.call(&PROCESS, process);
}

async fn process(admin: Data<Admin>) -> Answer {
    admin.gauges.refresh().await;
    let TrafficNow { samples, partners: heard, flags_raised } = admin.traffic.now();
    let mut partners = BTreeMap::new();
    if admin.roles.ingest {
        for account in
            admin.directory.load().accounts().iter().filter(|account| account.is_enabled())
        {
            let partner = account.partner().to_string();
            partners.insert(partner.clone(), PartnerTraffic { partner, ..Default::default() });
        }
    }
    for traffic in heard {
        if traffic.partner.is_empty() || partners.contains_key(&traffic.partner) {
            partners.insert(traffic.partner.clone(), traffic);
        }
    }
    answer(
        &PROCESS,
        &ProcessState {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            roles: admin.roles.names().into_iter().map(str::to_owned).collect(),
            started_at: admin.started_at,
            phase: admin.life.phase(),
            troubles: admin.troubles().await,
            partners: partners.into_values().collect(),
            flags_raised,
            samples,
        },
    )
}
