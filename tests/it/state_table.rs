//! Owns the state table of one ref: what the projector renders is what the oracle says, and what
//! people read.

use std::fmt::Write as _;
use std::io::ErrorKind;

use payfold_projector::fold::table;
use payfold_schemas::fact::Fact;
use payfold_schemas::ipn::Status;
use payfold_schemas::order::OrderState;

use crate::support::oracle::Oracle;
use crate::support::worlds::{create_of, ipn_of, minute, session_of};

const DOCUMENT: &str = "docs/order-state.md";

/// Each state's name, and the facts that lead there; two rows of one state name the way, too.
const ROWS: [(&str, &str); 6] = [
    ("REQUESTED", "C"),
    ("PENDING", "C O"),
    ("EXPIRED", "C E"),
    ("FAILED (F)", "C F"),
    ("PAID", "C O S"),
    ("REFUNDED", "C O S R"),
];

/// The plainest fact of a letter, all about one ref.
fn plain(letter: &str) -> Fact {
    match letter {
        "C" => create_of(1),
        "O" => session_of(0),
        "early-X" => Fact::DeadlinePassed { deadline: minute(9) },
        "X" => Fact::DeadlinePassed { deadline: minute(10) },
        "S" => ipn_of(0, Status::Success, 100),
        "F" => ipn_of(0, Status::Failed, 100),
        "E" => ipn_of(0, Status::Expired, 100),
        "R" => ipn_of(0, Status::Refunded, 100),
        other => panic!("no plain fact {other}"),
    }
}

/// What the oracle says of these facts.
fn state(letters: &str) -> OrderState {
    let facts: Vec<_> = letters.split_whitespace().map(plain).collect();
    Oracle::of(&facts).expect(|_, _| None).state
}

/// What another fact makes of a state.
fn cell(row: &str, column: &str) -> String {
    let (from, to) = (state(row), state(&format!("{row} {column}")));
    if to == from { "=".to_owned() } else { to.to_string() }
}

/// The table as the oracle has it.
fn generate() -> String {
    let columns = ["O", "S", "F", "E", "R", "X"];
    let mut table = format!("| | {} |\n|{}\n", columns.join(" | "), "---|".repeat(7));
    for (name, row) in ROWS {
        assert!(name.starts_with(state(row).as_str()), "{row} leads to {}", state(row));
        write!(table, "| {name} |").expect("writes to memory");
        for column in columns {
            let (cell, early) = (cell(row, column), self::cell("C early-X", column));
            let differs = name == "EXPIRED" && early != cell;
            let early =
                if differs { format!(" (X before O's deadline: {early})") } else { "".into() };
            write!(table, " {cell}{early} |").expect("writes to memory");
        }
        table.push('\n');
    }
    table
}

/// The correction of a document that doesn't hold the table; `None` if it does.
fn outdated(document: &str) -> Option<String> {
    let table = table::render();
    (!document.contains(&table)).then(|| {
        format!(
            "{DOCUMENT} does not hold the state table as the fold has it. \
             Put this in place of the old one \
             (`cargo test -p payfold --test it print_the_state_table -- --ignored --nocapture` \
                 prints it \
             again):\n\n{table}"
        )
    })
}

#[test]
fn fold_and_oracle_give_one_state_table() {
    assert_eq!(table::render(), generate(), "fold (left) and oracle (right)");
}

#[test]
fn the_docs_hold_the_state_table() {
    let table = table::render();
    assert_eq!(outdated(&format!("before\n\n{table}\nafter\n")), None);
    assert!(outdated(&table.replacen("PAID", "PENDING", 1)).is_some(), "a wrong cell is seen");
    match std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/order-state.md")) {
        Ok(document) => {
            let advice = outdated(&document);
            assert!(advice.is_none(), "{}", advice.unwrap_or_default());
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{DOCUMENT}: {error}"),
    }
}

/// Prints the table for the docs.
#[test]
#[ignore = "a generator"]
fn print_the_state_table() {
    println!("{}", table::render());
}
