//! Owns the effect of a wrong clock of this host on the real binary. Partners that agree with each
//! other and not with this host are answered 503, so that they retry; one partner alone is refused
//! as before.

use payfold_engines::log::Topic;

use crate::refusals::accounts::{Accounts, home, secret};
use crate::support::notice::Notice;
use crate::support::wire::Answer;

/// The clock of this host is ahead of the partners' clocks by this.
const AHEAD_S: i64 = 3_600;

fn post(accounts: &Accounts, account: [&str; 2], order: &str, sent: i64) -> Answer {
    let [merchant, key] = account;
    let notice = Notice::paid(merchant, order, "ref-1").sent(sent);
    accounts.system.post_ipn(&notice.signed(&secret(key)))
}

const ACME: [&str; 2] = ["SHOP", "main"];
const ACME_TOO: [&str; 2] = ["OTHER", "other"];
const BOLT: [&str; 2] = ["SHOP", "bolt"];

#[test]
fn partners_that_agree_on_another_time_are_answered_503() {
    let accounts = Accounts::boot("");
    let window = (403, "timestamp_out_of_window".to_owned());
    let of = |answer: &Answer| (answer.status, answer.code());
    // One partner, with any of its accounts, may be wrong by itself.
    for (account, orders) in [(ACME, "a"), (ACME_TOO, "b")] {
        for number in 0..10 {
            let answer = post(&accounts, account, &format!("{orders}-{number}"), -AHEAD_S);
            assert_eq!(of(&answer), window, "{orders}-{number}");
        }
    }
    assert_eq!(accounts.system.get("/readyz").status, 200);
    let mut bolts = (0..10).map(|n| post(&accounts, BOLT, &format!("c-{n}"), -AHEAD_S));
    let first = bolts.find(|answer| of(answer) != window).expect("two partners agree");
    assert_eq!(of(&first), (503, "receiver_clock_off".to_owned()), "{}", first.text());
    assert_eq!(first.header("retry-after"), Some("60"));
    let ready = accounts.system.get("/readyz");
    assert_eq!(ready.status, 503);
    assert!(ready.text().contains("clock is about 3600 s ahead"), "{}", ready.text());
    let skew = "payfold_ingest_own_clock_skew_seconds";
    let metrics = accounts.system.get("/metrics").text();
    assert!(metrics.contains(&format!("\n{skew} 3600")), "{metrics}");
    let log = accounts.system.home().log();
    assert!(log.contains("this host's clock is wrong"), "{log}");
    // A partner may give up before the clock is set, so notices that are answered 503 are in
    // quarantine, too.
    let kept = accounts.records(Topic::Quarantine);
    assert!(kept.len() >= 25, "{}", kept.len());

    // A notice in time shows that the clocks agree again.
    assert_eq!(post(&accounts, BOLT, "d-1", 0).status, 200);
    assert_eq!(accounts.system.get("/readyz").status, 200);
    assert_eq!(of(&post(&accounts, ACME, "d-2", -AHEAD_S)), window);
    assert!(accounts.system.get("/metrics").text().contains(&format!("\n{skew} 0\n")));
}

/// The partner signs with a key that is not valid here yet: this clock is behind, or the partner
/// has changed its key too early. The notice is the partner's, so it is not refused for good.
#[test]
fn a_notice_of_a_key_that_is_not_valid_yet_is_kept_and_answered_503() {
    let home = home("");
    let begins = "2200-01-01T00:00:00Z";
    let next = "the next secret of bolt, which only these tests know";
    home.add_key("bolt", next, &["--merchant", "SHOP", "--key-id", "next", "--valid-from", begins]);
    let accounts = Accounts::boot_in(home);
    let signed = |sent: i64, secret: &str| {
        let notice = Notice::paid("SHOP", "early-1", "ref-1").sent(sent);
        accounts.system.post("/api/payment/ipn/bolt", &notice.signed(secret))
    };
    for sent in [0, -AHEAD_S] {
        let answer = signed(sent, next);
        let expected = (503, "receiver_clock_off".to_owned());
        assert_eq!((answer.status, answer.code()), expected, "{}", answer.text());
        assert_eq!(answer.header("retry-after"), Some("60"));
    }
    assert_eq!(signed(0, &secret("main")).status, 401, "no key of this account");
    assert_eq!(signed(0, &secret("bolt")).status, 200, "the old key is valid");
    assert_eq!(accounts.records(Topic::Quarantine).len(), 2);
    let list = ["quarantine", "list", "--output", "json"];
    let kept = accounts.system.payfold(&list).json();
    let late = &kept[0];
    assert_eq!(late["code"], "timestamp_out_of_window", "{kept}");
    let detail = format!("the key that signed it begins at {begins}");
    assert_eq!(late["detail"], detail.as_str(), "{kept}");
    accounts.system.payfold(&["log", "verify", "--signatures"]).ok();
}
