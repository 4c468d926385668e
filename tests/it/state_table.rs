//! Owns the state table of one ref: it is generated from the rules and compared with the text people read.

use std::fmt::Write as _;

use payfold_projector::fold::{apply, summarize};
use payfold_schemas::fact::{Create, Fact};
use payfold_schemas::ids::Reference;
use payfold_schemas::ipn::{Ipn, IpnPolicy, MoneyContent, Status};
use payfold_schemas::order::{KnownFacts, OrderState};
use payfold_schemas::record::Position;

use crate::support::oracle::Oracle;
use crate::support::worlds::{currency, minor, minute, provider_ref, session_of};

const TABLE: &str = "\
| | O | S | F | E | R | X |
|---|---|---|---|---|---|---|
| REQUESTED | PENDING | PAID | FAILED | EXPIRED | REFUNDED | EXPIRED |
| PENDING | = | PAID | FAILED | EXPIRED | REFUNDED | EXPIRED |
| EXPIRED | = | PAID | FAILED | = | REFUNDED | = |
| FAILED | = | PAID | = | = | REFUNDED | = |
| PAID | = | = | = | = | REFUNDED | = |
| REFUNDED | = | = | = | = | = | = |
";

/// The plainest fact of a letter, all about one ref.
fn plain(letter: &str) -> Fact {
    match letter {
        "C" => Fact::CreateRequested(Create {
            amount: minor(100),
            currency: currency("VND"),
            reference: Reference::parse("ref-1").expect("valid"),
            attempt: 1,
            deadline: minute(15),
        }),
        "O" => session_of(0),
        "X" => Fact::DeadlinePassed { deadline: minute(10) },
        "S" => ipn(Status::Success),
        "F" => ipn(Status::Failed),
        "E" => ipn(Status::Expired),
        "R" => ipn(Status::Refunded),
        other => panic!("no plain fact {other}"),
    }
}

fn ipn(status: Status) -> Fact {
    Fact::Ipn(Ipn {
        provider_ref: provider_ref(0),
        status,
        money: MoneyContent {
            amount: minor(100),
            currency: currency("VND"),
            paid_at: (status == Status::Success).then(|| minute(5)),
            event_ref: None,
        },
        timestamp: None,
        nonce: None,
        policy: IpnPolicy::default(),
    })
}

fn facts(letters: &str) -> Vec<Fact> {
    letters.split_whitespace().map(plain).collect()
}

fn generate(state_of: impl Fn(&[Fact]) -> OrderState) -> String {
    let columns = ["O", "S", "F", "E", "R", "X"];
    let mut table = format!("| | {} |\n|{}\n", columns.join(" | "), "---|".repeat(7));
    for row in ["C", "C O", "C O E", "C O F", "C O S", "C O S R"] {
        let from = state_of(&facts(row));
        write!(table, "| {from} |").expect("writes to memory");
        for column in columns {
            match state_of(&facts(&format!("{row} {column}"))) {
                to if to == from => table.push_str(" = |"),
                to => write!(table, " {to} |").expect("writes to memory"),
            }
        }
        table.push('\n');
    }
    table
}

fn oracle(facts: &[Fact]) -> OrderState {
    Oracle::of(facts).expect(|_, _| None).state
}

fn fold(facts: &[Fact]) -> OrderState {
    let mut known = KnownFacts::default();
    for fact in facts {
        apply(&mut known, fact, Position::default());
    }
    summarize(&known).state
}

#[test]
fn fold_and_oracle_give_the_table_people_read() {
    assert_eq!(generate(fold), TABLE);
    assert_eq!(generate(oracle), TABLE);
}

#[test]
fn a_deadline_before_the_sessions_own_does_not_expire_it() {
    let early = Fact::DeadlinePassed { deadline: minute(9) };
    for state_of in [fold, oracle] {
        assert_eq!(state_of(&[plain("C"), early.clone()]), OrderState::Expired);
        assert_eq!(state_of(&[plain("C"), early.clone(), plain("O")]), OrderState::Pending);
    }
}
