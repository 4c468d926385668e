//! Somebody with one good token, or with several that they just made: alone they neither leave a
//! record out of the fold nor destroy the bytes of a month.

use std::rc::Rc;
use std::time::Duration;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::Topic;
use payfold_schemas::month::Month;

use crate::parked::damage;
use crate::retention::{add_keys, past};
use crate::support::notice::Notice;
use crate::support::pair::Inside;
use crate::support::system::{Done, Home};
use crate::support::waits::until;

const SECRET: &str = "a test secret of acme, worth nothing";

/// A system with a damaged record, and with tokens of ann and bob that it has just recorded; and
/// the record's position.
fn halted() -> (Rc<Home>, String) {
    let home = Home::configured("[partners.acme]\nprofile = \"default\"\n");
    home.add_key("acme", SECRET, &["--merchant", "SHOP"]);
    let system = home.boot();
    assert_eq!(system.post_ipn(&Notice::paid("SHOP", "o-1", "r-1").signed(SECRET)).status, 200);
    for name in ["ann", "bob"] {
        home.token_file(name, "admin");
    }
    until("the tokens are recorded", Duration::from_secs(20), || {
        let recorded = home.tail("findings");
        let names: Vec<_> = recorded.iter().map(|one| one["data"]["owner"].as_str()).collect();
        [Some("ann"), Some("bob")].iter().all(|name| names.contains(name)).then_some(())
    });
    Inside::of(&home).settle();
    system.stop();
    let [_, damaged] = damage(&home, Topic::Intake);
    (home, damaged.to_string())
}

/// A command of a person, on a system that may have another rule on how long tokens are known.
fn by(home: &Home, (token, hours): (&str, Option<&str>), command: &[&str]) -> Done {
    let hours = hours.map(|hours| ("PAYFOLD_RECONCILER__SECOND_AFTER_HOURS", hours));
    let command = [command, &["--yes", "--admin-token-file", token]].concat();
    home.payfold_with(&command, hours.as_slice())
}

/// Tries a step that takes two people as one person with several tokens: it is not taken. Then
/// takes it as two people, on a system that asks for no age of their tokens.
fn takes_two(home: &Home, step: &[&str], is_done: impl Fn() -> bool) {
    home.payfold(&[step, &["--yes"]].concat()).fails(&["local is any user of this machine"]);
    let [ann, bob] = ["ann.token", "bob.token"].map(|name| home.file(name));
    let carl = home.token_file("carl", "admin");
    by(home, (&ann, None), step).ok();
    for (other, why) in [
        (&bob, "ann has proposed it, but the token of ann is new or has a new role"),
        (&carl, "ann has proposed it, but the token of ann is new or has a new role"),
        (&carl, "carl has proposed this at "),
        (&ann, "carl has no token that this system has recorded"),
    ] {
        let agreed = by(home, (other, None), step);
        assert!(agreed.stderr.contains(why), "{why}: {agreed:?}");
        assert!(!is_done(), "{why}");
    }
    by(home, (&bob, Some("0")), step).ok();
    assert!(is_done());
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
        assert!(key["state"] != "erased" || key["secondedBy"] == "bob", "{key}");
        key["state"] == "erased"
    });
}
