//! Owns the verdicts that need more than one request: the identical 401s, keys that change, rates,
//! sources behind a proxy, the quarantine's budget.

use std::time::{Duration, Instant};

use payfold_engines::log::Topic;

use super::accounts::{Accounts, secret};
use crate::support::notice::Notice;
use crate::support::waits::early_in_hour;
use crate::support::wire::{Answer, notice_request, request};

fn of(merchant: &str, key: &str) -> Vec<u8> {
    Notice::paid(merchant, "v-1", "ref-1").signed(&secret(key))
}

#[test]
fn a_401_does_not_reveal_which_accounts_exist() {
    let accounts = Accounts::boot("");
    let unsigned = Notice::paid("SHOP", "v-1", "ref-1").body().into_bytes();
    let stale = Notice::paid("SHOP", "v-1", "ref-1").sent(-4_000).signed(&secret("nobodys"));
    let cases = [
        ("/api/payment/ipn", of("STRANGER", "main")),
        ("/api/payment/ipn", of("GONE", "gone")),
        ("/api/payment/ipn/acme", of("GONE", "gone")),
        ("/api/payment/ipn", of("SHOP", "other")),
        ("/api/payment/ipn", of("SHOP", "nobodys")),
        ("/api/payment/ipn", of("FAR", "nobodys")),
        ("/api/payment/ipn/bolt", of("SHOP", "main")),
        ("/api/payment/ipn/unknown", of("SHOP", "main")),
        ("/api/payment/ipn/unknown", of("STRANGER", "nobodys")),
        ("/api/payment/ipn/strict", of("SHOP-S", "nobodys")),
        ("/api/payment/ipn", unsigned),
        ("/api/payment/ipn", stale),
        ("/api/payment/ipn", b"{}".to_vec()),
    ];
    let without_id = |answer: &Answer| {
        let id = answer.json()["requestId"].as_str().expect("a request id").to_owned();
        assert_eq!(answer.text().matches(&id).count(), 1);
        let headers = answer.headers.iter().filter(|(name, _)| name != "date").cloned();
        (answer.status, headers.collect::<Vec<_>>(), answer.text().replace(&id, ""))
    };
    let answers = cases.map(|(path, body)| without_id(&accounts.system.post(path, &body)));
    assert_eq!(answers[0].0, 401);
    for (answer, number) in answers.iter().zip(0..) {
        assert_eq!(answer, &answers[0], "case {number}");
    }
}

#[test]
fn an_old_key_counts_in_its_overlap_and_not_after_it() {
    let accounts = Accounts::boot("");
    let system = &accounts.system;
    let status = |key: &str| system.post_ipn(&of("SHOP", key)).status;
    assert_eq!((status("main"), status("second")), (200, 401));
    let begun = Instant::now();
    let more = ["--merchant", "SHOP", "--key-id", "k-2", "--overlap", "3s"];
    system.home().add_key("acme", &secret("second"), &more);
    system.ipn_when(200, || of("SHOP", "second"));
    let old = status("main");
    assert!(old == 200 || begun.elapsed() > Duration::from_secs(3), "{old} within the overlap");
    system.ipn_when(401, || of("SHOP", "main"));
    assert!(begun.elapsed() > Duration::from_secs(3), "not before its overlap ends");
    assert_eq!((status("main"), status("second")), (401, 200));

    let metrics = system.get("/metrics").text();
    for key in ["main", "k-2"] {
        let uses = format!("payfold_ingest_key_uses_total{{key_id=\"{key}\",partner=\"acme\"}}");
        assert!(metrics.contains(&uses), "{uses}");
    }
    system.payfold(&["key", "retire", "acme", "k-2", "--merchant", "SHOP", "--last"]).ok();
    system.ipn_when(401, || of("SHOP", "second"));
}

#[test]
fn an_account_over_its_rate_is_answered_to_wait_and_others_are_not() {
    let accounts = Accounts::boot("");
    let mut connection = accounts.system.connect();
    let begun = Instant::now();
    let numbered = |merchant, key, number| {
        Notice::paid(merchant, &format!("v-{number}"), "ref-1").signed(&secret(key))
    };
    let (mut taken, mut refused) = (0, 0);
    for number in 0..500 {
        if number >= 20 && refused > 0 {
            break;
        }
        let answer = connection.exchange(&notice_request(&numbered("RATED", "rated", number)));
        if answer.status == 200 {
            taken += 1;
            continue;
        }
        refused += 1;
        assert_eq!((answer.status, answer.code().as_str()), (429, "rate_limited"));
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    }
    let rate_max = 5 + begun.elapsed().as_millis() / 200 + 1;
    assert!((5..=rate_max).contains(&taken) && refused > 0, "{taken} taken, {refused} refused");
    for number in 0..20 {
        assert_eq!(accounts.system.post_ipn(&of("RATED", "nobodys")).status, 401);
        assert_eq!(accounts.system.post_ipn(&numbered("SHOP", "main", number)).status, 200);
    }
    assert_eq!(accounts.records(Topic::Intake).len() as u128, taken + 20);
}

#[test]
fn an_address_over_its_rate_is_answered_to_wait_before_its_signature_is_verified() {
    let accounts = Accounts::boot("[ingest]\naddress_rate_per_s = 4\n");
    let mut statuses = Vec::new();
    for _ in 0..30 {
        let answer = accounts.system.post_ipn(b"{}");
        if answer.status == 429 {
            assert_eq!(answer.code(), "rate_limited");
            assert_eq!(answer.header("retry-after"), Some("1"));
        }
        statuses.push(answer.status);
    }
    assert_eq!(statuses[..4], [401; 4]);
    assert!(statuses.contains(&429), "{statuses:?}");
    accounts.system.ipn_when(200, || of("SHOP", "main"));
}

#[test]
fn behind_a_trusted_proxy_the_source_is_the_one_it_forwards_for() {
    let accounts = Accounts::boot("[ingest]\ntrusted_proxies = [\"127.0.0.1/32\"]\n");
    for (forwarded, status) in [
        ("203.0.113.7", 200),
        ("198.51.100.1, 203.0.113.7", 200),
        ("203.0.113.7, 127.0.0.1", 200),
        ("203.0.113.7, 198.51.100.1", 403),
        ("198.51.100.1", 403),
        ("rubbish", 403),
        ("", 403),
    ] {
        let (header, body) = (format!("x-forwarded-for: {forwarded}\r\n"), of("FAR", "far"));
        let request = request("POST /api/payment/ipn", &header, Some(&body));
        assert_eq!(accounts.system.ask(&request).status, status, "{forwarded}");
    }
}

#[test]
fn over_its_budget_an_account_fills_no_quarantine_and_is_answered_503() {
    early_in_hour(Duration::from_secs(20));
    let stale = |order| Notice::paid("SHOP", order, "r").sent(-4_000).signed(&secret("main"));
    let accounts = Accounts::boot("[ingest]\nquarantine_bytes_per_hour = 500\n");
    let stale = ["q-1", "q-2", "q-3"].map(stale);
    let answers = stale.each_ref().map(|body| accounts.system.post_ipn(body));
    let codes = answers.each_ref().map(|answer| (answer.status, answer.code()));
    let full = (503, "quarantine_full".to_owned());
    assert_eq!(codes, [(403, "timestamp_out_of_window".to_owned()), full.clone(), full]);
    let retry_after = answers.each_ref().map(|answer| answer.header("retry-after"));
    assert_eq!(retry_after, [None, Some("60"), Some("60")]);
    let other = Notice::paid("OTHER", "q-4", "r").with("amount", "0").signed(&secret("other"));
    assert_eq!(accounts.system.post_ipn(&other).status, 400);
    let kept = accounts.records(Topic::Quarantine);
    assert_eq!(kept.len(), 2, "one of each account");
    assert_eq!((&kept[0].raw, &kept[1].raw), (&stale[0], &other));
    let metrics = accounts.system.get("/metrics").text();
    assert!(metrics.contains("payfold_quarantine_over_budget_total 2"), "{metrics}");
    assert!(accounts.system.home().log().contains("over its quarantine budget"));
    let shown =
        accounts.system.payfold(&["quarantine", "show", "0-1", "--raw", "--reason", "to see"]).ok();
    assert_eq!(shown.trim_end().as_bytes(), stale[0]);
}
