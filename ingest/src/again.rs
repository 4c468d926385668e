//! Owns the second look at the signature of stored bytes, which releasing and auditing share: the request is put together
//! again as it was kept, and verified as the door verified it. Pure. Invariant: the bytes are judged as they came, by the
//! keys that counted when they came.

use payfold_partners::directory::{Account, Directory};
use payfold_partners::scheme::{Request, VerifiedNotice};
use payfold_partners::verify::VerifiedIpn;
use payfold_schemas::ids::KeyId;
use payfold_schemas::record::{NoticeRequest, NoticeSource};
use payfold_schemas::time::Time;

use crate::admit::{self, Judged};
use crate::own_scheme;
use crate::refusal::Refusal;

const ROUTE: &str = "/api/payment/ipn/";

/// A notice as it is kept.
#[derive(Clone, Copy)]
pub(crate) struct Kept<'a> {
    /// Profile and key, as recorded.
    pub(crate) source: &'a NoticeSource,
    /// The whole request.
    pub(crate) request: &'a NoticeRequest,
    /// The body as it came.
    pub(crate) raw: &'a [u8],
    /// When it came.
    pub(crate) received_at: Time,
}

/// A kept notice that a key of a known account has signed.
#[expect(clippy::large_enum_variant, reason = "there is one at a time, on the stack")]
pub(crate) enum Again<'a> {
    /// In the contract's scheme.
    Contract(VerifiedIpn<'a>),
    /// In a scheme of its partner's own.
    Own(VerifiedNotice),
}

impl Again<'_> {
    /// Whose it is.
    pub(crate) fn account(&self) -> &Account {
        match self {
            Self::Contract(verified) => verified.account(),
            Self::Own(verified) => verified.account(),
        }
    }

    fn key_id(&self) -> &KeyId {
        match self {
            Self::Contract(verified) => verified.key_id(),
            Self::Own(verified) => verified.key_id(),
        }
    }

    /// Whether it is of this account (`partner/merchantCode`) and signed with this key, and with no other that would do
    /// as well today.
    pub(crate) fn is_of(&self, account: &str, key_id: &KeyId) -> bool {
        let (partner, merchant) = (self.account().partner(), self.account().merchant_code());
        account.split_once('/') == Some((partner.as_str(), merchant.as_str()))
            && self.key_id() == key_id
    }

    /// Whether nothing was signed at all, as its partner's scheme has it.
    pub(crate) fn is_unsigned(&self) -> bool {
        match self {
            Self::Contract(_) => false,
            Self::Own(verified) => verified.is_unsigned(),
        }
    }

    /// What it is for us, whenever it came. Errors: why it can't be taken.
    pub(crate) fn shape(&self) -> Result<Judged, Refusal> {
        match self {
            Self::Contract(verified) => admit::shape(verified).map(Judged::Admitted),
            Self::Own(verified) => own_scheme::shape(verified),
        }
    }

    /// The same with the rule on time.
    pub(crate) fn judged(&self, received_at: Time) -> Result<Judged, Refusal> {
        match self {
            Self::Contract(verified) => admit::admit(verified, received_at).map(Judged::Admitted),
            Self::Own(verified) => own_scheme::judged(verified, received_at),
        }
    }

    /// Profile and key of this judgement, the request as it was.
    pub(crate) fn source(&self, recorded: &NoticeRequest) -> NoticeSource {
        match self {
            Self::Contract(verified) => admit::source(verified, recorded.clone()),
            Self::Own(verified) => NoticeSource {
                profile: verified.profile().stamp().clone(),
                key_id: verified.key_id().clone(),
                request: NoticeRequest {
                    sign: Some(verified.sign().to_owned()),
                    ..recorded.clone()
                },
                released: None,
            },
        }
    }
}

/// Who signed it, if anybody of the directory did. `base_url` is our address as partners know it; where none was
/// configured they called the host they named.
pub(crate) fn verify<'a>(
    directory: &Directory,
    base_url: &str,
    kept: Kept<'a>,
) -> Option<Again<'a>> {
    let recorded = kept.request;
    let (path, query) = recorded.target.split_once('?').unwrap_or((&recorded.target, ""));
    let named = path.strip_prefix(ROUTE);
    // On the route without a name a partner with its own scheme is found by its account.
    let partner = named.unwrap_or(kept.source.profile.partner.as_str());
    if directory.scheme(partner).is_none() {
        let verified = directory.verify(named, kept.raw, kept.received_at);
        return verified.ok().map(Again::Contract);
    }
    let of_host = own_scheme::host_of(recorded).map(|host| format!("http://{host}"));
    let bases = [Some(base_url), of_host.as_deref()];
    let headers: Vec<_> =
        recorded.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    bases.into_iter().flatten().find_map(|base_url| {
        let request = Request {
            method: recorded.method.as_deref().unwrap_or("POST"),
            base_url,
            path,
            query,
            headers: headers.clone(),
            body: kept.raw,
        };
        let verified =
            directory.verify_scheme_item(partner, &request, recorded.item, kept.received_at);
        verified.ok().map(Again::Own)
    })
}
