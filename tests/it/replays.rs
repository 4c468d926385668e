//! Owns what replays cost on the real binary. A fact that is sent again with its signature is
//! answered as before and stored once, whatever unsigned fields stand beside it. A refused notice
//! is stored once, and so are a few with other unsigned fields. Neither counts against its
//! account's rate. A retry that is signed anew is stored.

use std::time::Duration;

use payfold_engines::log::Topic;
use rusqlite::Connection;

use crate::refusals::accounts::{Accounts, secret};
use crate::support::notice::Notice;
use crate::support::waits::{early_in_hour, until};
use crate::support::wire::notice_request;

/// Bytes of unsigned padding: a body stays under its limit of 16 KiB.
const PADDING_BYTES: usize = 15_000;
const REPLAYS: usize = 100;
/// So many variants of a refused notice are kept.
const VARIANTS: usize = 8;

/// The notice with its signature and, from 1 on, with different padding.
fn copies(notice: &Notice) -> Vec<Vec<u8>> {
    let padded = |number: usize| {
        let padding = format!("{number:03}{}", "x".repeat(PADDING_BYTES));
        notice.clone().with_text("padding", &padding).body().into_bytes()
    };
    let whole = notice.body().into_bytes();
    std::iter::once(whole.clone()).chain((1..REPLAYS - 1).map(padded)).chain([whole]).collect()
}

/// Posts them one after the other on one connection: their statuses and codes, without repeats.
fn post_all(accounts: &Accounts, bodies: &[Vec<u8>]) -> Vec<(u16, String)> {
    let mut connection = accounts.system.connect();
    let mut answers = Vec::new();
    for body in bodies {
        let answer = connection.exchange(&notice_request(body));
        let code = if answer.status == 200 { String::new() } else { answer.code() };
        answers.push((answer.status, code));
    }
    answers.dedup();
    answers
}

/// Whether a topic holds just these bodies, in this order.
fn assert_holds(accounts: &Accounts, topic: Topic, bodies: &[&[u8]]) {
    let raws: Vec<_> = accounts.records(topic).into_iter().map(|record| record.raw).collect();
    let lengths = |bodies: &[&[u8]]| bodies.iter().map(|body| body.len()).collect::<Vec<_>>();
    let raws: Vec<&[u8]> = raws.iter().map(Vec::as_slice).collect();
    assert_eq!(lengths(&raws), lengths(bodies));
    assert!(raws == bodies, "the records are of other bytes");
}

/// Posts these bodies while the log takes nothing for this topic: each is answered 503.
fn assert_cannot_be_stored(accounts: &Accounts, topic: Topic, bodies: &[Vec<u8>]) {
    let log =
        Connection::open(accounts.system.home().data().join("log.db")).expect("SQLite opens it");
    let refusal = format!(
        "CREATE TRIGGER refusing BEFORE INSERT ON {}
        BEGIN SELECT RAISE(ABORT, 'refused'); END",
        topic.name()
    );
    log.execute_batch(&refusal).expect("the trigger is made");
    let unavailable = (503, "storage_unavailable".to_owned());
    assert_eq!(post_all(accounts, bodies), [unavailable]);
    log.execute_batch("DROP TRIGGER refusing").expect("the trigger is dropped");
}

#[test]
fn a_replay_of_a_stored_notice_is_acknowledged_and_stored_once() {
    let accounts = Accounts::boot("");
    let notice = Notice::paid("SHOP", "o-1", "ref-1");
    let copies = copies(&notice.clone().sign(&secret("main")));
    assert_eq!(post_all(&accounts, &copies), [(200, String::new())]);
    assert_holds(&accounts, Topic::Intake, &[&copies[0]]);
    let metrics = accounts.system.get("/metrics").text();
    for counted in [
        "payfold_ingest_requests_total{code=\"accepted\",partner=\"acme\"} 1\n",
        "payfold_ingest_requests_total{code=\"duplicate\",partner=\"acme\"} 99\n",
    ] {
        assert!(metrics.contains(counted), "{counted}{metrics}");
    }
    // A notice that is signed anew is another notice, and so is other money under the same ref.
    let anew = notice.clone().sent(1).signed(&secret("main"));
    let more = notice.with("amount", "150001").signed(&secret("main"));
    assert_eq!(post_all(&accounts, &[anew.clone(), more.clone()]), [(200, String::new())]);
    assert_holds(&accounts, Topic::Intake, &[&copies[0], &anew, &more]);
    // Another process does not remember it: it stores one more copy, and the order stays the same.
    let again = Accounts { system: accounts.system.stop().0.boot_as("ingest,projector", &[]) };
    assert_eq!(post_all(&again, &copies[REPLAYS - 2..]), [(200, String::new())]);
    assert_eq!(again.records(Topic::Intake).len(), 4);
}

/// A few of them are kept, each once; the others have to come again. So a sender with one signed
/// notice can neither fill the account's hour nor keep another notice from being stored.
#[test]
fn of_a_refused_notice_a_few_variants_are_kept_each_once() {
    early_in_hour(Duration::from_secs(20));
    let budget = (VARIANTS + 1) * PADDING_BYTES;
    let accounts = Accounts::boot(&format!("[ingest]\nquarantine_bytes_per_hour = {budget}\n"));
    let stale = Notice::paid("SHOP", "o-1", "ref-1").sent(-4_000).sign(&secret("main"));
    let (stale, window) = (copies(&stale), (403, "timestamp_out_of_window".to_owned()));
    let full = (503, "quarantine_full".to_owned());
    // The last one is the first once more.
    assert_eq!(post_all(&accounts, &stale), [window.clone(), full.clone(), window.clone()]);
    let mut kept: Vec<&[u8]> = stale[..VARIANTS].iter().map(Vec::as_slice).collect();
    assert_holds(&accounts, Topic::Quarantine, &kept);
    let log = accounts.system.home().log();
    assert!(log.contains("others with the same signature"), "{log}");
    let other = Notice::paid("SHOP", "o-2", "ref-2").sent(-4_000).sign(&secret("main"));
    let other = copies(&other).remove(0);
    assert_eq!(post_all(&accounts, std::slice::from_ref(&other)), [window]);
    kept.push(&other);
    assert_holds(&accounts, Topic::Quarantine, &kept);
}

/// A sender with an account's signed notices can send them any number of times.
#[test]
fn replays_do_not_use_up_the_rate_of_their_account() {
    let accounts = Accounts::boot("");
    let of = |order: &str| Notice::paid("RATED", order, "ref-1");
    let stored = of("o-1").signed(&secret("rated"));
    let stale = of("o-2").sent(-4_000).signed(&secret("rated"));
    let (accepted, window) = ((200, String::new()), (403, "timestamp_out_of_window".to_owned()));
    let sent = [stored.clone(), stale.clone()];
    assert_eq!(post_all(&accounts, &sent), [accepted.clone(), window.clone()]);
    let replays = [vec![stored.clone(); 20], vec![stale; 20]].concat();
    assert_eq!(post_all(&accounts, &replays), [accepted.clone(), window]);
    let new: Vec<_> =
        (3..6).map(|number| of(&format!("o-{number}")).signed(&secret("rated"))).collect();
    assert_eq!(post_all(&accounts, &new), std::slice::from_ref(&accepted));
    // They have a limit of their own, which a slow machine may not reach at once.
    until("replays are limited, too", Duration::from_secs(300), || {
        let answers = post_all(&accounts, &vec![stored.clone(); 200]);
        answers.contains(&(429, "rate_limited".to_owned())).then_some(())
    });
}

/// A notice counts as stored only once its record is: the retry after a 503 is no replay.
#[test]
fn a_retry_of_a_notice_that_could_not_be_stored_is_stored() {
    let accounts = Accounts::boot("");
    let notice = Notice::paid("SHOP", "o-1", "ref-1").signed(&secret("main"));
    assert_cannot_be_stored(&accounts, Topic::Intake, std::slice::from_ref(&notice));
    // While the last append has failed, nothing is answered from memory: another notice ends that.
    let other = accounts.notice("o-2");
    assert_eq!(post_all(&accounts, &[other.clone(), notice.clone()]), [(200, String::new())]);
    assert_holds(&accounts, Topic::Intake, &[&other, &notice]);
}

/// Nor has a refused notice taken a place among its variants that could not be stored.
#[test]
fn variants_that_could_not_be_stored_take_no_place() {
    let accounts = Accounts::boot("");
    let stale = Notice::paid("SHOP", "o-1", "ref-1").sent(-4_000).sign(&secret("main"));
    let stale = copies(&stale);
    assert_cannot_be_stored(&accounts, Topic::Quarantine, &stale[..VARIANTS]);
    let (kept, other) = (&stale[VARIANTS..2 * VARIANTS], accounts.notice("o-2"));
    let window = (403, "timestamp_out_of_window".to_owned());
    assert_eq!(post_all(&accounts, &[other]), [(200, String::new())]);
    assert_eq!(post_all(&accounts, kept), [window]);
    let kept: Vec<&[u8]> = kept.iter().map(Vec::as_slice).collect();
    assert_holds(&accounts, Topic::Quarantine, &kept);
}
