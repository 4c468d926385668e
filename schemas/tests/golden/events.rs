//! Owns the values the golden fixtures of events on `findings` hold. A value here never changes; a
//! new field gets a new sample.

use payfold_schemas::decision::FlagDecided;
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Verdict;
use payfold_schemas::finding::{
    BookLine, Code, DecisionEnd, EarlierDecision, FindingChanged, FindingDecision, FindingStatus,
    Side,
};
use payfold_schemas::ids::{Author, EventRef};
use payfold_schemas::ipn::Status;
use payfold_schemas::order::{Flag, Severity};
use payfold_schemas::position::Position;
use payfold_schemas::raw_read::RawRead;
use payfold_schemas::release::{NoticeDecided, NoticeVerdict};
use payfold_schemas::released::Because;
use payfold_schemas::run::{
    BadLine, Compared, ControlTotal, FindingCounts, PeriodClosed, RecordsFile, RunAsked, RunEnded,
    RunResult, Sum,
};
use payfold_schemas::token::{TokenChange, TokenRecorded, TokenRole};

use crate::samples::{amount, create, currency, key, provider_ref, request_id, time};

fn author(name: &str) -> Author {
    Author::parse(name).expect("an author")
}

pub fn finding_changed() -> FindingChanged {
    let key = key();
    let line = BookLine {
        line: 17,
        merchant_code: key.merchant_code.clone(),
        order_id: Some(key.order_id.clone()),
        provider_ref: Some(provider_ref()),
        status: Status::Success,
        amount: amount(240_000),
        currency: currency(),
        at: time("2026-01-31T10:05:00Z"),
        paid_at: None,
        event_ref: Some(EventRef::parse("evt-9").expect("an event ref")),
    };
    FindingChanged {
        finding_id: "3f2a".repeat(8),
        version: 2,
        status: FindingStatus::Decided,
        code: Code::AmountDiffers,
        severity: Severity::Critical,
        partner: key.partner,
        merchant_code: Some(key.merchant_code),
        order_id: Some(key.order_id),
        reference: Some(create().reference),
        payment_ref: Some(provider_ref()),
        field: Some("amount".to_owned()),
        flag: None,
        ours: Side { value: "250000".to_owned(), source: "default/SHOP-1/ord-1".to_owned() },
        partners: Side { value: "240000".to_owned(), source: "day.csv line 17".to_owned() },
        money_at_risk: 10_000,
        currency: Some(currency()),
        day: "2026-01-31".to_owned(),
        first_seen: time("2026-02-01T06:00:00Z"),
        run: Some("a1b2".repeat(8)),
        evidence: Digest::of_bytes(b"evidence"),
        lines: vec![line],
        decision: Some(FindingDecision {
            accept: Verdict::Partner,
            author: author("finance-1"),
            reason: "their fee".to_owned(),
            at: time("2026-02-01T09:00:00Z"),
            evidence: Digest::of_bytes(b"evidence"),
            seconded_by: Some(author("finance-2")),
            second_reason: None,
        }),
        earlier_decisions: Vec::new(),
        action: "nothing: it is decided".to_owned(),
    }
}

pub fn finding_changed_silent() -> FindingChanged {
    FindingChanged {
        version: 1,
        status: FindingStatus::Open,
        code: Code::PartnerSilent,
        severity: Severity::High,
        merchant_code: None,
        order_id: None,
        reference: None,
        payment_ref: None,
        field: None,
        money_at_risk: 0,
        currency: None,
        run: None,
        lines: Vec::new(),
        decision: None,
        ..finding_changed()
    }
}

pub fn finding_changed_flag() -> FindingChanged {
    FindingChanged {
        version: 1,
        status: FindingStatus::Open,
        code: Code::OpenFlag,
        payment_ref: None,
        field: None,
        flag: Some(Flag::DoublePayment),
        lines: Vec::new(),
        decision: None,
        action: "refund one of the payments; that clears it".to_owned(),
        ..finding_changed()
    }
}

fn total() -> ControlTotal {
    ControlTotal {
        day: "2026-01-31".to_owned(),
        currency: currency(),
        status: Status::Success,
        ours: Sum { count: 2, amount: 500_000 },
        partners: Sum { count: 2, amount: 490_000 },
    }
}

pub fn run_ended() -> RunEnded {
    RunEnded {
        run: "a1b2".repeat(8),
        partner: key().partner,
        day: "2026-01-31".to_owned(),
        from: time("2026-01-30T17:00:00Z"),
        until: time("2026-01-31T17:00:00Z"),
        zone: "Asia/Ho_Chi_Minh".to_owned(),
        started_at: time("2026-02-01T06:00:00Z"),
        result: RunResult::Incomplete,
        problems: vec!["1 line can't be read".to_owned()],
        records: RecordsFile {
            name: "day.csv".to_owned(),
            sha256: Digest::of_bytes(b"file"),
            lines: 4,
            entries: 2,
            ignored: 1,
            bad: 1,
            bad_lines: vec![BadLine { line: 3, problem: "amount: no plain digits".to_owned() }],
        },
        compared: Compared { orders: 2, matched: 1, pending: 0, cut_off: 0 },
        findings: FindingCounts {
            opened: 1,
            open: 1,
            decided: 0,
            cleared: 0,
            open_of_other_days: 0,
        },
        totals: vec![total()],
        listed_early: vec!["evt-8".to_owned()],
        listed_apart: None,
        unlisted: None,
        asked: None,
        adjusts: Some(Digest::of_bytes(b"seal")),
    }
}

pub fn run_ended_first() -> RunEnded {
    RunEnded {
        result: RunResult::Complete,
        problems: Vec::new(),
        listed_early: Vec::new(),
        adjusts: None,
        ..run_ended()
    }
}

pub fn run_ended_apart() -> RunEnded {
    RunEnded {
        listed_apart: Some(vec!["0123456789abcdef0123456789abcdef".to_owned()]),
        unlisted: Some(Vec::new()),
        ..run_ended_first()
    }
}

pub fn run_ended_asked() -> RunEnded {
    RunEnded {
        asked: Some(RunAsked { by: author("ann"), at: time("2026-02-01T06:05:00Z") }),
        ..run_ended_first()
    }
}

pub fn period_closed() -> PeriodClosed {
    PeriodClosed {
        partner: key().partner,
        day: "2026-01-31".to_owned(),
        run: "a1b2".repeat(8),
        author: author("finance-1"),
        at: time("2026-02-01T10:00:00Z"),
        totals: vec![total()],
        findings: vec![finding_changed().event_id()],
        seal: Digest::of_bytes(b"seal"),
    }
}

pub fn flag_decided() -> FlagDecided {
    FlagDecided {
        order: key(),
        flag: Flag::AmountMismatch,
        evidence: Digest::of_bytes(b"evidence"),
        accept: Verdict::WriteOff,
        author: author("finance-1"),
        reason: "agreed by phone".to_owned(),
        at: time("2026-02-01T09:00:00Z"),
        seconded_by: Some(author("finance-2")),
        second_reason: None,
        decision_id: Some("dec-1".to_owned()),
        decisions_before: 0,
        withdrawn: false,
    }
}

pub fn flag_decided_waiting() -> FlagDecided {
    FlagDecided { seconded_by: None, decision_id: None, ..flag_decided() }
}

/// With what the second person wrote.
pub fn flag_decided_agreed() -> FlagDecided {
    FlagDecided { second_reason: Some("I saw it".to_owned()), ..flag_decided() }
}

pub fn notice_decided_agreed() -> NoticeDecided {
    NoticeDecided { second_reason: Some("I saw it".to_owned()), ..notice_decided() }
}

pub fn finding_changed_agreed() -> FindingChanged {
    let decision = finding_changed().decision;
    let decision =
        decision.map(|one| FindingDecision { second_reason: Some("I saw it".to_owned()), ..one });
    FindingChanged { decision, ..finding_changed() }
}

pub fn notice_decided() -> NoticeDecided {
    NoticeDecided {
        position: Position { partition: 0, offset: 12 },
        account: "default/SHOP-1".to_owned(),
        code: "timestamp_out_of_window".to_owned(),
        request_id: request_id(),
        received_at: time("2026-01-31T11:05:00Z"),
        order: Some(key()),
        evidence: Digest::of_bytes(b"record"),
        verdict: NoticeVerdict::Release,
        because: Some(Because::ClockFixed),
        author: author("ops-1"),
        reason: "NTP was off".to_owned(),
        at: time("2026-02-01T09:00:00Z"),
        seconded_by: Some(author("ops-2")),
        second_reason: None,
        decided: true,
        decisions_before: 0,
        withdrawn: false,
    }
}

/// Its author takes the first decision back; it was the third entry on this notice.
pub fn notice_decided_withdrawn() -> NoticeDecided {
    NoticeDecided {
        seconded_by: None,
        second_reason: None,
        decided: false,
        reason: "the partner sends it again".to_owned(),
        decisions_before: 2,
        withdrawn: true,
        ..notice_decided()
    }
}

pub fn flag_decided_withdrawn() -> FlagDecided {
    FlagDecided { decisions_before: 1, withdrawn: true, ..flag_decided_waiting() }
}

/// It waits for a second person, after one decision was withdrawn and one replaced.
pub fn finding_changed_contested() -> FindingChanged {
    let decision = finding_changed().decision;
    let decision = decision.map(|one| FindingDecision { seconded_by: None, ..one });
    let earlier = |ended, reason: Option<&str>| EarlierDecision {
        accept: Verdict::Ours,
        author: author("finance-2"),
        seconded_by: None,
        second_reason: None,
        reason: "their file is late".to_owned(),
        at: time("2026-02-01T08:00:00Z"),
        ended,
        ended_by: author("finance-1"),
        ended_at: time("2026-02-01T08:30:00Z"),
        ended_reason: reason.map(str::to_owned),
    };
    let withdrawn = earlier(DecisionEnd::Withdrawn, Some("a slip"));
    FindingChanged {
        version: 5,
        status: FindingStatus::Open,
        decision,
        earlier_decisions: vec![withdrawn, earlier(DecisionEnd::Replaced, None)],
        ..finding_changed()
    }
}

pub fn finding_changed_reopened() -> FindingChanged {
    let ended = |earlier: EarlierDecision| EarlierDecision {
        seconded_by: Some(author("finance-3")),
        second_reason: None,
        ended: DecisionEnd::Reopened,
        ended_by: author("payfold"),
        ..earlier
    };
    let contested = finding_changed_contested();
    let earlier_decisions = contested.earlier_decisions.into_iter().skip(1).map(ended).collect();
    FindingChanged { version: 6, decision: None, earlier_decisions, ..finding_changed_contested() }
}

pub fn raw_read() -> RawRead {
    RawRead {
        account: "default/SHOP-1".to_owned(),
        topic: "intake".to_owned(),
        position: Position { partition: 0, offset: 12 },
        request_id: request_id(),
        author: author("ops-1"),
        reason: "a payer asked what we keep".to_owned(),
        at: time("2026-02-01T09:00:00Z"),
    }
}

pub fn token_recorded() -> TokenRecorded {
    TokenRecorded {
        owner: author("ann"),
        token: Digest::of_bytes(b"a token"),
        role: TokenRole::Finance,
        change: TokenChange::Added,
        at: time("2026-02-01T09:00:00Z"),
    }
}

pub fn notice_decided_unread() -> NoticeDecided {
    NoticeDecided {
        order: None,
        verdict: NoticeVerdict::Dismiss,
        because: None,
        seconded_by: None,
        second_reason: None,
        decided: false,
        ..notice_decided()
    }
}
