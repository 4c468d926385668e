//! Owns the public handle of a simulated partner: creating, serving, observing and draining it. All
//! clones are the same partner.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use actix_web::web::{Data, ServiceConfig};
use payfold_engines::clock::Clock;
use payfold_partners::directory::{Account, Directory, DirectoryProblem};
use payfold_partners::document::VaultDocument;
use payfold_partners::outbound::{Reach, UrlProblem};
use payfold_partners::scheme::SimulationError;
use payfold_schemas::ids::OrderId;
use payfold_schemas::ipn::Status;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::create::CreateEndpoint;
use crate::http;
use crate::partner::Partner;
use crate::payments::PaymentRegistry;
use crate::records::RecordsWriter;
use crate::sender::NoticeSender;
use crate::settings::SandboxSettings;

/// How often sessions are checked for their end.
const SWEEP_INTERVAL: Duration = Duration::from_millis(200);

/// A simulated partner. All clones are the same partner.
#[derive(Clone)]
pub struct Sandbox(Arc<Partner>);

/// Why a simulated partner can't be created.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The profile has no `[create]`.
    #[error("the sandbox needs a profile with a [create] section")]
    NoCreate,
    /// There is no account.
    #[error("the sandbox needs an account")]
    NoAccount,
    /// A key or a constant of an account can't be used.
    #[error("the sandbox can't use its accounts: {0}")]
    Accounts(DirectoryProblem),
    /// The profile has something that a simulated partner can't do.
    #[error("the sandbox can't play account {0}: {1}")]
    Profile(String, SimulationError),
    /// The public URL can't be used.
    #[error("the sandbox's public URL can't be used: {0}")]
    Address(#[from] UrlProblem),
    /// The records file can't be opened.
    #[error("the sandbox's records file can't be opened: {0}")]
    Records(#[from] std::io::Error),
    /// The HTTP client can't be created.
    #[error("the sandbox's HTTP client can't be created: {0}")]
    Client(#[from] reqwest::Error),
    /// There is no tokio runtime to send notices on.
    #[error("the sandbox must be created inside a tokio runtime")]
    NoRuntime(#[from] tokio::runtime::TryCurrentError),
}

impl Sandbox {
    /// Creates a partner without payments. Its notices are sent on the current tokio runtime.
    pub fn new(settings: SandboxSettings, clock: Arc<dyn Clock>) -> Result<Self, SandboxError> {
        let profile = settings.profile.clone();
        let vault = VaultDocument { accounts: settings.accounts.clone(), ..Default::default() };
        let directory = Directory::build(vec![profile.clone()], &vault)
            .map_err(|mut problems| SandboxError::Accounts(problems.remove(0)))?;
        let accounts = directory.accounts();
        if accounts.is_empty() {
            return Err(SandboxError::NoAccount);
        }
        let terms = profile.create_terms().ok_or(SandboxError::NoCreate)?;
        for account in accounts {
            let checked = account.check_simulation(&settings.public_url, clock.now());
            checked.map_err(|why| SandboxError::Profile(account.name(), why))?;
        }
        let by_code =
            |account: &Arc<Account>| (account.merchant_code().clone(), Arc::clone(account));
        let accounts: HashMap<_, _> = accounts.iter().map(by_code).collect();
        Reach::Sandbox.check(&settings.public_url)?;
        let (retry, sends_max) = (settings.retry, settings.sends_max);
        let answer = Duration::from_millis(settings.answer_ms);
        let sender =
            NoticeSender::new(profile.clone(), Arc::clone(&clock), retry, sends_max, answer)?;
        let keep_ms = settings.session_ms.saturating_add(settings.keep_ms);
        let partner = Arc::new(Partner {
            payments: PaymentRegistry::new(settings.payments_max, keep_ms),
            records: RecordsWriter::open(settings.records.as_deref())?,
            sender,
            create_endpoint: CreateEndpoint::new(profile, terms, accounts),
            runtime: Handle::try_current()?,
            unfinished: watch::Sender::new(0),
            clock,
            settings,
        });
        partner.runtime.spawn(sweep_sessions(Arc::downgrade(&partner)));
        Ok(Self(partner))
    }

    /// Registers all routes of the partner; it needs its own listener.
    pub fn routes(&self, config: &mut ServiceConfig) {
        config.app_data(Data::from(Arc::clone(&self.0)));
        http::routes(config, &self.0.create_endpoint.profile);
    }

    /// The number of create calls of each order with at least `at_least` calls. With 2, the result
    /// should be empty.
    pub fn create_calls(&self, at_least: u32) -> BTreeMap<OrderId, u32> {
        self.0.payments.create_calls(at_least)
    }

    /// The number of payments with notices still to send.
    pub fn unfinished(&self) -> usize {
        *self.0.unfinished.borrow()
    }

    /// Waits until all notices are sent, at most `wait_max`. Returns the number of unfinished
    /// payments.
    pub async fn drain(&self, wait_max: Duration) -> usize {
        let mut unfinished = self.0.unfinished.subscribe();
        // `self` holds the channel's sender, so the channel can't be closed.
        let _ = timeout(wait_max, unfinished.wait_for(|count| *count == 0)).await;
        self.unfinished()
    }
}

/// Ends expired sessions, as long as the partner exists.
async fn sweep_sessions(partner: Weak<Partner>) {
    loop {
        sleep(SWEEP_INTERVAL).await;
        let Some(partner) = partner.upgrade() else { return };
        for payment in partner.payments.take_expired(partner.clock.now()) {
            partner.end_payment(&payment, Status::Expired);
        }
    }
}
