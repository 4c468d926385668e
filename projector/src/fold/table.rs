//! Owns the state table of the docs. Invariant: it is made by folding facts of one ref.

use payfold_schemas::digest::Digest;
use payfold_schemas::fact::{Create, Fact, Presentation, Session};
use payfold_schemas::ids::{ProviderRef, Reference};
use payfold_schemas::ipn::{Ipn, IpnPolicy, MoneyContent, Status};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::order::OrderState;
use payfold_schemas::position::Position;
use payfold_schemas::time::Time;

use super::{fold, summarize};

/// The deadline of the create request, which is before the session's.
const EARLY_MS: i64 = 1_000;
/// The session's deadline.
const LATE_MS: i64 = 2_000;

/// A fact of the one ref, by its letter; `x` is an X before the session's deadline.
const LETTERS: [char; 6] = ['O', 'S', 'F', 'E', 'R', 'X'];

/// A row: its name, the facts that lead to its state, and, if the state behaves otherwise after
/// other facts, these with their name.
type Row = (&'static str, &'static str, Option<(&'static str, &'static str)>);

const ROWS: [Row; 6] = [
    ("REQUESTED", "C", None),
    ("PENDING", "CO", None),
    ("EXPIRED", "CE", Some(("X before O's deadline", "Cx"))),
    ("FAILED (F)", "CF", None),
    ("PAID", "COS", None),
    ("REFUNDED", "COSR", None),
];

/// The table as markdown: the state after each fact of one ref; `=` where the state stays.
pub fn render() -> String {
    let mut table = String::from("| |");
    for letter in LETTERS {
        table.push_str(&format!(" {letter} |"));
    }
    table.push_str("\n|---|---|---|---|---|---|---|\n");
    for (name, way, other_way) in ROWS {
        table.push_str(&format!("| {name} |"));
        for letter in LETTERS {
            let cell = cell(way, letter);
            match other_way.map(|(when, way)| (when, self::cell(way, letter))) {
                Some((when, other)) if other != cell => {
                    table.push_str(&format!(" {cell} ({when}: {other}) |"));
                }
                Some(_) | None => table.push_str(&format!(" {cell} |")),
            }
        }
        table.push('\n');
    }
    table
}

fn cell(way: &str, letter: char) -> &'static str {
    let before = state_after(way.chars());
    let after = state_after(way.chars().chain([letter]));
    if before == after { "=" } else { after.as_str() }
}

fn state_after(letters: impl Iterator<Item = char>) -> OrderState {
    summarize(&fold(letters.map(|letter| (Position::default(), fact(letter)))).0).state
}

fn fact(letter: char) -> Fact {
    match letter {
        'C' => Fact::CreateRequested(Create {
            amount: amount(),
            currency: currency(),
            reference: Reference::parse("basket").expect("it is printable"),
            attempt: 1,
            deadline: Time::from_unix_ms(EARLY_MS),
        }),
        'O' => Fact::SessionOpened(Session {
            provider_ref: provider_ref(),
            presentation: Presentation::QrPayload("qr".into()),
            expires_at: Time::from_unix_ms(EARLY_MS),
            deadline: Time::from_unix_ms(LATE_MS),
            create: Digest::of_bytes(b""),
        }),
        'x' => Fact::DeadlinePassed { deadline: Time::from_unix_ms(EARLY_MS) },
        'X' => Fact::DeadlinePassed { deadline: Time::from_unix_ms(LATE_MS) },
        'S' => ipn(Status::Success),
        'F' => ipn(Status::Failed),
        'E' => ipn(Status::Expired),
        'R' => ipn(Status::Refunded),
        other => unreachable!("the rows and columns above have no {other}"),
    }
}

fn ipn(status: Status) -> Fact {
    let money = MoneyContent {
        amount: amount(),
        currency: currency(),
        paid_at: (status == Status::Success).then_some(Time::from_unix_ms(0)),
        event_ref: None,
    };
    let (provider_ref, policy) = (provider_ref(), IpnPolicy::default());
    Fact::Ipn(Ipn { provider_ref, status, money, timestamp: None, nonce: None, policy })
}

fn provider_ref() -> ProviderRef {
    ProviderRef::parse("ref").expect("it is printable")
}

fn amount() -> Amount {
    Amount::from_minor(1).expect("one is in range")
}

fn currency() -> Currency {
    Currency::parse("VND").expect("it is in ISO 4217")
}

#[cfg(test)]
mod tests {
    /// The table of docs/order-state.md.
    const EXPECTED: &str = "\
| | O | S | F | E | R | X |
|---|---|---|---|---|---|---|
| REQUESTED | PENDING | PAID | FAILED | EXPIRED | REFUNDED | EXPIRED |
| PENDING | = | PAID | FAILED | EXPIRED | REFUNDED | EXPIRED |
| EXPIRED | = (X before O's deadline: PENDING) | PAID | FAILED | = | REFUNDED | = |
| FAILED (F) | = | PAID | = | = | REFUNDED | = |
| PAID | = | = | = | = | REFUNDED | = |
| REFUNDED | = | = | = | = | = | = |
";

    #[test]
    fn the_table_of_the_docs_is_what_the_fold_does() {
        assert_eq!(super::render(), EXPECTED);
    }
}
