//! Facts in one line, for tests: `C 100`, `S r1 100 @10:05`, …

use payfold_schemas::digest::Digest;
use payfold_schemas::fact::{
    Create, CreateFailed, Decision, Fact, Presentation, QueryAnswer, Session, SharedRef, Verdict,
};
use payfold_schemas::ids::{Author, EventRef, OrderId, ProviderRef, Reference};
use payfold_schemas::ipn::{Ipn, IpnPolicy, MoneyContent, Status};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::order::{Flag, KnownFacts};
use payfold_schemas::position::Position;
use payfold_schemas::time::Time;

use super::fold;

/// `10:05` of the one day all tests play on.
pub(crate) fn at(clock: &str) -> Time {
    Time::parse(&format!("2026-01-31T{clock}:00Z")).unwrap()
}

/// Reads one fact:
/// ```text
/// C amount [currency] [#attempt] [<deadline]      O ref [<deadline]      CF code      X deadline
/// S|F|E|R ref amount [currency] [@paidAt] [!eventRef]
///     [unconfirmed] [session] [placeholder] [so-far]
/// P status-letter ref amount [currency]       K ref order       D id flag evidence verdict
/// ```
pub(crate) fn fact(text: &str) -> Fact {
    let mut words = text.split_whitespace();
    let mut next = || words.next().unwrap_or_else(|| panic!("{text:?} ends early"));
    match next() {
        "C" => {
            let amount = amount(next());
            let rest: Vec<_> = words.collect();
            let attempt = marked(&rest, '#').map_or(1, |n| n.parse().unwrap());
            let (currency, deadline) = (currency(&rest), at(marked(&rest, '<').unwrap_or("10:30")));
            let reference = Reference::parse("basket 1").unwrap();
            Fact::CreateRequested(Create { amount, currency, reference, attempt, deadline })
        }
        "O" => {
            let provider_ref = ProviderRef::parse(next()).unwrap();
            let deadline = at(words.next().and_then(|w| w.strip_prefix('<')).unwrap_or("10:17"));
            Fact::SessionOpened(Session {
                provider_ref,
                presentation: Presentation::QrPayload("qr".into()),
                expires_at: deadline.plus_ms(-120_000),
                deadline,
                create: Digest::of_bytes(b"C"),
            })
        }
        "CF" => Fact::CreateFailed(CreateFailed { code: next().into() }),
        "X" => Fact::DeadlinePassed { deadline: at(next()) },
        "P" => {
            let status = status(next());
            let (provider_ref, amount) = (ProviderRef::parse(next()).unwrap(), amount(next()));
            let currency = currency(&words.collect::<Vec<_>>());
            Fact::QueryAnswered(QueryAnswer { provider_ref, status, amount, currency })
        }
        "K" => Fact::RefShared(SharedRef {
            provider_ref: ProviderRef::parse(next()).unwrap(),
            other_order: OrderId::parse(next()).unwrap(),
        }),
        "D" => Fact::Decided(Decision {
            id: next().into(),
            flag: Flag::parse(next()).unwrap(),
            evidence: next().parse().unwrap(),
            accept: verdict(next()),
            author: Author::parse("mai").unwrap(),
            reason: "seen".into(),
            seconded_by: None,
        }),
        letter => {
            let status = status(letter);
            let (provider_ref, amount) = (ProviderRef::parse(next()).unwrap(), amount(next()));
            let rest: Vec<_> = words.collect();
            let money = MoneyContent {
                amount,
                currency: currency(&rest),
                paid_at: marked(&rest, '@').map(at),
                event_ref: marked(&rest, '!').map(|r| EventRef::parse(r).unwrap()),
            };
            let policy = IpnPolicy {
                unconfirmed: rest.contains(&"unconfirmed"),
                ref_is_session: rest.contains(&"session"),
                placeholder_ref: rest.contains(&"placeholder"),
                nonce_required: rest.contains(&"nonce"),
                refund_so_far: rest.contains(&"so-far"),
            };
            Fact::Ipn(Ipn { provider_ref, status, money, timestamp: None, nonce: None, policy })
        }
    }
}

/// Reads facts, one a line or between semicolons.
pub(crate) fn facts(text: &str) -> Vec<Fact> {
    text.split([';', '\n']).map(str::trim).filter(|line| !line.is_empty()).map(fact).collect()
}

/// Folds facts in the order given, at positions 1, 2, ….
pub(crate) fn known(facts: &[Fact]) -> (KnownFacts, u64) {
    let positions = (1..).map(|offset| Position { partition: 0, offset });
    fold(positions.zip(facts.iter().cloned()))
}

fn amount(digits: &str) -> Amount {
    Amount::parse(digits).unwrap()
}

fn currency(words: &[&str]) -> Currency {
    words
        .iter()
        .find_map(|word| Currency::parse(word).ok())
        .unwrap_or(Currency::parse("VND").unwrap())
}

fn marked<'t>(words: &[&'t str], mark: char) -> Option<&'t str> {
    words.iter().find_map(|word| word.strip_prefix(mark))
}

fn status(letter: &str) -> Status {
    match letter {
        "S" => Status::Success,
        "F" => Status::Failed,
        "E" => Status::Expired,
        "R" => Status::Refunded,
        other => panic!("{other:?} is no fact"),
    }
}

fn verdict(word: &str) -> Verdict {
    match word {
        "ours" => Verdict::Ours,
        "partner" => Verdict::Partner,
        "write-off" => Verdict::WriteOff,
        other => panic!("{other:?} is no verdict"),
    }
}
