//! Owns the query loop on the real binary: payments without a notice, created through the shop at a
//! partner that the test scripts, with times of the schedule in the settings file.

mod own_scheme;
mod partner;

use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};

use self::partner::{Partner, ScriptedAnswer};
use crate::support::notice::Notice;
use crate::support::system::{Home, RUN, System};
use crate::support::waits::until;

const WAIT_MAX: Duration = Duration::from_secs(30);
/// As many as a schedule may have.
const TIMES: u32 = 64;

/// A system with one partner, which is scripted.
struct World {
    partner: Partner,
    home: Rc<Home>,
    secret: String,
    token: String,
}

impl World {
    /// Orders are asked about every 400 ms at first, then every second, for nearly a minute.
    fn new() -> Self {
        let partner = Partner::start();
        let after_ms = |n: u32| if n <= 16 { n * 400 } else { 6_400 + (n - 16) * 1_000 };
        let after: Vec<_> = (1..=TIMES).map(|n| format!("\"{}ms\"", after_ms(n))).collect();
        let home = Home::configured(&format!(
            "[reconciler]\nquery_after = [{}]\nquery_poll_ms = 20\n\
             [partners.acme]\nprofile = \"sandbox\"\napi_url = \"{}\"\n",
            after.join(", "),
            partner.url()
        ));
        let printed = home.payfold(&["key", "add", "acme", "--merchant", "M"]).ok();
        let secret = printed.split_whitespace().last().expect("a secret").to_owned();
        let token = home.add_shop("acme/M");
        partner.knows_secret(&secret);
        Self { partner, home, secret, token }
    }

    /// Creates a payment as the shop would; its order.
    fn create(&self, system: &System, reference: &str) -> String {
        let body = json!({
            "partner": "acme", "reference": reference, "amount": 150_000, "currency": "VND",
            "description": "Two tickets",
        });
        let answer = system.create_payment(&self.token, reference, &body);
        assert!(answer.status < 300, "{answer:?}");
        answer.json()["orderId"].as_str().expect("an order").to_owned()
    }

    /// Waits until the partner was asked so often for an order.
    fn asked(&self, order: &str, times: usize) {
        let what = format!("{order} is asked for {times} times");
        until(&what, WAIT_MAX, || (self.partner.asked(order).len() >= times).then_some(()));
    }
}

fn order_when(system: &System, order: &str, is: impl Fn(&Value) -> bool) -> Value {
    system.order_when(["acme", "M", order], is)
}

fn paid(order: &Value) -> bool {
    order["state"] == "PAID"
}

/// The flags of an order, open or not.
fn flags(order: &Value) -> Vec<String> {
    let flags = order["flags"].as_array().cloned().unwrap_or_default();
    flags.iter().map(|raised| raised["flag"].as_str().expect("a word").to_owned()).collect()
}

/// How many queries came to this.
fn queries(system: &System, outcome: &str) -> u64 {
    let labels = format!("{{outcome=\"{outcome}\",partner=\"acme\"}}");
    let count = system.metric(&format!("payfold_reconciler_queries_total{labels}"));
    count.map_or(0, |count| count as u64)
}

#[test]
fn a_payment_without_a_notice_is_asked_for_until_it_ends() {
    let world = World::new();
    let system = world.home.boot();
    let [pending, late, failed] =
        ["pending", "late", "failed"].map(|name| world.create(&system, name));
    world.partner.script_answer(&late, ScriptedAnswer::Nothing);
    // Its end is not known yet, so it is asked for again, and so is the one the partner lacks.
    world.asked(&pending, 3);
    world.asked(&late, 3);
    let listed = system.payfold(&["order", "stuck", "--output", "json"]).json();
    let listed = listed.as_array().expect("a list");
    let of_order = listed.iter().find(|row| row["orderId"] == *pending).expect("it is listed");
    assert_eq!(
        (&of_order["reason"], &of_order["queriesPlanned"]),
        (&"PENDING".into(), &TIMES.into())
    );
    assert!(
        of_order["queriesDue"].as_u64() >= Some(3) && of_order["nextQuery"].is_string(),
        "{of_order}"
    );
    until("three answers of each kind are counted", WAIT_MAX, || {
        (queries(&system, "pending") >= 3 && queries(&system, "unknown") >= 3).then_some(())
    });

    world.partner.script_answer(&pending, ScriptedAnswer::Status("SUCCESS"));
    world.partner.script_answer(&late, ScriptedAnswer::Status("SUCCESS"));
    world.partner.script_answer(&failed, ScriptedAnswer::Status("FAILED"));
    for order in [&pending, &late] {
        let shown = order_when(&system, order, paid);
        assert_eq!(
            (flags(&shown), &shown["fulfil"]),
            (vec!["SETTLED_BY_QUERY".into()], &true.into())
        );
        assert_eq!(shown["paymentRef"], world.partner.ref_of(order));
    }
    order_when(&system, &failed, |order| order["state"] == "FAILED");
    until("three ends are counted", WAIT_MAX, || (queries(&system, "ended") >= 3).then_some(()));
    // An ended payment is asked for no more; a payment that is created now is asked for meanwhile.
    let counts = || [&pending, &late, &failed].map(|order| world.partner.asked(order).len());
    let before = counts();
    let other = world.create(&system, "other");
    world.asked(&other, 3);
    assert_eq!(counts(), before);
    let facts = system.payfold(&["order", "show", "acme", "M", &pending, "--facts"]).ok();
    assert!(facts.contains("  P  ") && facts.contains("PENDING → PAID"), "{facts}");
    let traced = system.payfold(&["trace", &pending, "--output", "json"]).json();
    let steps = traced.as_array().expect("a list").iter();
    let of = |kind: &str| {
        let mut steps = steps.clone();
        let found = steps.find(|one| one["step"].as_str().is_some_and(|step| step.contains(kind)));
        found.unwrap_or_else(|| panic!("{kind}: {traced}")).clone()
    };
    assert_eq!(of("createRequested")["role"], "checkout");
    let answered = of("queryAnswered");
    assert_eq!(
        (&answered["role"], &answered["flags"][0]),
        (&json!("reconciler"), &json!("SETTLED_BY_QUERY"))
    );
    let stuck = system.payfold(&["order", "stuck"]).ok();
    assert!(stuck.contains(&other) && !stuck.contains(&pending), "{stuck}");
    assert_eq!(world.partner.badly_signed(), Vec::<String>::new());
}

#[test]
fn a_payment_without_a_provider_ref_is_asked_for_by_its_order() {
    let world = World::new();
    let system = world.home.boot();
    world.partner.opens_in_silence();
    let order = world.create(&system, "silent");
    assert_eq!(order_when(&system, &order, |_| true)["state"], "REQUESTED");
    world.partner.script_answer(&order, ScriptedAnswer::Status("SUCCESS"));
    let shown = order_when(&system, &order, paid);
    assert_eq!(shown["paymentRef"], world.partner.ref_of(&order));
    assert!(world.partner.asked(&order).iter().all(|asked| asked.what == order));
    assert_eq!(world.partner.badly_signed(), Vec::<String>::new());
}

/// An answer about something else moves nothing; one with other money is evidence, and flagged as a
/// notice's is.
#[test]
fn a_wrong_answer_is_counted_and_logged_and_settles_nothing() {
    let world = World::new();
    let system = world.home.boot();
    let [foreign, elsewhere, other] =
        ["foreign", "elsewhere", "other"].map(|name| world.create(&system, name));
    world.partner.script_answer(&foreign, ScriptedAnswer::OfAnotherOrder);
    world.partner.script_answer(&elsewhere, ScriptedAnswer::Redirect);
    world.partner.script_answer(&other, ScriptedAnswer::OtherAmount);
    world.asked(&foreign, 2);
    world.asked(&elsewhere, 2);
    let shown = order_when(&system, &other, |order| !flags(order).is_empty());
    assert_eq!(
        (&shown["state"], flags(&shown)),
        (&"PENDING".into(), vec!["AMOUNT_MISMATCH".into()])
    );
    assert_eq!(shown["fulfil"], false);
    // The same answer again is no new record, though it is asked for while the flag is open.
    let begun = world.partner.asked(&other).len();
    world.asked(&other, begun + 2);
    let shown = order_when(&system, &other, |_| true);
    assert_eq!(shown["facts"]["queryAnswers"].as_array().map(Vec::len), Some(1));
    for order in [&foreign, &elsewhere] {
        let shown = order_when(&system, order, |_| true);
        assert_eq!((&shown["state"], flags(&shown).len()), (&"PENDING".into(), 0));
    }
    until("both are counted", WAIT_MAX, || {
        (queries(&system, "wrong_answer") >= 4 && queries(&system, "known") >= 1).then_some(())
    });
    // Twice, where it was asked again before the first answer was folded.
    assert!((1..=2).contains(&queries(&system, "other_money")));
    let log = world.home.log();
    // Once a minute of either kind, with an order to look at.
    let warnings: Vec<_> =
        log.lines().filter(|line| line.contains("a query to a partner has trouble")).collect();
    let of = |word: &str| warnings.iter().filter(|line| line.contains(word)).count();
    assert_eq!(
        (warnings.len(), of("breaks the rule"), of("ended with other money")),
        (2, 1, 1),
        "{log}"
    );
    assert!(warnings.iter().all(|line| line.contains("order.id")), "{log}");
    assert!(!log.contains(&world.secret) && !log.contains("signature="), "{log}");
}

/// The partner says SUCCESS when it is asked, and FAILED by itself.
#[test]
fn an_answer_that_contradicts_a_notice_raises_the_flag() {
    let world = World::new();
    let system = world.home.boot();
    let order = world.create(&system, "twofold");
    world.partner.script_answer(&order, ScriptedAnswer::Status("SUCCESS"));
    order_when(&system, &order, paid);
    let notice = Notice::paid("M", &order, &world.partner.ref_of(&order));
    let notice = notice.with_text("status", "FAILED").without("paidAt").signed(&world.secret);
    assert_eq!(system.post_ipn(&notice).status, 200);
    let disagrees = |order: &Value| flags(order).contains(&"QUERY_DISAGREES".to_owned());
    let shown = order_when(&system, &order, disagrees);
    assert!(paid(&shown), "{shown}");
    // The notice that was late says the same: settled by it then, and nothing disagrees any less.
    let notice = Notice::paid("M", &order, &world.partner.ref_of(&order)).signed(&world.secret);
    assert_eq!(system.post_ipn(&notice).status, 200);
    let by_notice = |order: &Value| !flags(order).contains(&"SETTLED_BY_QUERY".to_owned());
    assert!(disagrees(&order_when(&system, &order, by_notice)));
}

#[test]
fn a_busy_partner_is_left_alone_for_as_long_as_it_asks() {
    let world = World::new();
    let system = world.home.boot();
    let orders = ["a", "b", "c"].map(|name| world.create(&system, name));
    let busy_since = std::time::Instant::now();
    for order in &orders {
        world.partner.script_answer(order, ScriptedAnswer::Busy(3));
    }
    // What was asked before had another answer.
    let asked = || -> Vec<_> {
        let all = orders.iter().flat_map(|order| world.partner.asked(order));
        all.filter(|asked| asked.at > busy_since).collect()
    };
    until("it says that it is busy", WAIT_MAX, || (queries(&system, "busy") >= 1).then_some(()));
    // What was under way when it said so may still come.
    let before = asked();
    let (first, begun) = (before.iter().map(|asked| asked.at).min(), before.len());
    assert!((1..=orders.len()).contains(&begun), "{before:?}");
    for order in &orders {
        world.partner.script_answer(order, ScriptedAnswer::Status("SUCCESS"));
    }
    for order in &orders {
        order_when(&system, order, paid);
    }
    let mut times: Vec<_> = asked().into_iter().map(|asked| asked.at).collect();
    times.sort();
    let first = first.expect("it was asked");
    let between = |at: &&std::time::Instant| {
        let later = at.duration_since(first);
        later > Duration::from_millis(500) && later < Duration::from_millis(2_900)
    };
    assert_eq!(times.iter().filter(between).count(), 0, "{times:?}");
    // What was not answered is asked again then.
    let last = times.last().expect("it was asked").duration_since(first);
    assert!(last >= Duration::from_millis(2_900), "{last:?}");
}

/// The partner is away, then the system is killed; both come back, and every payment is asked for.
#[test]
fn a_partner_that_is_down_and_a_restart_lose_no_payment() {
    let world = World::new();
    let system = world.home.boot();
    let orders: Vec<_> = (0..8).map(|n| world.create(&system, &format!("r{n}"))).collect();
    world.partner.goes_away();
    until("it does not answer", WAIT_MAX, || (queries(&system, "unanswered") >= 1).then_some(()));
    assert!(system.get("/readyz").status == 200, "a partner's trouble is not ours");
    let trouble = "a query to a partner has trouble";
    let log = world.home.log_with(trouble);
    assert!(log.matches(trouble).count() == 1, "{log}");
    world.partner.comes_back();
    for order in &orders[..4] {
        world.partner.script_answer(order, ScriptedAnswer::Status("SUCCESS"));
        order_when(&system, order, paid);
    }
    let home = system.kill();
    let system = home.boot();
    for order in &orders[4..] {
        world.asked(order, world.partner.asked(order).len() + 1);
        world.partner.script_answer(order, ScriptedAnswer::Status("SUCCESS"));
    }
    for order in &orders {
        order_when(&system, order, paid);
    }
    assert_eq!(world.partner.orders().len(), 8);
}

#[test]
fn a_partner_that_cannot_be_asked_is_not_queried_and_check_names_it() {
    let home = Home::configured("[partners.acme]\nprofile = \"default\"\n");
    let row = |home: &Rc<Home>| {
        let rows = home.payfold(&["check", "--output", "json"]).rows();
        let found = rows.into_iter().find(|row| row["check"] == "queries");
        found.expect("queries are checked")
    };
    let alone = row(&home);
    assert_eq!(alone["result"], "ok");
    assert!(alone.to_string().contains("not queried (no [query] or no api_url): acme"), "{alone}");
    home.write("payfold.toml", "[reconciler]\nquery_after = [\"2m\", \"1m\"]\n");
    let wrong = row(&home);
    assert!(wrong["result"] == "warn" && wrong.to_string().contains("query_after"), "{wrong}");
    home.payfold(&RUN).fails(&["query_after", "fix:"]);
}
