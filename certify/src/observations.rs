//! Owns the observations of a run: its payments with their create responses, IPNs, pages and
//! returns. Plain data. `judge` decides from this data only.

use std::fmt;
use std::sync::Arc;

use payfold_partners::profile::Profile;
use payfold_partners::remote::CreateOutcome;
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Presentation;
use payfold_schemas::ids::{EventRef, MerchantCode, OrderId, ProviderRef};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;
use url::Url;

/// The purpose of one payment of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaymentCase {
    /// The payer pays; the IPNs are acknowledged.
    Pay,
    /// The payer cancels; the IPNs are acknowledged.
    Cancel,
    /// The payer pays; the first IPN is answered 503.
    Busy,
    /// The payer pays; the first IPN gets no answer.
    Silent,
    /// The session is created with a request for a QR code, and not paid.
    Qr,
}

impl PaymentCase {
    /// Every case.
    pub const ALL: [PaymentCase; 5] = [Self::Pay, Self::Cancel, Self::Busy, Self::Silent, Self::Qr];

    /// The case's name in evidence and reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Pay => "pay",
            Self::Cancel => "cancel",
            Self::Busy => "pay-503",
            Self::Silent => "pay-timeout",
            Self::Qr => "qr",
        }
    }
}

impl fmt::Display for PaymentCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The parameters of all create requests of a run, and the rules of the partner's profile.
#[derive(Clone, Debug)]
pub struct RunParameters {
    /// The certified account.
    pub merchant_code: MerchantCode,
    /// The amount of every payment.
    pub amount: Amount,
    /// The currency of every payment.
    pub currency: Currency,
    /// The account's profile: its scheme, its time rule and its stage.
    pub(crate) profile: Arc<Profile>,
    /// The platforms that frame the hosted page in their own pages.
    pub platforms: Vec<Url>,
}

/// All observations of a run.
#[derive(Clone, Debug)]
pub struct RunObservations {
    /// The parameters of the create requests.
    pub parameters: RunParameters,
    /// The payments of the run.
    pub payments: Vec<ObservedPayment>,
    /// The number of notices that name no payment of the run, signed or not.
    pub(crate) strangers: usize,
    /// What people checked.
    pub attested: Vec<Attestation>,
}

/// The observations of one payment.
#[derive(Clone, Debug)]
pub struct ObservedPayment {
    /// The purpose of the payment.
    pub(crate) case: PaymentCase,
    /// The payment's order.
    pub order_id: OrderId,
    /// The result of the create call.
    pub(crate) created: CreateOutcome,
    /// The duration of the create call, in ms.
    pub(crate) took_ms: i64,
    /// The hosted page; `None` if there is none, or it was not visited.
    pub page: Option<VisitedPage>,
    /// The IPNs sent to the payment's address or naming its order, in order of arrival.
    pub deliveries: Vec<IpnDelivery>,
    /// The browser returns, in order of arrival.
    pub(crate) returns: Vec<ReceivedReturn>,
}

impl ObservedPayment {
    /// Whether the partner gave a QR code although a page was requested.
    pub(crate) fn is_qr_only(&self) -> bool {
        let code = matches!(
            &self.created,
            CreateOutcome::Opened(offer) if matches!(offer.presentation, Presentation::QrPayload(_))
        );
        code && self.case != PaymentCase::Qr
    }
}

/// One received IPN.
#[derive(Clone, Debug)]
pub struct IpnDelivery {
    /// When it arrived.
    pub at: Time,
    /// The digest of its body.
    pub digest: Digest,
    /// Its content, if its signature is verified.
    pub reading: IpnReading,
    /// The receiver's answer.
    pub(crate) answer: IpnAnswer,
}

impl IpnDelivery {
    /// Whether this may be the notice of `first` again. An IPN without an admissible content may be
    /// any notice.
    pub(crate) fn may_repeat(&self, first: &IpnDelivery) -> bool {
        match (self.reading.admissible(), first.reading.admissible()) {
            (Some(this), Some(first)) => this.is_repeat_of(first),
            _ => true,
        }
    }
}

/// The result of reading an IPN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IpnReading {
    /// Not a notice; the code of the refusal.
    Unread(&'static str),
    /// Without a valid signature of the certified account; the account that it names.
    Unsigned(Option<String>),
    /// With a valid signature, and a content that is not admissible: why.
    Inadmissible(String),
    /// With a valid signature.
    Signed(SignedIpn),
}

impl IpnReading {
    /// The content of an admissible IPN.
    pub(crate) fn admissible(&self) -> Option<&SignedIpn> {
        match self {
            Self::Signed(ipn) => Some(ipn),
            Self::Unread(_) | Self::Unsigned(_) | Self::Inadmissible(_) => None,
        }
    }

    /// Whether it is a notice of the certified account.
    pub(crate) fn is_notice(&self) -> bool {
        matches!(self, Self::Signed(_) | Self::Inadmissible(_))
    }

    /// Whether a key of the certified account has signed it.
    pub(crate) fn is_signed(&self) -> bool {
        match self {
            Self::Signed(ipn) => ipn.signed.is_some(),
            Self::Inadmissible(_) => true,
            Self::Unread(_) | Self::Unsigned(_) => false,
        }
    }
}

/// The content of a signed IPN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedIpn {
    /// The named order.
    pub order_id: OrderId,
    /// The partner's transaction.
    pub provider_ref: ProviderRef,
    /// The status.
    pub status: Status,
    /// The amount.
    pub amount: Amount,
    /// The currency.
    pub currency: Currency,
    /// When the payment was made.
    pub(crate) paid_at: Option<Time>,
    /// The time that the profile's time rule checks.
    pub time: Option<Time>,
    /// The partner's name of the event, such as that of a refund.
    pub(crate) event_ref: Option<EventRef>,
    /// Whether the amount of a refund is the total that went back so far.
    pub(crate) refund_so_far: bool,
    /// The digest of what the signature is over, or of the signature. `None` if nothing is signed.
    pub(crate) signed: Option<Digest>,
    /// Whether each delivery is signed anew, with its own time.
    pub(crate) is_signed_anew: bool,
}

impl SignedIpn {
    /// Whether both are the same notice, as far as it is known: one transaction has several events
    /// with one status at some partners, and their notices differ in what is signed.
    pub(crate) fn is_repeat_of(&self, other: &SignedIpn) -> bool {
        self.provider_ref == other.provider_ref
            && self.status == other.status
            && (self.is_signed_anew || self.signed == other.signed)
    }
}

/// The receiver's answer to an IPN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IpnAnswer {
    /// It was taken: 200 with an empty body, or the profile's own answer.
    Acknowledged,
    /// The IPN breaks a rule. Holds the HTTP status.
    Refused(u16),
    /// 503, or the profile's own answer that it must come again, to provoke a retry.
    Unavailable,
    /// No answer while its sender waited, to provoke a retry.
    NoAnswer,
}

impl fmt::Display for IpnAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acknowledged => f.write_str("acknowledged"),
            Self::Refused(status) => write!(f, "refused with {status}"),
            Self::Unavailable => f.write_str("answered as unavailable"),
            Self::NoAnswer => f.write_str("not answered"),
        }
    }
}

/// One browser return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReceivedReturn {
    /// When it arrived.
    pub at: Time,
    /// The order of a valid signature; `None` without a valid signature.
    pub(crate) signed_for: Option<String>,
    /// The query parameters without the signature.
    pub(crate) parameters: Vec<(String, String)>,
}

impl ReceivedReturn {
    /// A parameter's value, if it is not empty.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let mut all = self.parameters.iter();
        all.find(|(known, value)| known == name && !value.is_empty())
            .map(|(_, value)| value.as_str())
    }
}

/// The observations of a visit to a hosted page.
#[derive(Clone, Debug, Default)]
pub struct VisitedPage {
    /// Every document and redirect, in order.
    pub(crate) hops: Vec<Hop>,
    /// Why the page could not be visited.
    pub(crate) problem: Option<PageProblem>,
    /// What was done at the page.
    pub action: PageAction,
    /// How many cookies it set.
    pub(crate) cookies_set: usize,
    /// Whether the page works only with its cookies.
    pub(crate) cookies: CookieNeed,
}

impl VisitedPage {
    /// Whether the page was shown.
    pub(crate) fn is_shown(&self) -> bool {
        self.problem.is_none() && self.documents().next().is_some()
    }

    /// The hops that are documents: neither redirects nor errors.
    pub(crate) fn documents(&self) -> impl Iterator<Item = &Hop> {
        self.hops.iter().filter(|hop| hop.status == 200)
    }
}

/// Whether a page needs cookies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CookieNeed {
    /// Not known.
    #[default]
    Unknown,
    /// The page worked without cookies.
    NotNeeded,
    /// The page worked only with its cookies.
    Needed,
}

/// What was done at a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageAction {
    /// Nothing, as far as the certifier knows.
    #[default]
    Nothing,
    /// The certifier paid.
    Paid,
    /// The certifier cancelled.
    Cancelled,
    /// The certifier followed the page's link back.
    FollowedBack,
    /// A person was asked to act.
    LeftToPerson,
}

/// One response on the way to a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hop {
    /// The address without its query.
    pub address: String,
    /// The HTTP status.
    pub status: u16,
    /// All values of `X-Frame-Options`, unchanged.
    pub(crate) frame_options: Vec<String>,
    /// All values of `Content-Security-Policy`, unchanged.
    pub(crate) policies: Vec<String>,
}

/// Why a page could not be visited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PageProblem {
    /// The certificate is not trusted, or TLS failed.
    Tls(String),
    /// A redirect to an address without TLS, which was not followed.
    Http(String),
    /// A redirect to an address that `Reach` forbids, which was not followed.
    Address(String),
    /// Not connected, interrupted, too large, or too many redirects.
    Unreachable(String),
}

/// A person's statement that an item was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attestation {
    /// The checked item.
    pub item: AttestedItem,
    /// The person's name.
    pub by: String,
    /// When it was stated.
    pub at: Time,
}

/// A property that only a person can check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttestedItem {
    /// The page at a width of 360 px.
    Width,
    /// The page in an app's WebView.
    WebView,
    /// The page in a browser that refuses third-party cookies.
    Cookies,
}

impl AttestedItem {
    /// Every item.
    pub const ALL: [AttestedItem; 3] = [Self::Width, Self::WebView, Self::Cookies];

    /// The item's name on the command line and in the report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Width => "width",
            Self::WebView => "webview",
            Self::Cookies => "cookies",
        }
    }
}
