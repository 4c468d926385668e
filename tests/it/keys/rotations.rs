//! Owns rotation under load: twenty keys one after another on a running system, by the commands an
//! operator types, and some by swapping a mounted secret. Inside an overlap no notice is refused;
//! after its end every notice with the old key is.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_schemas::time::Time;

use super::driver::{Plan, Planned, under_load};
use super::mounted::{Mounted, file};
use super::{SECRET, home};
use crate::support::waits::until;

const ROTATIONS: usize = 20;
const SWAPS: usize = 5;
/// How long before its begin a key is added: a command and a check of the vault, on a busy machine.
const LEAD_MS: i64 = 5_000;
/// The time between the begins of two keys, and the overlap of each with the key before it.
const APART_MS: i64 = 1_200;
const OVERLAP_MS: i64 = 700;
const RELOADS: &str = "payfold_vault_reloads_total{result=\"applied\"}";
const WAIT_MAX: Duration = Duration::from_secs(20);

/// Two loads at once would measure each other.
static LOADS: Mutex<()> = Mutex::new(());

fn wait_until(what: &str, at: Time) {
    until(what, WAIT_MAX, || (SystemClock.now() >= at).then_some(()));
}

/// Rotates this many times, each time shortly before the newest key begins; returns when the last
/// overlap is over.
fn rotate(count: usize, plan: &Plan, mut put: impl FnMut(usize, &[Planned], &Planned, Time)) {
    let begun = Time::from_unix_ms(SystemClock.now().unix_ms());
    let mut over = begun;
    for number in 1..=count {
        let turn = i64::try_from(number).expect("it is small");
        let add_at = begun.plus_ms((turn - 1) * APART_MS);
        wait_until("the next rotation is due", add_at);
        // From now on: on a busy machine the commands of the rotation before may have taken longer
        // than `APART_MS`.
        let from = Time::from_unix_ms(SystemClock.now().unix_ms()).plus_ms(LEAD_MS);
        over = from.plus_ms(OVERLAP_MS);
        let (id, secret) = (format!("k{number}"), format!("the secret of key number {number:04}"));
        let new = Planned { id: id.clone(), secret: secret.clone(), from, until: None };
        put(number, &plan.keys(), &new, over);
        plan.add(&id, &secret, (from, over));
    }
    wait_until("the last overlap is over", over.plus_ms(APART_MS));
}

fn plan() -> Plan {
    let plan = Plan::default();
    let long_ago = Time::from_unix_ms(0);
    plan.add("k0", SECRET, (long_ago, long_ago));
    plan
}

#[test]
#[ignore = "nightly: loads"]
fn keys_are_rotated_under_load_by_command() {
    let _alone = LOADS.lock().unwrap_or_else(PoisonError::into_inner);
    let (home, plan) = (home(), plan());
    let system = home.boot_as("ingest,projector,reconciler", &[]);
    let pid = system.pid();
    let put = |number: usize, before: &[Planned], new: &Planned, over: Time| {
        let from = new.from.to_string();
        // Every other old key is ended by hand, within a longer overlap.
        let by_hand = number.is_multiple_of(2);
        let overlap = if by_hand { "1h".to_owned() } else { format!("{OVERLAP_MS}ms") };
        let more = ["--key-id", &new.id, "--valid-from", &from, "--overlap", &overlap];
        home.add_key("acme", &new.secret, &more);
        if by_hand {
            let old = &before.last().expect("there is one").id;
            home.payfold(&["key", "retire", "acme", old, "--at", &over.to_string()]).ok();
        }
    };
    let ((), outcome) = under_load(system.public(), &plan, || rotate(ROTATIONS, &plan, put));
    println!("age vault: {}", outcome.judge(&plan));

    assert_eq!(system.pid(), pid);
    assert_eq!(system.metric("payfold_vault_stale"), Some(0.0));
    assert!(system.metric(RELOADS) >= Some(ROTATIONS as f64));
    let listed = home.payfold(&["key", "list", "acme", "--output", "json"]).json();
    let listed = listed.as_array().expect("a list");
    for (listed, planned) in listed.iter().zip(plan.keys()) {
        assert_eq!(listed["keyId"], planned.id);
        let until = planned.until.map(|until| until.to_string());
        assert_eq!(listed["validUntil"].as_str().map(str::to_owned), until, "{listed}");
        assert!(listed["uses24h"].as_u64() > Some(5), "{listed}");
        let labels = format!("{{key_id=\"{}\",partner=\"acme\"}}", planned.id);
        let uses = system.metric(&format!("payfold_ingest_old_key_uses_total{labels}"));
        assert_eq!(uses > Some(0.0), planned.until.is_some(), "{labels} {uses:?}");
    }
    assert_eq!(listed.len(), ROTATIONS + 1);
    // One line a minute for each old key, however many notices it signed.
    let lines = home.log().matches("an old key is still used").count();
    assert!((ROTATIONS..=2 * ROTATIONS).contains(&lines), "{lines}");
    assert!(!home.log().contains("the vault can't be reloaded"), "{}", home.log());
}

#[test]
#[ignore = "nightly: loads"]
fn keys_are_rotated_under_load_by_a_swapped_directory() {
    let _alone = LOADS.lock().unwrap_or_else(PoisonError::into_inner);
    let key_file = |key: &Planned| {
        let until = key.until.map_or(String::new(), |until| format!("valid_until = {until}\n"));
        let content =
            format!("secret = \"text:{}\"\nvalid_from = {}\n{until}", key.secret, key.from);
        file(&format!("acme.SHOP.ipn.{}", key.id), content)
    };
    let plan = plan();
    let files: Vec<_> = plan.keys().iter().map(key_file).collect();
    let (home, mut mounted) = Mounted::home(&files);
    let system = home.boot_as("ingest,projector,reconciler", &[]);
    let put = |_, before: &[Planned], new: &Planned, over: Time| {
        let mut keys = before.to_vec();
        keys.last_mut().expect("there is one").until = Some(over);
        keys.push(new.clone());
        mounted.swap(&keys.iter().map(key_file).collect::<Vec<_>>());
    };
    let ((), outcome) = under_load(system.public(), &plan, || rotate(SWAPS, &plan, put));
    println!("directory: {}", outcome.judge(&plan));
    assert!(system.metric(RELOADS) >= Some(SWAPS as f64));
    assert_eq!(system.metric("payfold_vault_stale"), Some(0.0));
}
