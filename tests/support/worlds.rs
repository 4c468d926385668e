//! Owns generated worlds: facts of one order drawn from pools so small that refs, amounts, times
//! and event refs collide all the time. A world is a list of numbers; each shrinks towards the
//! plainest fact.

use payfold_schemas::digest::Digest;
use payfold_schemas::fact::{
    Create, CreateFailed, Decision, Fact, Presentation, QueryAnswer, Session, SharedRef, Verdict,
};
use payfold_schemas::ids::{Author, EventRef, OrderId, ProviderRef, Reference};
use payfold_schemas::ipn::{Ipn, IpnPolicy, MoneyContent, Status};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::order::Flag;
use payfold_schemas::time::Time;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

/// How many worlds a law is tried on: 20,000, or `PAYFOLD_WORLDS`.
#[expect(clippy::disallowed_methods, reason = "a test's own knob; no code under test sees it")]
pub fn worlds() -> u32 {
    std::env::var("PAYFOLD_WORLDS")
        .map_or(20_000, |count| count.parse().expect("PAYFOLD_WORLDS is a number of worlds"))
}

/// Tries a law on `worlds()` values of a strategy; panics with the smallest value that breaks it. A
/// law breaks by `prop_assert!`, not by a panic: a panic of the code under test is worth a
/// backtrace.
pub fn hold<S: Strategy>(strategy: S, law: impl Fn(S::Value) -> Outcome) {
    let config = Config {
        cases: worlds(),
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    };
    if let Err(broken) = TestRunner::new(config).run(&strategy, law) {
        panic!("{broken}");
    }
}

/// What trying a law on one value comes to.
pub type Outcome = Result<(), TestCaseError>;

/// A world of up to `facts_max` facts, with duplicates, without decisions.
pub fn world(facts_max: usize) -> impl Strategy<Value = Vec<Fact>> {
    // A rare thing may happen in a quarter of the worlds.
    let spice = (any::<u16>(), any::<u16>()).prop_map(|(one, other)| Spice(one & other));
    (spice, prop::collection::vec(any::<u32>(), 0..=facts_max))
        .prop_map(|(spice, codes)| codes.into_iter().map(|code| fact(spice, code)).collect())
}

/// Few enough facts that no cap is reached in most worlds, enough that everything collides.
pub const FACTS_MAX: usize = 40;

/// A decision to insert: which raised flag, with which verdict, at which place, under which id.
pub type Pick = (usize, usize, usize, usize);

/// A world, and what the laws about it draw beside its facts.
#[derive(Clone, Debug)]
pub struct Drawn {
    pub facts: Vec<Fact>,
    /// Where batches are cut, which facts are repeated, in which order they come in.
    pub seeds: Vec<u32>,
    pub picks: Vec<Pick>,
}

impl Drawn {
    /// The same facts in another order.
    pub fn shuffled(&self) -> Vec<Fact> {
        let mut others = self.facts.clone();
        for (place, seed) in (1..others.len()).rev().zip(self.seeds.iter().cycle()) {
            others.swap(place, index(seed.rotate_left(7), place + 1));
        }
        others
    }

    /// The facts up to and from some place.
    pub fn halves(&self) -> (&[Fact], &[Fact]) {
        self.facts.split_at(index(self.seeds[0], self.facts.len() + 1))
    }

    /// Some of the facts, some of them repeatedly.
    pub fn repeats(&self) -> Vec<Fact> {
        let seeds = self.seeds.iter().filter(|_| !self.facts.is_empty());
        seeds.map(|seed| self.facts[index(*seed, self.facts.len())].clone()).collect()
    }

    /// The first facts with decisions among them, each on a flag that some of the facts raise; they
    /// are few enough to decide flags that stay.
    pub fn with_decisions(&self, raised: impl Fn(&[Fact]) -> Vec<(Flag, Digest)>) -> Vec<Fact> {
        let facts = &self.facts[..self.facts.len().min(DECIDED_MAX)];
        let mut all = facts.to_vec();
        for (which, verdict, place, id) in &self.picks {
            // A decision on half the facts may be stale by the end: it must not close anything
            // then.
            let known = if which % 2 == 0 { facts } else { &facts[..facts.len() / 2] };
            let raised = raised(known);
            if let Some((flag, evidence)) = raised.get(which % raised.len().max(1)) {
                let accept = [Verdict::Ours, Verdict::Partner][*verdict];
                let own_id = format!("{flag}-{evidence}-{accept:?}");
                let id = ["d1".to_owned(), own_id.clone(), own_id][*id].clone();
                all.insert(place % (all.len() + 1), decision(id, *flag, *evidence, accept));
            }
        }
        all
    }
}

/// A world with all that the laws draw.
pub fn drawn() -> impl Strategy<Value = Drawn> {
    let seeds = prop::collection::vec(any::<u32>(), 8);
    let picks = prop::collection::vec((0..8_usize, 0..2_usize, 0..12_usize, 0..3_usize), 1..4);
    (world(FACTS_MAX), seeds, picks).prop_map(|(facts, seeds, picks)| Drawn { facts, seeds, picks })
}

const DECIDED_MAX: usize = 12;

fn index(seed: u32, len: usize) -> usize {
    Dice(seed).roll(len)
}

/// Which rare things may happen in a world: without this every world would have every flag.
#[derive(Clone, Copy, Debug)]
struct Spice(u16);

impl Spice {
    const CREATE_CONFLICT: u16 = 1;
    const SECOND_SESSION: u16 = 1 << 1;
    const OTHER_CURRENCY: u16 = 1 << 2;
    const UNCONFIRMED: u16 = 1 << 3;
    const EVENT_REFS: u16 = 1 << 4;
    const SHARED_REF: u16 = 1 << 5;
    const OTHER_AMOUNT: u16 = 1 << 6;
    const OTHER_REF: u16 = 1 << 7;
    const POLICIES: u16 = 1 << 8;
    const NO_CREATE: u16 = 1 << 9;
    const QUERIES: u16 = 1 << 10;
    const NO_NEGATIVES: u16 = 1 << 11;
    const TOTALS: u16 = 1 << 12;

    fn has(self, what: u16) -> bool {
        self.0 & what == what
    }

    /// The first of these values, or any where the world has this spice.
    fn pick<T: Copy>(self, what: u16, dice: &mut Dice, values: &[T]) -> T {
        let rolled = dice.roll(values.len());
        values[if self.has(what) { rolled } else { 0 }]
    }
}

/// Draws small numbers from one large one.
struct Dice(u32);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        let sides = u32::try_from(sides).expect("pools are small");
        let rolled = self.0 % sides;
        self.0 /= sides;
        usize::try_from(rolled).expect("pools are small")
    }
}

fn fact(spice: Spice, code: u32) -> Fact {
    let mut dice = Dice(code);
    match dice.roll(20) {
        0..3 if spice.has(Spice::NO_CREATE) => failed(&mut dice),
        0..3 => create(spice, &mut dice),
        3..5 => session(spice, &mut dice),
        5..13 => ipn(spice, &mut dice),
        13..17 if spice.has(Spice::QUERIES) => answer(spice, &mut dice),
        13..17 => ipn(spice, &mut dice),
        17 => Fact::DeadlinePassed { deadline: minute([10, 20, 19, 30][dice.roll(4)]) },
        18 if spice.has(Spice::SHARED_REF) => shared(spice, &mut dice),
        18 => session(spice, &mut dice),
        _ => failed(&mut dice),
    }
}

fn create(spice: Spice, dice: &mut Dice) -> Fact {
    let values =
        [(100, "VND", 1), (60, "VND", 1), (100, "USD", 1), (100, "VND", 2), (150, "VND", 1)];
    let (amount, code, attempt) = spice.pick(Spice::CREATE_CONFLICT, dice, &values);
    Fact::CreateRequested(Create {
        amount: minor(amount),
        currency: currency(code),
        reference: Reference::parse(["ref-1", "ref-2"][usize::from(amount == 150)]).expect("valid"),
        attempt,
        deadline: minute(if attempt == 1 { 15 } else { 25 }),
    })
}

fn session(spice: Spice, dice: &mut Dice) -> Fact {
    let values = [(0, 10), (0, 20), (1, 20), (2, 10)];
    let (name, deadline) = spice.pick(Spice::SECOND_SESSION, dice, &values);
    let url = ["https://a.example/1", "https://a.example/2"];
    Fact::SessionOpened(Session {
        provider_ref: provider_ref(name),
        presentation: Presentation::RedirectUrl(
            spice.pick(Spice::SECOND_SESSION, dice, &url).to_owned(),
        ),
        expires_at: minute(deadline - 2),
        deadline: minute(deadline),
        create: Digest::of_bytes(b"create"),
    })
}

fn failed(dice: &mut Dice) -> Fact {
    let code = ["partner_refused", "contract_violation.expiry"][dice.roll(2)];
    Fact::CreateFailed(CreateFailed { code: code.to_owned() })
}

fn status(spice: Spice, dice: &mut Dice) -> Status {
    let rolled = Status::ALL[dice.roll(4)];
    let negative = matches!(rolled, Status::Failed | Status::Expired);
    if negative && spice.has(Spice::NO_NEGATIVES) { Status::Success } else { rolled }
}

fn amount(spice: Spice, dice: &mut Dice, status: Status) -> Amount {
    // Refunds come in parts that can add up to C, and to more.
    let parts = [100, 40, 60, 30, 70];
    if status == Status::Refunded {
        minor(parts[dice.roll(parts.len())])
    } else {
        minor(spice.pick(Spice::OTHER_AMOUNT, dice, &[100, 100, 100, 60, 150]))
    }
}

fn ipn(spice: Spice, dice: &mut Dice) -> Fact {
    let status = status(spice, dice);
    let policy = IpnPolicy {
        unconfirmed: spice.pick(Spice::UNCONFIRMED, dice, &[false, true, true]),
        ref_is_session: spice.pick(Spice::POLICIES, dice, &[false, true]),
        placeholder_ref: spice.pick(Spice::POLICIES, dice, &[false, false, true]),
        nonce_required: false,
        refund_so_far: spice.pick(Spice::TOTALS, dice, &[false, true, true])
            && status == Status::Refunded,
    };
    let event_ref =
        spice.pick(Spice::EVENT_REFS, dice, &[None, Some("e1"), Some("e2"), Some("e3")]);
    let paid_at = match status {
        Status::Success => Some(minute([5, 10, 11, 21][dice.roll(4)])),
        Status::Failed | Status::Expired | Status::Refunded => {
            [None, Some(minute(12))][dice.roll(2)]
        }
    };
    Fact::Ipn(Ipn {
        provider_ref: provider_ref(spice.pick(Spice::OTHER_REF, dice, &[0, 0, 1, 2])),
        status,
        money: MoneyContent {
            amount: amount(spice, dice, status),
            currency: currency(spice.pick(Spice::OTHER_CURRENCY, dice, &["VND", "VND", "USD"])),
            paid_at,
            event_ref: event_ref.map(|name| EventRef::parse(name).expect("valid")),
        },
        timestamp: None,
        nonce: None,
        policy,
    })
}

fn answer(spice: Spice, dice: &mut Dice) -> Fact {
    let status = status(spice, dice);
    Fact::QueryAnswered(QueryAnswer {
        provider_ref: provider_ref(spice.pick(Spice::OTHER_REF, dice, &[0, 0, 1, 2])),
        status,
        amount: amount(spice, dice, status),
        currency: currency(spice.pick(Spice::OTHER_CURRENCY, dice, &["VND", "VND", "USD"])),
    })
}

fn shared(spice: Spice, dice: &mut Dice) -> Fact {
    Fact::RefShared(SharedRef {
        provider_ref: provider_ref(spice.pick(Spice::OTHER_REF, dice, &[0, 1])),
        other_order: OrderId::parse(["other-1", "other-2"][dice.roll(2)]).expect("valid"),
    })
}

/// A person's decision on a flag and its evidence.
pub fn decision(id: String, flag: Flag, evidence: Digest, accept: Verdict) -> Fact {
    Fact::Decided(Decision {
        id,
        flag,
        evidence,
        accept,
        author: Author::parse("an operator").expect("valid"),
        reason: "seen".to_owned(),
        seconded_by: None,
    })
}

/// A create request; another attempt is another one.
pub fn create_of(attempt: u32) -> Fact {
    Fact::CreateRequested(Create {
        amount: minor(100),
        currency: currency("VND"),
        reference: Reference::parse("ref-1").expect("valid"),
        attempt,
        deadline: minute(15),
    })
}

/// A notice of ref number `name`.
pub fn ipn_of(name: usize, status: Status, units: i64) -> Fact {
    Fact::Ipn(Ipn {
        provider_ref: provider_ref(name),
        status,
        money: MoneyContent {
            amount: minor(units),
            currency: currency("VND"),
            paid_at: (status == Status::Success).then(|| minute(5)),
            event_ref: None,
        },
        timestamp: None,
        nonce: None,
        policy: IpnPolicy::default(),
    })
}

/// A session of ref number `name`.
pub fn session_of(name: usize) -> Fact {
    Fact::SessionOpened(Session {
        provider_ref: provider_ref(name),
        presentation: Presentation::QrPayload("qr".to_owned()),
        expires_at: minute(8),
        deadline: minute(10),
        create: Digest::of_bytes(b"create"),
    })
}

/// Ref number `name`.
pub fn provider_ref(name: usize) -> ProviderRef {
    ProviderRef::parse(&format!("r{name}")).expect("valid")
}

/// An instant so many minutes after a fixed one.
pub fn minute(minutes: i64) -> Time {
    Time::from_unix_ms(1_769_853_600_000).plus_ms(minutes * 60_000)
}

/// So many minor units.
pub fn minor(units: i64) -> Amount {
    Amount::from_minor(units).expect("pools hold amounts")
}

/// A currency of ISO 4217.
pub fn currency(code: &str) -> Currency {
    Currency::parse(code).expect("pools hold currencies")
}
