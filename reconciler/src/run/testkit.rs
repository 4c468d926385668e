//! Facts for tests, written as short texts.

#[path = "../../../reconcile/src/tests/rows.rs"]
mod rows;

use payfold_schemas::digest::Digest;
use payfold_schemas::fact::{Create, Fact, Presentation, QueryAnswer, Session};
use payfold_schemas::ids::Reference;
use payfold_schemas::ipn::{Ipn, IpnPolicy, Status};
use payfold_schemas::order::Known;
use payfold_schemas::position::Position;
use payfold_schemas::time::Time;

pub(crate) use self::rows::{at, ipn, key, known_ipn, order, record};
use self::rows::{money, provider_ref};

pub(crate) fn known<T>(content: T) -> Known<T> {
    Known { content, position: Position::default() }
}

pub(crate) fn deadline_passed(deadline: Time) -> Known<Time> {
    known(deadline)
}

pub(crate) fn create(deadline: &str) -> Create {
    let ((amount, currency), reference) = (money(), Reference::parse("basket 1").unwrap());
    Create { amount, currency, reference, attempt: 1, deadline: at(deadline) }
}

pub(crate) fn session(text: &str, deadline: &str) -> Session {
    Session {
        provider_ref: provider_ref(text),
        presentation: Presentation::QrPayload("qr".into()),
        expires_at: at(deadline),
        deadline: at(deadline),
        create: Digest::of_bytes(b"C"),
    }
}

pub(crate) fn answer(text: &str) -> QueryAnswer {
    let (amount, currency) = money();
    QueryAnswer { provider_ref: provider_ref(text), status: Status::Success, amount, currency }
}

/// A notice of SUCCESS with a ref that is one of the profile's placeholders.
pub(crate) fn placeholder(text: &str) -> Ipn {
    let policy = IpnPolicy { placeholder_ref: true, ..IpnPolicy::default() };
    Ipn { policy, ..ipn(text) }
}

/// A notice of SUCCESS that counts only once a query confirms it.
pub(crate) fn unconfirmed(text: &str) -> Ipn {
    let policy = IpnPolicy { unconfirmed: true, ..IpnPolicy::default() };
    Ipn { policy, ..ipn(text) }
}

/// Reads one fact: `create DEADLINE`, `session REF DEADLINE`, `success REF`, `unconfirmed REF` or
/// `placeholder REF` (three kinds of notices), `answer REF`.
pub(crate) fn fact(text: &str) -> Fact {
    match text.split_whitespace().collect::<Vec<_>>()[..] {
        ["create", deadline] => Fact::CreateRequested(create(deadline)),
        ["session", reference, deadline] => Fact::SessionOpened(session(reference, deadline)),
        ["success", reference] => Fact::Ipn(ipn(reference)),
        ["unconfirmed", reference] => Fact::Ipn(unconfirmed(reference)),
        ["placeholder", reference] => Fact::Ipn(placeholder(reference)),
        ["answer", reference] => Fact::QueryAnswered(answer(reference)),
        _ => panic!("{text:?} is no fact"),
    }
}
