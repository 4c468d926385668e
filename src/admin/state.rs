//! Owns the state that handlers of the admin listener use, and the lifecycle state of the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actix_web::dev::ServiceRequest;
use arc_swap::ArcSwap;
use payfold_api::process::ProcessPhase;
use payfold_api::reads::Person;
use payfold_engines::clock::Clock;
use payfold_engines::log::EventLog;
use payfold_partners::directory::Directory;
use payfold_partners::token::{Permission, TokenEntry};
use payfold_schemas::time::Time;
use prometheus::Registry;

use super::answer::Refusal;
use super::backends::{NoticeBackend, ReadBackend, RebuildBackend, ReconcileBackend};
use super::host::AdminHosts;
use crate::demo::DemoOrders;
use crate::gauges::Gauges;
use crate::readiness::{ROLES, Readiness};
use crate::roles::Roles;
use crate::traffic::Traffic;

/// The state that handlers of the admin listener use.
pub(crate) struct Admin {
    /// The roles of the process.
    pub roles: Roles,
    /// When it started.
    pub started_at: Time,
    /// The names by which the listener is called, besides private ones.
    pub hosts: AdminHosts,
    /// Every metric of the process.
    pub registry: Registry,
    /// The traffic of partners.
    pub traffic: Arc<Traffic>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The log; `None` if no role has engines.
    pub log: Option<Arc<dyn EventLog>>,
    /// Reads orders and findings; `None` if no role has orders.
    pub reads: Option<ReadBackend>,
    /// The accounts and keys in force.
    pub directory: Arc<ArcSwap<Directory>>,
    /// Whether each role can store what it receives.
    pub readiness: Readiness,
    /// The lifecycle state of the process.
    pub life: Arc<Life>,
    /// The admin tokens in force.
    pub tokens: Arc<ArcSwap<Vec<TokenEntry>>>,
    /// Opens the demo's orders; `None` outside the demo.
    pub demo: Option<DemoOrders>,
    /// The gauges that are refreshed at each scrape.
    pub gauges: Gauges,
    /// The backend of reconciliation; `None` without the reconciler role.
    pub reconcile: Option<ReconcileBackend>,
    /// The backend of rebuilds; `None` without the projector role.
    pub rebuilds: Option<RebuildBackend>,
    /// The backend of quarantined notices; `None` without the reconciler role.
    pub notices: Option<NoticeBackend>,
}

impl Admin {
    /// Who makes a call: the owner of its token. Errors: no valid token; the owner's role may not
    /// make the call.
    pub(super) fn authorize(
        &self,
        request: &ServiceRequest,
        permission: Permission,
    ) -> Result<Person, Refusal> {
        let header = request.headers().get("authorization");
        let token = header.and_then(|header| header.to_str().ok()?.strip_prefix("Bearer "));
        let token = token.ok_or(Refusal::Unauthenticated)?;
        let tokens = self.tokens.load();
        let entry = TokenEntry::find(&tokens, token.as_bytes()).ok_or(Refusal::Unauthenticated)?;
        if permission.is_of(entry.role) {
            return Ok(Person { name: entry.name.clone(), role: entry.role });
        }
        let (author, role) = (entry.name.clone(), entry.role.as_str());
        let path = request.match_pattern().unwrap_or_default();
        tracing::warn!(%author, role, path, "refused: the role may not make this call");
        Err(Refusal::Forbidden { author, role, roles: permission.roles() })
    }

    /// Why roles of this process can't store what they receive.
    pub(super) async fn troubles(&self) -> Vec<String> {
        let mut troubles = Vec::new();
        for role in ROLES {
            troubles.extend(self.readiness.trouble(role).await);
        }
        troubles
    }

    /// The backend of reconciliation. Errors: this process has no reconciler.
    pub(super) fn reconciler(&self) -> Result<&ReconcileBackend, Refusal> {
        self.reconcile.as_ref().ok_or(Refusal::NoReconciler)
    }
}

/// The lifecycle state of a process.
#[derive(Debug, Default)]
pub struct Life {
    started: AtomicBool,
    draining: AtomicBool,
    broken: AtomicBool,
}

impl Life {
    /// Notes that the start is complete.
    pub fn started(&self) {
        self.started.store(true, Ordering::SeqCst);
    }

    /// Notes that the process takes no new work.
    pub fn draining(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    /// Notes that a role ended with an error: the process can't do its work.
    pub fn broken(&self) {
        self.broken.store(true, Ordering::SeqCst);
    }

    /// Whether a role ended with an error.
    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::SeqCst)
    }

    pub(super) fn is_started(&self) -> bool {
        self.started.load(Ordering::SeqCst)
    }

    pub(super) fn takes_work(&self) -> bool {
        self.phase() == ProcessPhase::Working
    }

    pub(super) fn phase(&self) -> ProcessPhase {
        let is_draining = self.draining.load(Ordering::SeqCst);
        match (self.is_broken(), is_draining, self.is_started()) {
            (true, _, _) => ProcessPhase::Broken,
            (false, true, _) => ProcessPhase::Draining,
            (false, false, true) => ProcessPhase::Working,
            (false, false, false) => ProcessPhase::Starting,
        }
    }
}
