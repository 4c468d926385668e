//! Owns a sandbox partner in this process that answers and retries quickly, and its certifier. It
//! plays the contract or a shipped profile.

use std::net::TcpListener;
use std::sync::Arc;

use payfold_certify::observations::{Attestation, AttestedItem, PaymentCase};
use payfold_certify::report::Report;
use payfold_certify::{CertifySettings, PageOperator, RunEvent, RunTimeouts, certify};
use payfold_engines::clock::{Clock, SystemClock};
use payfold_partners::directory::Directory;
use payfold_partners::document::{AccountEntry, VaultDocument};
use payfold_partners::keys::Channel;
use payfold_partners::profile::{Profile, SANDBOX_PROFILE, ShippedProfile};
use payfold_partners::remote::PartnerClient;
use payfold_sandbox::troubles::Troubles;
use payfold_sandbox::{RetrySchedule, SandboxSettings};
use payfold_schemas::money::{Amount, Currency};
use tokio::sync::mpsc;

use crate::support::sandbox::{self, account, code, constants_of, merchant, new_key};
use crate::support::stub::listen;

const CREATE_SECRET: &str = "a test key of calls, worth nothing at all";
/// Long enough for a busy machine, short enough for a test.
const TIMEOUTS: RunTimeouts = RunTimeouts {
    payer_ms: 20_000,
    ipn_ms: 4_000,
    retry_ms: 4_000,
    return_ms: 2_000,
    quiet_ms: 1_500,
    hang_ms: 6_000,
    poll_ms: 100,
};

pub struct Partner {
    url: String,
    directory: Arc<Directory>,
    remote: PartnerClient,
    /// The amount and currency of its payments.
    money: (i64, &'static str),
    /// The certifier's socket and its URL, if it is registered with the partner: then one run at a
    /// time can use it.
    registered: Option<(TcpListener, String)>,
}

/// The sandbox's scheme with a short time-out and no grace.
fn profile() -> Profile {
    let text = SANDBOX_PROFILE
        .replace("timeout_s = 10", "timeout_s = 5")
        .replace("grace_s = 1", "grace_s = 0");
    Profile::parse(&code(), &text).expect("a profile")
}

/// An account of a shipped profile that is played at this URL: with the constants that the profile
/// names, and a key of its own for calls.
fn shipped_account(profile: &str, url: &str) -> AccountEntry {
    let mut account = account();
    for (name, value) in constants_of(profile, url) {
        account.set_constant(name, value).expect("a constant");
    }
    account.add_key(new_key("c", Channel::Create, CREATE_SECRET)).expect("the first key of calls");
    account
}

impl Partner {
    /// The sandbox partner of the contract.
    pub fn start() -> Self {
        Self::serve(&profile(), (150_000, "VND"), None, |_| account())
    }

    /// A partner with this shipped profile.
    pub fn play(shipped: &str, money: (i64, &'static str)) -> Self {
        let text = ShippedProfile::of(shipped).expect("it is shipped").profile;
        let text = text.replace("stage = \"draft\"", "stage = \"sandbox\"");
        let profile = Profile::parse(&code(), &text).expect("a profile");
        Self::serve(&profile, money, Some(listen()), |url| shipped_account(&text, url))
    }

    fn serve(
        profile: &Profile,
        money: (i64, &'static str),
        registered: Option<(TcpListener, String)>,
        account: impl Fn(&str) -> AccountEntry,
    ) -> Self {
        let receiver = registered.as_ref().map(|(_, url)| url);
        let (_, url) = sandbox::serve(|url| SandboxSettings {
            short_session_ms: 3_000,
            late_ms: 100,
            // An answer that is late on a busy machine must not count as missing.
            answer_ms: 3_000,
            retry: RetrySchedule { first_ms: 30, longest_ms: 100, attempts_max: 4 },
            notice_url: receiver.map(|url| format!("{url}{}", profile.ipn_path())),
            ..SandboxSettings::new(profile.clone(), vec![account(url)], url)
        });
        let vault = VaultDocument { accounts: vec![account(&url)], ..VaultDocument::default() };
        let directory = Directory::build(vec![profile.clone()], &vault).expect("a directory");
        Self {
            url,
            directory: Arc::new(directory),
            remote: PartnerClient::new().expect("a client"),
            money,
            registered,
        }
    }

    /// Certifies it, with this trouble in its payments.
    pub async fn certify(&self, troubles: Option<Troubles>) -> Report {
        let (news, _events) = mpsc::unbounded_channel();
        let settings = CertifySettings { troubles, ..self.settings() };
        certify(settings, Arc::new(SystemClock), news).await.expect("it can be tried")
    }

    /// Certifies it with a person at its pages.
    pub async fn certify_by_hand(&self) -> Report {
        let (news, events) = mpsc::unbounded_channel();
        let settings = CertifySettings { operator: PageOperator::Person, ..self.settings() };
        let certified = certify(settings, Arc::new(SystemClock), news);
        let (report, pages) = futures_util::join!(certified, people(events));
        assert_eq!(pages, 4, "every page is reported once");
        report.expect("it can be tried")
    }

    fn settings(&self) -> CertifySettings {
        let (amount, currency) = self.money;
        let (socket, public_url) = match &self.registered {
            Some((socket, url)) => (socket.try_clone().expect("a second handle"), url.clone()),
            None => listen(),
        };
        let attest = |item| Attestation { item, by: "Ana".to_owned(), at: SystemClock.now() };
        CertifySettings {
            directory: Arc::clone(&self.directory),
            partner: code(),
            merchant_code: merchant(),
            api_url: self.url.clone(),
            public_url,
            remote: self.remote.clone(),
            socket,
            platforms: Vec::new(),
            amount: Amount::from_minor(amount).expect("an amount"),
            currency: Currency::parse(currency).expect("a currency"),
            troubles: None,
            operator: PageOperator::Certifier,
            attested: [AttestedItem::Width, AttestedItem::WebView].map(attest).into(),
            timeouts: TIMEOUTS,
        }
    }
}

/// Acts as the person: presses a button at every reported page. Returns the count of pages.
async fn people(mut events: mpsc::UnboundedReceiver<RunEvent>) -> usize {
    // Follows redirects, also the one back to the shop.
    let browser = reqwest::Client::builder().no_proxy().build().expect("a client");
    let mut asked = 0;
    while let Some(news) = events.recv().await {
        let RunEvent::PersonNeeded { case, at } = news else { continue };
        let button = if case == PaymentCase::Cancel { "cancel" } else { "pay" };
        let pressed = browser.post(format!("{at}/{button}")).send().await.expect("an answer");
        assert_eq!(pressed.status(), 200, "{case}");
        asked += 1;
    }
    asked
}
