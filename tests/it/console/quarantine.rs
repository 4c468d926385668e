//! Quarantined notices in the console: listed, read, released and dismissed by people, and what
//! each of them may and may not do.

use super::decisions::{DECIDE, WITHDRAW};
use super::{ORIGIN, Visitor, token_of};
use crate::support::demo::Demo;
use crate::support::notice::Notice;

/// A demo with two payments that came too late, their positions, and the order of the first.
fn stage() -> (Demo, [String; 2], String) {
    let demo = Demo::boot();
    let mut orders = Vec::new();
    for _ in 0..2 {
        let [order, provider_ref] = demo.open_order();
        demo.system.order_when(["sandbox", "DEMO", &order], |order| order["state"] == "PENDING");
        let stale = Notice::paid("DEMO", &order, &provider_ref).sent(-3_600);
        let answer = demo.system.post_ipn(&stale.signed(&demo.secret));
        assert_eq!(answer.code(), "timestamp_out_of_window", "{}", answer.text());
        orders.push(order);
    }
    let list = ["quarantine", "list", "--output", "jsonl"];
    let rows = demo.system.payfold(&list).json_lines();
    let position = |at: usize| rows[at]["position"].as_str().expect("a position").to_owned();
    (demo, [position(0), position(1)], orders.swap_remove(0))
}

#[test]
fn notices_are_released_and_dismissed_by_two_people() {
    let (demo, [late, stray], order) = stage();
    let system = &demo.system;
    let [ann, bob, vic] = [("ann", "finance"), ("bob", "operator"), ("vic", "viewer")]
        .map(|(name, role)| Visitor::log_in(system, &token_of(system, name, role)));
    let text = ann.get("/quarantine").text();
    for said in ["timestamp_out_of_window", "of <bdi>sandbox/DEMO", "all 2 of these", "Do: "] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(!vic.get("/quarantine").text().contains("name=\"on\""), "a viewer decides nothing");
    let path = format!("/quarantine/{late}");
    let page = ann.get(&path).text();
    for said in
        [&*order, "It can be released now.", "A decision takes two people", "Read its bytes"]
    {
        assert!(page.contains(said), "{said}: {page}");
    }
    assert!(!page.contains("profile-fixed"), "it was refused for its time: {page}");
    let page = vic.get(&path).text();
    assert!(page.contains("It can be released now.") && !page.contains("<textarea"), "{page}");
    assert_eq!(vic.get(&format!("/bytes/quarantine/{late}")).status, 404, "nor reads bytes");

    let both = format!("{late},{stray}");
    let page = ann.decide(DECIDE, &[&both], "choice=profile-fixed&reason=x");
    assert!(page.contains("Nothing is taken"), "{page}");
    let page = ann.decide(DECIDE, &[&late], "choice=ours&reason=x");
    assert!(page.contains("“Our record is right” is no choice here."), "{page}");
    let page = vic.decide(DECIDE, &[&late], "choice=clock-fixed&reason=x");
    assert!(page.contains("not taken. "), "a viewer decides nothing: {page}");
    let release = "choice=clock-fixed&reason=ticket+12&back=/quarantine";
    let page = ann.decide(DECIDE, &[&both], release);
    assert_eq!(page.matches("waits for a second person").count(), 2, "{page}");
    assert!(ann.get(&path).text().contains("Take your decision back"));
    let page = ann.decide(WITHDRAW, &[&stray], "reason=a+slip");
    assert!(page.contains("Your decision is taken back"), "{page}");
    let page = bob.get(&path).text();
    assert!(page.contains("If you agree with <bdi>ann") && page.contains("ticket 12"), "{page}");
    let page = bob.decide(DECIDE, &[&late], release);
    assert!(page.contains("ann</bdi> and <bdi>bob"), "{page}");
    let paid = system.order_when(["sandbox", "DEMO", &order], |order| order["state"] == "PAID");
    assert_eq!(paid["fulfil"], true);
    let page = bob.get(&path).text();
    assert!(page.contains("Released: its order has it") && !page.contains("<textarea"), "{page}");

    for person in [&bob, &ann] {
        person.decide(DECIDE, &[&stray], "choice=dismiss&reason=a+test");
    }
    assert!(ann.get("/quarantine").text().contains("No notice is like this."));
    let all = ann.json("/quarantine?status=all&code=timestamp_out_of_window").json();
    let verdicts: Vec<_> = (all["notices"].as_array().expect("notices").iter())
        .map(|row| row["decision"]["verdict"].as_str().expect("a verdict"))
        .collect();
    assert_eq!(verdicts, ["release", "dismiss"]);
    for (path, status) in [
        ("/quarantine/x", 404),
        ("/quarantine/0-99999", 404),
        ("/quarantine?partner=!", 400),
        ("/quarantine?after=x", 400),
    ] {
        assert_eq!(ann.get(path).status, status, "{path}");
    }
}

#[test]
fn bytes_are_read_for_a_reason_that_is_recorded() {
    let (demo, [late, _], order) = stage();
    let system = &demo.system;
    let [ann, vic] = [("ann", "finance"), ("vic", "viewer")]
        .map(|(name, role)| Visitor::log_in(system, &token_of(system, name, role)));
    let path = format!("/bytes/quarantine/{late}");
    let page = ann.get(&path).text();
    assert!(page.contains("is recorded") && !page.contains(&order), "{page}");
    let send = |visitor: &Visitor<'_>, fields: &str| {
        let fields = format!("post_token={}&{fields}", visitor.post_token());
        visitor.send(&path, ORIGIN, &fields)
    };
    assert_eq!(send(&ann, "reason=+").status, 400);
    assert_eq!(send(&vic, "reason=x").status, 403);
    assert_eq!(ann.send(&path, ORIGIN, "post_token=00&reason=x").status, 403);
    let answer = send(&ann, "reason=ticket+12");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let page = answer.text();
    assert!(page.contains(&format!("&quot;orderId&quot;:&quot;{order}&quot;")), "{page}");
    let reads: Vec<_> = (system.home().tail("findings").into_iter())
        .filter(|message| message["type"] == "payfold.raw.read.v1")
        .map(|message| [message["data"]["author"].clone(), message["data"]["reason"].clone()])
        .collect();
    assert_eq!(reads, [["ann", "ticket 12"]], "and none of what was refused");
    let order = ann.get(&format!("/orders/sandbox/DEMO/{order}")).text();
    assert!(!order.contains("/bytes/"), "no notice of a partner is a fact of it: {order}");
}
