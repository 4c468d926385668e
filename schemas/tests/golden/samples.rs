//! Owns the values the golden fixtures hold. A value here never changes; a new field gets a new
//! sample.

use payfold_schemas::digest::Digest;
use payfold_schemas::event::{Cause, EventProfile, OrderChanged};
use payfold_schemas::fact::{
    Create, CreateFailed, Decision, Fact, Presentation, QueryAnswer, Session, SharedRef, Verdict,
};
use payfold_schemas::ids::{
    Author, EventRef, KeyId, Nonce, OrderId, OrderKey, PartnerCode, ProviderRef, Reference,
    RequestId,
};
use payfold_schemas::ipn::{Ipn, IpnPolicy, MoneyContent, Status};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::notice_source::{NoticeSource, ProfileStamp, RecordedRequest};
use payfold_schemas::order::{
    Flag, Known, KnownFacts, KnownIpn, Order, OrderState, RaisedFlag, Severity, Summary,
};
use payfold_schemas::parked::Parked;
use payfold_schemas::position::Position;
use payfold_schemas::publication::{Publication, Switch};
use payfold_schemas::record::{FactRecord, Parts, QuarantineRecord, Record};
use payfold_schemas::time::Time;

const RAW: &[u8] = br#"{"orderId":"ord-1","status":"SUCCESS","amount":250000}"#;

pub fn time(text: &str) -> Time {
    Time::parse(text).expect("a sample's time")
}

pub fn amount(minor: i64) -> Amount {
    Amount::from_minor(minor).expect("a sample's amount")
}

pub fn currency() -> Currency {
    Currency::parse("VND").expect("a currency")
}

pub fn provider_ref() -> ProviderRef {
    ProviderRef::parse("TXN 0001/a").expect("a sample's ref")
}

pub fn key() -> OrderKey {
    OrderKey::parse("default/SHOP-1/ord-1").expect("a sample's key")
}

pub fn request_id() -> RequestId {
    "01939b1c-7a00-7000-8000-000000000001".parse().expect("a sample's id")
}

fn profile_digest() -> Digest {
    Digest::of_bytes(b"profile")
}

fn source() -> NoticeSource {
    NoticeSource {
        profile: ProfileStamp {
            partner: PartnerCode::parse("default").expect("a code"),
            version: 3,
            digest: profile_digest(),
        },
        key_id: KeyId::parse("ipn-2026a").expect("a key id"),
        request: RecordedRequest {
            target: "/api/payment/ipn?v=1".to_owned(),
            headers: vec![("x-signature".to_owned(), "00ff".to_owned())],
            ..RecordedRequest::default()
        },
        released: None,
    }
}

pub fn create() -> Create {
    Create {
        amount: amount(250_000),
        currency: currency(),
        reference: Reference::parse("basket 17").expect("a reference"),
        attempt: 1,
        deadline: time("2026-01-31T10:30:00Z"),
    }
}

fn session(presentation: Presentation) -> Session {
    Session {
        provider_ref: provider_ref(),
        presentation,
        expires_at: time("2026-01-31T10:15:00Z"),
        deadline: time("2026-01-31T10:17:00Z"),
        create: Digest::of_content("C", &create()),
    }
}

fn money(paid_at: Option<Time>, event_ref: Option<&str>) -> MoneyContent {
    MoneyContent {
        amount: amount(250_000),
        currency: currency(),
        paid_at,
        event_ref: event_ref.map(|name| EventRef::parse(name).expect("an event ref")),
    }
}

fn ipn(status: Status) -> Ipn {
    let paid_at = (status == Status::Success).then(|| time("2026-01-31T10:05:00.123456789Z"));
    Ipn {
        provider_ref: provider_ref(),
        status,
        money: money(paid_at, (status == Status::Refunded).then_some("evt-9")),
        timestamp: Some(time("2026-01-31T10:05:01Z")),
        nonce: Some(Nonce::parse("n-1").expect("a nonce")),
        policy: IpnPolicy { unconfirmed: true, ref_is_session: true, ..IpnPolicy::default() },
    }
}

fn bare_ipn() -> Ipn {
    Ipn {
        provider_ref: provider_ref(),
        status: Status::Failed,
        money: money(None, None),
        timestamp: None,
        nonce: None,
        policy: IpnPolicy::default(),
    }
}

fn answer() -> QueryAnswer {
    QueryAnswer {
        provider_ref: provider_ref(),
        status: Status::Success,
        amount: amount(250_000),
        currency: currency(),
    }
}

fn decision() -> Decision {
    Decision {
        id: "dec-1".to_owned(),
        flag: Flag::AmountMismatch,
        evidence: Digest::of_bytes(b"evidence"),
        accept: Verdict::WriteOff,
        author: Author::parse("finance-1").expect("an author"),
        reason: "agreed by phone".to_owned(),
        seconded_by: None,
    }
}

/// Each kind of fact once and each of its optional parts both ways: fixture name and record.
pub fn fact_records() -> Vec<(&'static str, Record)> {
    let own = |fact: Fact| Record::of_fact(fact_record(fact, None), Vec::new());
    let notice =
        |ipn: Ipn| Record::of_fact(fact_record(Fact::Ipn(ipn), Some(source())), RAW.to_vec());
    let shared = SharedRef {
        provider_ref: provider_ref(),
        other_order: OrderId::parse("ord-2").expect("an order id"),
    };
    let encrypted = Record {
        raw_key_id: Some(KeyId::parse("body-2026-01").expect("a key id")),
        ..notice(bare_ipn())
    };
    let own_scheme = {
        let mut source = source();
        source.request.method = Some("GET".to_owned());
        source.request.item = Some(1);
        source.request.sign = Some("v2".to_owned());
        Record::of_fact(fact_record(Fact::Ipn(ipn(Status::Success)), Some(source)), RAW.to_vec())
    };
    let redirect = Presentation::RedirectUrl("https://pay.example/s/1".to_owned());
    let qr = Presentation::QrPayload("00020101".to_owned());
    vec![
        ("create-requested", own(Fact::CreateRequested(create()))),
        ("session-opened-redirect", own(Fact::SessionOpened(session(redirect)))),
        ("session-opened-qr", own(Fact::SessionOpened(session(qr)))),
        (
            "create-failed",
            own(Fact::CreateFailed(CreateFailed { code: "partner_refused".to_owned() })),
        ),
        ("ipn-success", notice(ipn(Status::Success))),
        ("ipn-failed", notice(bare_ipn())),
        ("ipn-expired", notice(ipn(Status::Expired))),
        ("ipn-refunded", notice(ipn(Status::Refunded))),
        ("ipn-encrypted", encrypted),
        ("ipn-own-scheme", own_scheme),
        ("ipn-released", released_record()),
        ("deadline-passed", own(Fact::DeadlinePassed { deadline: time("2026-01-31T10:17:00Z") })),
        ("query-answered", own(Fact::QueryAnswered(answer()))),
        ("ref-shared", own(Fact::RefShared(shared))),
        ("decided", own(Fact::Decided(decision()))),
    ]
}

fn fact_record(fact: Fact, source: Option<NoticeSource>) -> FactRecord {
    FactRecord {
        order: key(),
        fact,
        request_id: request_id(),
        received_at: time("2026-01-31T10:05:02.5Z"),
        source,
    }
}

pub fn quarantine_record() -> Record {
    Record {
        parts: Parts::Quarantine(QuarantineRecord {
            account: "default/SHOP-1".to_owned(),
            code: "timestamp_skew".to_owned(),
            detail: "timestamp is 301 s behind".to_owned(),
            request_id: request_id(),
            received_at: time("2026-01-31T10:05:02.5Z"),
            source: source(),
        }),
        raw_key_id: None,
        raw: RAW.to_vec(),
    }
}

fn known<T>(content: T, offset: u64) -> Known<T> {
    Known { content, position: Position { partition: 0, offset } }
}

pub fn order() -> Order {
    let paid = ipn(Status::Success);
    let shared = SharedRef {
        provider_ref: provider_ref(),
        other_order: OrderId::parse("ord-2").expect("an order id"),
    };
    let facts = KnownFacts {
        creates: vec![known(create(), 1)],
        sessions: vec![known(session(Presentation::QrPayload("qr".to_owned())), 2)],
        create_failures: vec![known(CreateFailed { code: "partner_refused".to_owned() }, 3)],
        ipns: vec![known(
            KnownIpn {
                provider_ref: paid.provider_ref,
                status: paid.status,
                money: paid.money,
                policy: paid.policy,
            },
            4,
        )],
        deadlines_passed: vec![known(time("2026-01-31T10:17:00Z"), 5)],
        query_answers: vec![known(answer(), 6)],
        shared_refs: vec![known(shared, 7)],
        decisions: vec![known(decision(), 8)],
        overflowed: true,
        unconfirmed_left_out: false,
    };
    Order {
        key: key(),
        version: 8,
        first_seen: time("2026-01-31T10:00:00Z"),
        position: Position { partition: 0, offset: 9 },
        summary: summary(),
        facts,
    }
}

fn summary() -> Summary {
    let raised = |flag, severity, decided_by: Option<&str>| RaisedFlag {
        flag,
        severity,
        evidence: Digest::of_bytes(b"evidence"),
        decided_by: decided_by.map(str::to_owned),
    };
    Summary {
        state: OrderState::Paid,
        fulfil: false,
        flags: vec![
            raised(Flag::ProviderRefReused, Severity::Critical, Some("dec-1")),
            raised(Flag::FactOverflow, Severity::Critical, None),
        ],
        reference: Some(create().reference),
        attempt: Some(1),
        amount: Some(250_000),
        currency: Some(currency()),
        paid_amount: 250_000,
        refunded_amount: 10,
        overpaid: 0,
        refunded_at_least: true,
        session_ref: Some(provider_ref()),
        payment_ref: Some(provider_ref()),
        paid_at: Some(time("2026-01-31T10:05:00.123456789Z")),
        deadline: Some(time("2026-01-31T10:17:00Z")),
    }
}

pub fn switch() -> Switch {
    let publication = Publication { build: 2, epoch: 3 };
    Switch { publication, request_id: request_id(), at: time("2026-01-31T10:20:00Z") }
}

pub fn parked() -> Parked {
    Parked {
        parked: Position { partition: 3, offset: 41 },
        digest: Digest::of_bytes(b"damaged"),
        author: Author::parse("mai").expect("a name"),
        reason: "a disk lost the block, the partner has sent it again".to_owned(),
        request_id: request_id(),
        at: time("2026-01-31T10:25:00Z"),
        seconded_by: None,
        second_reason: None,
    }
}

pub fn parked_by_two() -> Parked {
    let seconded_by = Some(Author::parse("linh").expect("a name"));
    Parked { seconded_by, second_reason: Some("no backup has it".to_owned()), ..parked() }
}

pub fn order_changed() -> OrderChanged {
    let key = key();
    OrderChanged {
        partner: key.partner,
        merchant_code: key.merchant_code,
        order_id: key.order_id,
        reference: Some(create().reference),
        attempt: Some(1),
        epoch: 1,
        version: 4,
        previous_state: Some(OrderState::Pending),
        state: OrderState::Paid,
        fulfil: true,
        attention: vec![Flag::PaidAfterDeadline],
        amount: Some(250_000),
        currency: Some(currency()),
        exponent: Some(0),
        paid_amount: 250_000,
        refunded_amount: 0,
        session_ref: Some(provider_ref()),
        payment_ref: Some(provider_ref()),
        paid_at: Some(time("2026-01-31T10:05:00.123Z")),
        deadline: Some(time("2026-01-31T10:17:00Z")),
        cause: Cause {
            kind: "ipn".to_owned(),
            status: Some(Status::Success),
            position: Position { partition: 0, offset: 4 },
            request_id: request_id(),
        },
        profile: Some(EventProfile { version: 3, digest: profile_digest() }),
    }
}

pub fn order_changed_unmatched() -> OrderChanged {
    OrderChanged {
        reference: None,
        attempt: None,
        version: 1,
        previous_state: None,
        state: OrderState::Unmatched,
        fulfil: false,
        attention: Vec::new(),
        amount: None,
        currency: None,
        exponent: None,
        paid_amount: 0,
        session_ref: None,
        payment_ref: None,
        paid_at: None,
        deadline: None,
        cause: Cause {
            kind: "refShared".to_owned(),
            status: None,
            position: Position { partition: 7, offset: 1 },
            request_id: request_id(),
        },
        profile: None,
        ..order_changed()
    }
}

fn released_record() -> Record {
    let mut source = source();
    source.released = crate::events::notice_decided().released();
    assert!(source.released.is_some());
    Record::of_fact(fact_record(Fact::Ipn(ipn(Status::Success)), Some(source)), RAW.to_vec())
}
