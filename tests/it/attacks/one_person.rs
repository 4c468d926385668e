//! Somebody with one good token, or with several that they just made: alone they neither leave a
//! record out of the fold nor destroy the bytes of a month.

use std::rc::Rc;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::{Message, Topic};
use payfold_schemas::digest::Digest;
use payfold_schemas::event::EventAttributes;
use payfold_schemas::ids::Author;
use payfold_schemas::month::Month;
use payfold_schemas::record_mac::Writer;
use payfold_schemas::token::{TOKEN_RECORDED_TYPE, TokenChange, TokenRecorded, TokenRole};

use crate::parked::damage;
use crate::retention::{add_keys, past};
use crate::support::notice::Notice;
use crate::support::pair::{Inside, with_log};
use crate::support::system::{Done, Home};

const SECRET: &str = "a test secret of acme, worth nothing";

/// A system with a damaged record, and the record's position. ann, bob and carl have tokens; those
/// of ann and bob were recorded days ago.
fn halted() -> (Rc<Home>, String) {
    let home = Home::configured("[partners.acme]\nprofile = \"default\"\n");
    home.add_key("acme", SECRET, &["--merchant", "SHOP"]);
    let system = home.boot();
    assert_eq!(system.post_ipn(&Notice::paid("SHOP", "o-1", "r-1").signed(SECRET)).status, 200);
    Inside::of(&home).settle();
    system.stop();
    let [_, damaged] = damage(&home, Topic::Intake);
    for name in ["ann", "bob", "carl"] {
        home.token_file(name, "admin");
        if name != "carl" {
            record(&home, name);
        }
    }
    (home, damaged.to_string())
}

/// Records a person's token as the reconciler did two days ago.
fn record(home: &Home, name: &str) {
    let token = std::fs::read(home.path().join(format!("{name}.token"))).expect("it is there");
    let recorded = TokenRecorded {
        owner: Author::parse(name).expect("a name"),
        token: Digest::of_bytes(&token),
        role: TokenRole::Admin,
        change: TokenChange::Added,
        at: SystemClock.now().plus_ms(-48 * 3_600_000),
    };
    let event =
        EventAttributes { id: recorded.event_id(), kind: TOKEN_RECORDED_TYPE, time: recorded.at };
    let value = serde_json::to_vec(&recorded).expect("it serialises");
    let message = Message { key: name.to_owned(), event: Some(event), value, mac: None };
    with_log(home, Writer::Reconciler, async |log| log.append(Topic::Findings, message).await)
        .expect("it is stored");
}

/// A command of a person.
fn by(home: &Home, name: &str, step: &[&str]) -> Done {
    let token = home.file(&format!("{name}.token"));
    home.payfold(&[step, &["--yes", "--admin-token-file", &token]].concat())
}

/// Tries a step that takes two people as one of them, who has more tokens and can make others; it
/// is not taken. Then takes it as two.
fn takes_two(home: &Home, step: &[&str], is_done: impl Fn() -> bool) {
    home.payfold(&[step, &["--yes"]].concat()).fails(&["local is any user of this machine"]);
    by(home, "ann", step).ok();
    let refused = |name: &str, why: &str| {
        by(home, name, step).fails(&[why]);
        assert!(!is_done(), "{why}");
    };
    refused("ann", "ann has proposed this at ");
    refused("carl", "carl has no token that this system has recorded");
    // Somebody else's name, with a token that replaced the one that is known.
    replace_token(home, "bob", "admin");
    refused("bob", "bob has no token that this system has recorded");
    // Without the configuration, as if it were the demo.
    let (other, token) = (Home::new(), home.file("carl.token"));
    let mut command = home.command(step);
    command.current_dir(other.path()).args(["--yes", "--admin-token-file", &token]);
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("no configuration file"), "{said}");
    assert!(!is_done());

    // The proposal of somebody who has lost the role since.
    replace_token(home, "ann", "viewer");
    record(home, "bob");
    let alone = by(home, "bob", step);
    assert!(alone.stderr.contains("ann has proposed it, but has no token any more"), "{alone:?}");
    assert!(alone.code() == 0 && !is_done(), "bob has proposed it then");
    replace_token(home, "ann", "admin");
    record(home, "ann");
    by(home, "ann", step).ok();
    assert!(is_done());
}

fn replace_token(home: &Home, name: &str, role: &str) {
    home.payfold(&["token", "retire", name]).ok();
    home.token_file(name, role);
}

#[test]
fn one_person_with_two_new_tokens_parks_nothing() {
    let (home, place) = halted();
    takes_two(&home, &["log", "park", &place, "--reason", "forged"], || {
        let verified = home.payfold(&["log", "verify"]);
        assert!(verified.code() == 0 || verified.stdout.contains(&place), "{verified:?}");
        verified.code() == 0
    });
}

#[test]
fn one_person_with_two_new_tokens_erases_nothing() {
    let (home, _) = halted();
    add_keys(&home, &[past(), Month::of(SystemClock.now())]);
    let month = past().to_string();
    let erase = ["retention", "erase", "--account", "acme/SHOP", "--month", &month];
    takes_two(&home, &[&erase[..], &["--reason", "asked"]].concat(), || {
        let keys = home.payfold(&["retention", "list", "--output", "json"]).rows();
        let key = &keys[0];
        assert!(key["state"] != "erased" || key["secondedBy"] == "ann", "{key}");
        key["state"] == "erased"
    });
}
