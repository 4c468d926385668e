//! What a request with several notices is answered on the real binary.

use payfold_engines::log::Topic;

use super::*;
use crate::support::pair::Inside;

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

/// The profile, with the account in each item.
fn with_shop() -> String {
    let signed = ITEMS.replace("{i.ref}:", "{i.shop}:{i.ref}:");
    signed.replace("[map]", "[map]\nmerchant = \"{i.shop}\"")
}

/// An item that can't be verified now may be a notice for us all the same: its account is off, or
/// has no key yet. What is acknowledged is not sent again.
#[test]
fn an_item_of_an_account_of_ours_is_not_acknowledged_unverified() {
    let home = Home::new();
    let forged =
        with_shop().replace("at = \"f.items\"", "at = \"f.items\"\nforged = \"refuse_item\"");
    home.write("items.toml", &forged);
    home.write("payfold.toml", "[partners.items]\nprofile = \"items.toml\"\n");
    for shop in ["SHOP", "OFF"] {
        home.add_key("items", SECRET, &["--merchant", shop]);
    }
    home.payfold(&["account", "set", "items", "OFF", "--disabled"]).ok();
    let system = home.boot();
    let item = |shop: &str, order: &str| {
        let signature = sha256(&format!("{shop}:r-{order}:{order}:100:true"));
        json!({
            "shop": shop, "ref": format!("r-{order}"), "order": order, "amount": 100,
            "success": "true", "sig": signature,
        })
    };
    let post = |items: &[Value]| {
        let body = json!({ "items": items }).to_string();
        ask(&system, "POST /api/payment/ipn/items", &[], &body)
    };
    assert_eq!(post(&[item("SHOP", "a"), item("OTHERS", "b")]).status, 200, "it is for others");
    for _ in 0..2 {
        let answer = post(&[item("SHOP", "c"), item("OFF", "d")]);
        assert_eq!((answer.status, answer.code()), (503, "unverified_item".to_owned()));
        assert_eq!(answer.header("retry-after"), Some("60"));
    }
    assert_eq!(facts(&system, ["items", "c"], 1), ["SUCCESS 100 r-c"]);
    let metrics = system.get("/metrics").text();
    for counted in
        ["\"unauthenticated\",partner=\"items\"} 1\n", "\"unverified_item\",partner=\"items\"} 2\n"]
    {
        assert!(metrics.contains(counted), "{counted}{metrics}");
    }
    assert!(home.log().contains("unverified_item"), "{}", home.log());
    // Once the account is on, the retry brings it.
    home.payfold(&["account", "set", "items", "OFF", "--enabled"]).ok();
    until("the account is on", Duration::from_secs(20), || {
        (post(&[item("SHOP", "c"), item("OFF", "d")]).status == 200).then_some(())
    });
}

/// One signed notice, written many times into one array, would be stored with the whole array each
/// time.
#[test]
fn a_notice_that_is_in_its_array_many_times_is_stored_once() {
    let home = Home::new();
    home.write("items.toml", ITEMS);
    let system = boot_with(&home, &[("items", "items.toml")], "");
    let signature = sha256("r-a:o-a:100:true");
    let item = json!({
        "ref": "r-a", "order": "o-a", "amount": 100, "success": "true", "sig": signature,
    });
    let body = json!({ "pad": "x".repeat(50_000), "items": vec![item; 30] }).to_string();
    let answer = ask(&system, "POST /api/payment/ipn/items", &[], &body);
    assert_eq!((answer.status, answer.text().as_str()), (200, "[accepted]"));
    let messages = Inside::of(system.home()).messages(Topic::Intake);
    assert_eq!(messages.len(), 1, "{} bytes each", body.len());
    assert_eq!(facts(&system, ["items", "o-a"], 1), ["SUCCESS 100 r-a"]);
}

/// The shared path tries the first sixteen custom schemes. The others are refused there, and
/// `check` names them.
#[test]
fn a_partner_that_the_shared_path_does_not_try_is_named() {
    let home = Home::new();
    home.write("items.toml", &with_shop());
    let codes: Vec<String> = (10..27).map(|n| format!("p{n}")).collect();
    let entry = |code: &String| format!("[partners.{code}]\nprofile = \"items.toml\"\n");
    home.write("payfold.toml", &codes.iter().map(entry).collect::<String>());
    let secret = |code: &str| format!("a published test key of {code}, worth nothing");
    for code in &codes {
        home.add_key(code, &secret(code), &["--merchant", &format!("SHOP-{code}")]);
    }
    let checked = home.payfold(&["check"]).stdout;
    assert!(checked.contains("answers 401 to the notices of p26 "), "{checked}");
    let system = home.boot();
    for (code, status) in [("p10", 200), ("p25", 200), ("p26", 401)] {
        let signed = format!("SHOP-{code}:r-1:o-1:100:true");
        let signature = notice::hmac::<Hmac<Sha256>>(&secret(code), &signed);
        let body = json!({ "items": [{
            "shop": format!("SHOP-{code}"), "ref": "r-1", "order": "o-1", "amount": 100,
            "success": "true", "sig": signature,
        }] });
        let answer = ask(&system, "POST /api/payment/ipn", &[], &body.to_string());
        assert_eq!(answer.status, status, "{code}: {}", answer.text());
    }
}
