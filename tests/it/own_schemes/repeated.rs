//! What a replay is in a custom scheme: every signed field and every field that decides is the
//! same.

use super::*;

/// Posts notices of one item each, signed over `text`, to a new partner, and returns how many
/// records there are.
fn records_after(profile: &str, text: &str, items: &[String]) -> usize {
    let home = Home::new();
    home.write("items.toml", profile);
    let system = boot(&home, &[("items", "items.toml")]);
    for item in items {
        let body = format!(r#"{{"items":[{{{item},"sig":"{}"}}]}}"#, sha256(text));
        let answer = ask(&system, "POST /api/payment/ipn/items", &[], &body);
        assert_eq!((answer.status, answer.text().as_str()), (200, "[accepted]"), "{item}");
    }
    home.tail("intake").len()
}

/// A difference in fields that decide nothing makes no other notice. Where a query confirms
/// unsigned fields, another amount makes another notice, although the same text was signed.
#[test]
fn a_replay_repeats_every_field_that_decides() {
    let said = |amount: u32, more: &str| {
        format!(r#""ref":"r-1","order":"o-1","amount":{amount},"success":true{more}"#)
    };
    let same = [said(100, ""), said(100, ""), said(100, r#","note":"x""#)];
    assert_eq!(records_after(ITEMS, "r-1:o-1:100:true", &same), 1);
    let confirmed = ITEMS
        .replace("exceptions = [", "confirm = \"always\"\nexceptions = [\"needs_confirmation\", ")
        .replace("{i.ref}:{i.order}:{i.amount}:{i.success}", "{i.ref}:{i.order}");
    let other = [&same[..], &[said(200, ""), said(100, "")]].concat();
    assert_eq!(records_after(&confirmed, "r-1:o-1", &other), 2);
}
