//! Owns what replays cost on the real binary. A notice that is sent again with its signature is
//! answered as before and stored once, whatever unsigned fields stand beside it. A retry that is
//! signed anew is stored.

use payfold_engines::log::Topic;
use rusqlite::Connection;

use crate::refusals::accounts::{Accounts, secret};
use crate::support::notice::Notice;
use crate::support::wire::notice_request;

/// Bytes of unsigned padding: a body stays under its limit of 16 KiB.
const PADDING_BYTES: usize = 15_000;
const REPLAYS: usize = 100;

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

#[test]
fn a_replay_of_a_refused_notice_is_refused_too_and_kept_once() {
    let budget = 2 * PADDING_BYTES;
    let accounts = Accounts::boot(&format!("[ingest]\nquarantine_bytes_per_hour = {budget}\n"));
    let stale = Notice::paid("SHOP", "o-1", "ref-1").sent(-4_000).sign(&secret("main"));
    let (stale, window) = (copies(&stale), (403, "timestamp_out_of_window".to_owned()));
    assert_eq!(post_all(&accounts, &stale), std::slice::from_ref(&window));
    assert_holds(&accounts, Topic::Quarantine, &[&stale[0]]);
    // The replays have taken nothing of the account's hour.
    let other = Notice::paid("SHOP", "o-2", "ref-2").sent(-4_000).sign(&secret("main"));
    let other = copies(&other).remove(1);
    assert_eq!(post_all(&accounts, std::slice::from_ref(&other)), [window]);
    assert_holds(&accounts, Topic::Quarantine, &[&stale[0], &other]);
}

/// A notice counts as stored only once its record is: the retry after a 503 is no replay.
#[test]
fn a_retry_of_a_notice_that_could_not_be_stored_is_stored() {
    let accounts = Accounts::boot("");
    let notice = Notice::paid("SHOP", "o-1", "ref-1").signed(&secret("main"));
    let log =
        Connection::open(accounts.system.home().data().join("log.db")).expect("SQLite opens it");
    let refusal = "CREATE TRIGGER refusing BEFORE INSERT ON intake
        BEGIN SELECT RAISE(ABORT, 'refused'); END";
    log.execute_batch(refusal).expect("the trigger is made");
    let unavailable = (503, "storage_unavailable".to_owned());
    assert_eq!(post_all(&accounts, std::slice::from_ref(&notice)), [unavailable]);
    log.execute_batch("DROP TRIGGER refusing").expect("the trigger is dropped");
    // While the last append has failed, nothing is answered from memory: another notice ends that.
    let other = accounts.notice("o-2");
    assert_eq!(post_all(&accounts, &[other.clone(), notice.clone()]), [(200, String::new())]);
    assert_holds(&accounts, Topic::Intake, &[&other, &notice]);
}
