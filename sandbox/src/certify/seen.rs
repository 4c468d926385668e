//! Owns what a run has seen: the certifier's own payments, what was answered, delivered, shown and brought back. Plain
//! data: the judgement reads it and nothing else.

use std::fmt;

use payfold_partners::profile::TimeRule;
use payfold_partners::remote::Created;
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Presentation;
use payfold_schemas::ids::{MerchantCode, OrderId};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;
use url::Url;

/// A payment of a run, by what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Paid; its IPNs are acknowledged.
    Pay,
    /// Given up.
    Cancel,
    /// Paid; its first IPN is answered 503.
    Busy,
    /// Paid; its first IPN is not answered.
    Silent,
    /// Only created, with a QR code asked for.
    Qr,
}

impl Case {
    /// Every case.
    pub const ALL: [Case; 5] = [Self::Pay, Self::Cancel, Self::Busy, Self::Silent, Self::Qr];

    /// Its name in evidence and report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pay => "pay",
            Self::Cancel => "cancel",
            Self::Busy => "pay-503",
            Self::Silent => "pay-timeout",
            Self::Qr => "qr",
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What the partner was asked for, and what its profile says.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Our account.
    pub merchant_code: MerchantCode,
    /// Of every payment of the run.
    pub amount: Amount,
    /// Of every payment of the run.
    pub currency: Currency,
    /// How the profile judges time.
    pub time: TimeRule,
    /// Whether a payment's IPNs must carry the create answer's providerRef.
    pub session_ref: SessionRef,
    /// Whether addresses of this machine and private networks pass.
    pub reach: payfold_partners::outbound::Reach,
    /// Whose frames the page must stand in.
    pub platforms: Vec<Url>,
}

/// What a profile says of the providerRef of IPNs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionRef {
    /// It is the session's.
    Same,
    /// It may be another transaction's of the same payment.
    Any,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What was asked for.
    pub asked: Asked,
    /// The payments.
    pub payments: Vec<Payment>,
    /// What people have looked at.
    pub attested: Vec<Attestation>,
}

/// One payment.
#[derive(Clone, Debug)]
pub struct Payment {
    /// What it is for.
    pub case: Case,
    /// Its order.
    pub order_id: OrderId,
    /// What its create call came to.
    pub created: Created,
    /// How long that took, ms.
    pub took_ms: i64,
    /// Its page; `None` where there is none, or it was not looked at.
    pub page: Option<Page>,
    /// The IPNs that came to its address or named it, in the order they came.
    pub deliveries: Vec<Delivery>,
    /// Its returns, in the order they came.
    pub returns: Vec<Return>,
}

impl Payment {
    /// Whether its session was opened with a code to scan, where a page was asked for.
    pub fn is_code(&self) -> bool {
        let code = matches!(
            &self.created,
            Created::Opened(offer) if matches!(offer.presentation, Presentation::QrPayload(_))
        );
        code && self.case != Case::Qr
    }
}

/// One IPN as it came.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// When.
    pub at: Time,
    /// Of its bytes.
    pub digest: Digest,
    /// What it says, and whether anybody signed it.
    pub reading: Reading,
    /// What it was answered.
    pub answered: Answered,
}

/// What was read of an IPN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It is no notice: the code of the refusal.
    Unread(&'static str),
    /// No key of the account it names has signed it; the account.
    Unsigned(Option<String>),
    /// Signed.
    Signed(Told),
}

/// What a signed IPN says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Which order it names.
    pub order_id: String,
    /// Which transaction.
    pub provider_ref: String,
    /// What became of it; `None` if it says none of the contract's.
    pub status: Option<Status>,
    /// Minor units.
    pub amount: Option<i64>,
    /// ISO 4217.
    pub currency: String,
    /// When it was paid.
    pub paid_at: Option<Time>,
    /// The profile's time of a notice.
    pub time: Option<Time>,
    /// What is wrong with its fields.
    pub problems: Vec<String>,
}

/// What the receiver answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// 200, empty: acknowledged.
    Taken,
    /// Another status: what it is not worth.
    Refused(u16),
    /// 503, though there was nothing wrong with it.
    Busy,
    /// Nothing, for as long as its sender waited.
    Silent,
}

impl fmt::Display for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken => f.write_str("answered 200"),
            Self::Refused(status) => write!(f, "answered {status}"),
            Self::Busy => f.write_str("answered 503"),
            Self::Silent => f.write_str("not answered"),
        }
    }
}

/// One browser return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Return {
    /// When.
    pub at: Time,
    /// The order a key of ours has signed for; `None` for nobody's signature.
    pub signed_for: Option<String>,
    /// Its parameters, the signature left out.
    pub parameters: Vec<(String, String)>,
}

impl Return {
    /// A parameter's text.
    pub fn text(&self, name: &str) -> Option<&str> {
        let mut all = self.parameters.iter();
        all.find(|(known, value)| known == name && !value.is_empty())
            .map(|(_, value)| value.as_str())
    }
}

/// A hosted page as it was visited.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Every document and redirect on the way, the last one last.
    pub hops: Vec<Hop>,
    /// Why it could not be visited.
    pub problem: Option<PageProblem>,
    /// What was done at it.
    pub done: Done,
    /// Cookies it set.
    pub cookies_set: usize,
    /// Whether nothing could be done at it without them.
    pub cookies: Cookies,
}

impl Page {
    /// Whether there was a page to look at.
    pub fn is_shown(&self) -> bool {
        self.problem.is_none() && self.documents().next().is_some()
    }

    /// The documents on the way, redirects and errors left out.
    pub fn documents(&self) -> impl Iterator<Item = &Hop> {
        self.hops.iter().filter(|hop| hop.status == 200)
    }
}

/// Whether a page needs cookies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cookies {
    /// Not known.
    #[default]
    Unknown,
    /// It was used without.
    NotNeeded,
    /// It was of use only with them.
    Needed,
}

/// Who acted at a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Done {
    /// Nobody, or nobody knows.
    #[default]
    Nothing,
    /// The certifier paid.
    Paid,
    /// The certifier gave up.
    Cancelled,
    /// The certifier followed the page's link back.
    FollowedBack,
    /// A person was asked to.
    LeftToPerson,
}

/// One answer on the way to a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The address without its query.
    pub address: String,
    /// The status.
    pub status: u16,
    /// `X-Frame-Options`, as it came.
    pub frame_options: Vec<String>,
    /// `Content-Security-Policy`, each as it came.
    pub policies: Vec<String>,
}

/// Why a page could not be visited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageProblem {
    /// Its certificate is not trusted, or TLS failed.
    Tls(String),
    /// It leads to an address without TLS, which was not followed.
    Http(String),
    /// It was left for an address that may not be visited.
    Address(String),
    /// Not connected, broken off, too long.
    Unreachable(String),
}

/// What a person has looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attestation {
    /// What.
    pub item: Item,
    /// Who says so.
    pub by: String,
    /// When.
    pub at: Time,
}

/// What only a person can look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// The page at a width of 360 px.
    Width,
    /// The page in an app's WebView.
    WebView,
    /// The page in a browser that refuses third-party cookies.
    Cookies,
}

impl Item {
    /// Every item.
    pub const ALL: [Item; 3] = [Self::Width, Self::WebView, Self::Cookies];

    /// Its name on the command line and in the report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Width => "width",
            Self::WebView => "webview",
            Self::Cookies => "cookies",
        }
    }
}
