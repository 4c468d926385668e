//! Owns the handle on a partner: how it is made, served, watched and drained. Clones are the same partner.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use actix_web::web::{Data, ServiceConfig};
use payfold_engines::clock::Clock;
use payfold_partners::mac::MacKey;
use payfold_partners::outbound::{Reach, UrlProblem};
use payfold_schemas::ids::OrderId;
use payfold_schemas::ipn::Status;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::create::Reception;
use crate::http;
use crate::partner::Partner;
use crate::payment::Account;
use crate::payments::Payments;
use crate::records::Records;
use crate::sender::Sender;
use crate::settings::{SandboxAccount, SandboxSettings};

/// How often ended sessions are looked for.
const SWEEP: Duration = Duration::from_millis(200);
/// A simulated partner. Clones are the same partner.
#[derive(Clone)]
pub struct Sandbox(Arc<Partner>);

/// Why there is no such partner.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The profile has no `[create]`.
    #[error("the sandbox needs a profile with a [create] section")]
    NoCreate,
    /// No account.
    #[error("the sandbox needs an account")]
    NoAccount,
    /// Where browsers reach it.
    #[error("the sandbox's public address can't be used: {0}")]
    Address(#[from] UrlProblem),
    /// The records file.
    #[error("the sandbox's records can't be opened: {0}")]
    Records(#[from] std::io::Error),
    /// The HTTP client.
    #[error("the sandbox's HTTP client can't be made: {0}")]
    Client(#[from] reqwest::Error),
    /// Notices need a runtime to be sent on.
    #[error("the sandbox must be made inside a tokio runtime")]
    NoRuntime(#[from] tokio::runtime::TryCurrentError),
}

impl Sandbox {
    /// A partner with no payments. Its notices are sent on the runtime this is called in.
    pub fn new(settings: SandboxSettings, clock: Arc<dyn Clock>) -> Result<Self, SandboxError> {
        let profile = settings.profile.clone();
        let rule = profile.create().cloned().ok_or(SandboxError::NoCreate)?;
        let account = |account: &SandboxAccount| {
            let merchant_code = account.merchant_code.clone();
            let key = MacKey::new(account.key.expose());
            (merchant_code.clone(), Arc::new(Account { merchant_code, key }))
        };
        let accounts: HashMap<_, _> = settings.accounts.iter().map(account).collect();
        if accounts.is_empty() {
            return Err(SandboxError::NoAccount);
        }
        Reach::Sandbox.check(&settings.public_url)?;
        let (retry, sends_max) = (settings.retry, settings.sends_max);
        let answer = Duration::from_millis(settings.answer_ms);
        let sender = Sender::new(profile.clone(), Arc::clone(&clock), retry, sends_max, answer)?;
        let keep_ms = settings.session_ms.saturating_add(settings.keep_ms);
        let partner = Arc::new(Partner {
            payments: Payments::new(settings.payments_max, keep_ms),
            records: Records::open(settings.records.as_deref())?,
            sender,
            reception: Reception::new(profile, rule, accounts),
            runtime: Handle::try_current()?,
            unfinished: watch::Sender::new(0),
            clock,
            settings,
        });
        partner.runtime.spawn(sweep(Arc::downgrade(&partner)));
        Ok(Self(partner))
    }

    /// Adds everything this partner serves to a listener of its own.
    pub fn routes(&self, config: &mut ServiceConfig) {
        config.app_data(Data::from(Arc::clone(&self.0)));
        http::routes(config, &self.0.reception.rule.path);
    }

    /// How many create calls each order has had, of those with so many at least: 2 should find none.
    pub fn create_calls(&self, at_least: u32) -> BTreeMap<OrderId, u32> {
        self.0.payments.calls(at_least)
    }

    /// Payments with something still to send.
    pub fn unfinished(&self) -> usize {
        *self.0.unfinished.borrow()
    }

    /// Waits until everything is sent that is to be sent, but no longer than this; how many payments are not done.
    pub async fn drain(&self, patience: Duration) -> usize {
        let mut unfinished = self.0.unfinished.subscribe();
        // The sender is in this very partner: the channel can't be closed.
        let _ = timeout(patience, unfinished.wait_for(|count| *count == 0)).await;
        self.unfinished()
    }
}

/// Ends the sessions whose time is over, for as long as there is a partner.
async fn sweep(partner: Weak<Partner>) {
    loop {
        sleep(SWEEP).await;
        let Some(partner) = partner.upgrade() else { return };
        for payment in partner.payments.sweep(partner.clock.now()) {
            partner.end(&payment, Status::Expired);
        }
    }
}
