//! What a request with several notices is answered on the real binary.

use super::*;

/// The first item is refused for good and kept, the second would be refused, too, and its account's
/// hour has no room for it: it is kept nowhere, so the request has to come again.
#[test]
fn an_item_that_is_not_stored_makes_the_partner_retry_even_after_a_refused_one() {
    early_in_hour(Duration::from_secs(20));
    let home = Home::new();
    home.write("items.toml", ITEMS);
    let item = |order: &str, amount: u32| {
        let signature = sha256(&format!("r-{order}:{order}:{amount}:true"));
        json!({
            "ref": format!("r-{order}"), "order": order, "amount": amount, "success": "true",
            "sig": signature,
        })
    };
    let post = |system: &System, items: [Value; 2]| {
        let body = json!({ "items": items }).to_string();
        assert!((251..=500).contains(&body.len()), "one of two is kept: {}", body.len());
        ask(system, "POST /api/payment/ipn/items", &[], &body)
    };
    let budget = "[ingest]\nquarantine_bytes_per_hour = 500\n";
    let system = boot_with(&home, &[("items", "items.toml")], budget);
    for _ in 0..2 {
        let answer = post(&system, [item("a", 0), item("b", 0)]);
        let full = (503, "quarantine_full".to_owned());
        assert_eq!((answer.status, answer.code()), full, "{}", answer.text());
        assert_eq!(answer.header("retry-after"), Some("60"));
    }
    let kept = system.payfold(&["quarantine", "list", "--output", "json"]).json();
    let codes: Vec<_> = kept.as_array().expect("a list").iter().map(|one| &one["code"]).collect();
    assert_eq!(codes, ["amount_out_of_range"], "{kept}");
    // A durable item beside it stays so, and is a duplicate when it comes again.
    for _ in 0..2 {
        assert_eq!(post(&system, [item("b", 0), item("c", 100)]).status, 503);
    }
    assert_eq!(facts(&system, ["items", "c"], 1), ["SUCCESS 100 r-c"]);
}
