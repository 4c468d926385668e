//! Owns the state that handlers of the admin listener use, and the lifecycle state of the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actix_web::HttpRequest;
use arc_swap::ArcSwap;
use payfold_engines::clock::Clock;
use payfold_engines::log::EventLog;
use payfold_partners::directory::Directory;
use payfold_partners::document::TokenEntry;
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::Author;
use prometheus::Registry;

use super::answer::Refusal;
use super::backends::{NoticeBackend, RebuildBackend, ReconcileBackend};
use crate::demo::DemoOrders;
use crate::gauges::Gauges;
use crate::readiness::Readiness;

/// The state that handlers of the admin listener use.
pub(crate) struct Admin {
    /// Every metric of the process.
    pub registry: Registry,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The log; `None` if no role has engines.
    pub log: Option<Arc<dyn EventLog>>,
    /// The accounts and keys in force.
    pub directory: Arc<ArcSwap<Directory>>,
    /// Whether each role can store what it receives.
    pub readiness: Readiness,
    /// The lifecycle state of the process.
    pub life: Arc<Life>,
    /// Names and SHA-256 of the admin tokens in force.
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
    /// The author of a request: the name of its token; `None` without a valid token. Hashes are
    /// compared, so timing reveals nothing about a token.
    pub(super) fn author(&self, request: &HttpRequest) -> Option<Author> {
        let header = request.headers().get("authorization")?.to_str().ok()?;
        let sha256 = Digest::of_bytes(header.strip_prefix("Bearer ")?.as_bytes());
        let tokens = self.tokens.load();
        tokens.iter().find(|token| token.sha256 == sha256).map(|token| token.name.clone())
    }
}

/// The author of a request and the backend of reconciliation. Errors: no valid token; this process
/// has no reconciler.
pub(super) fn authorize_reconcile<'a>(
    admin: &'a Admin,
    request: &HttpRequest,
) -> Result<(Author, &'a ReconcileBackend), Refusal> {
    let author = admin.author(request).ok_or(Refusal::Unauthenticated)?;
    Ok((author, admin.reconcile.as_ref().ok_or(Refusal::NoReconciler)?))
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
        self.is_started() && !self.draining.load(Ordering::SeqCst) && !self.is_broken()
    }
}
