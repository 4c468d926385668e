//! People in the console: their tokens, and the log of what they did; and the help.

use serde_json::Value;

use super::decisions::{DECIDE, WITHDRAW, compared, subject};
use super::{ORIGIN, SOON, Visitor, open, token_of};
use crate::support::system::System;
use crate::support::waits::until;
use crate::support::wire::request;

/// What each action says, the newest first.
fn in_words(actions: &Value) -> Vec<String> {
    let actions = actions.as_array().expect("actions").iter();
    let text = |action: &Value, name: &str| action[name].as_str().unwrap_or("-").to_owned();
    let words = ["author", "done", "kind", "reason"];
    actions.map(|action| words.map(|name| text(action, name)).join(" ")).collect()
}

/// The pages of actions that the admin listener has, two actions a page.
fn read_in_pages(system: &System, token: &str) -> Vec<Value> {
    let header = format!("authorization: Bearer {token}\r\n");
    let (mut actions, mut before) = (Vec::new(), String::new());
    loop {
        let call = format!("GET /v1/actions?limit=2{before}");
        let page = system.ask_admin(&request(&call, &header, None)).json();
        let rows = page["actions"].as_array().expect("actions");
        assert!(rows.len() <= 2, "{page}");
        actions.extend_from_slice(rows);
        let Some(next) = page["next"].as_str() else { return actions };
        before = format!("&before={next}");
    }
}

#[test]
fn the_log_has_who_did_what_and_why() {
    let system = compared();
    let of_ann = token_of(&system, "ann", "finance");
    let ann = Visitor::log_in(&system, &of_ann);
    let [bob, ops] = [("bob", "finance"), ("ops", "operator")]
        .map(|(name, role)| Visitor::log_in(&system, &token_of(&system, name, role)));
    let findings = ann.json("/findings?code=OPEN_FLAG").json();
    let [one, two] = [0, 1].map(|at| subject(&findings["findings"][at]));
    let ours = "choice=ours&back=/findings&reason";
    for (person, path, on, fields) in [
        (&ann, DECIDE, &one, format!("{ours}=both+were+delivered")),
        (&bob, DECIDE, &one, format!("{ours}=I+asked+the+shop")),
        (&ann, DECIDE, &two, format!("{ours}=both+were+delivered")),
        (&ann, WITHDRAW, &two, "reason=a+slip".to_owned()),
    ] {
        let page = person.decide(path, &[on], &fields);
        assert!(page.contains("Your decision is taken"), "{page}");
    }
    let start = format!("post_token={}&action=start&build=0&reason=new+rules", ops.post_token());
    assert_eq!(ops.send("/builds", ORIGIN, &start).status, 200);
    system.payfold(&["token", "retire", "ops"]).ok();
    until("the token is gone", SOON, || {
        let removed = &ann.json("/people").json()["actions"][0];
        (removed["done"] == "removed").then_some(())
    });

    let people = ann.json("/people").json();
    let expected = [
        "- removed token -",
        "ops started build new rules",
        "ann withdrawn flag a slip",
        "ann decided flag both were delivered",
        "bob agreed flag I asked the shop",
        "ann decided flag both were delivered",
        "- added token -",
        "- added token -",
        "- added token -",
        "local compared day -",
    ];
    assert_eq!(in_words(&people["actions"]), expected);
    let actions = people["actions"].as_array().expect("actions").clone();
    assert_eq!(read_in_pages(&system, &of_ann), actions, "no page has a gap or a repeat");
    let log = ["token", "log", "--output", "jsonl", "--by"];
    let listed = |by: &str| system.payfold(&[&log[..], &[by]].concat()).json_lines();
    let of_bob: Vec<_> = actions.iter().filter(|one| one["author"] == "bob").cloned().collect();
    assert_eq!(listed("bob"), of_bob);
    assert_eq!(Value::from(of_bob), ann.json("/people?by=bob").json()["actions"]);

    let tokens = people["tokens"].as_array().expect("tokens");
    let known: Vec<_> = tokens.iter().map(|one| (&one["name"], &one["role"])).collect();
    let [a, b, l] = ["ann", "bob", "local"].map(Value::from);
    let [finance, admin] = ["finance", "admin"].map(Value::from);
    assert_eq!(known, [(&a, &finance), (&b, &finance), (&l, &admin)], "ops has none any more");
    let newest = actions.iter().find(|one| one["author"] == "ann").expect("ann did something");
    assert_eq!(tokens[0]["lastActionAt"], newest["at"]);
    assert!(tokens[0]["recordedAt"].is_string() && tokens[2]["recordedAt"].is_null(), "{people}");

    let page = ann.get("/people").text();
    for said in ["had records compared", "agreed, as the second person", "I asked the shop"] {
        assert!(page.contains(said), "{said}: {page}");
    }
    let main = page.split("<h2 id=\"actions\"").nth(1).expect("the log");
    let links: Vec<_> = main.split("<td><a href=\"").skip(1).collect();
    assert!(links.len() >= 12, "people, orders, a day and a build: {page}");
    for link in links {
        let path = link.split('"').next().expect("a path").replace("&amp;", "&");
        assert_eq!(ann.get(&path).status, 200, "{path}");
    }
    let unknown = system.payfold(&[&log[..], &["Ann"]].concat());
    assert!(unknown.stderr.contains("names are exact"), "{unknown:?}");
    let url = format!("http://{}", system.admin());
    let remote = ["token", "list", "--output", "json", "--admin-url", &url];
    assert_eq!(system.payfold(&remote).json(), people["tokens"]);
    assert_eq!(ann.get("/people?before=x").status, 400);
}

#[test]
fn the_help_is_there_without_a_session() {
    let system = System::demo();
    let get = |path: &str| open(&system, path, "");
    assert!(get("/login").text().contains("href=\"/help\""));
    for (path, said) in [
        ("/help", "Metrics and alerts"),
        ("/help/reference/metrics.md", "id=\"alert-partnersilent\""),
        ("/help/glossary.md", "<h1 id=\"glossary\">Glossary</h1>"),
        ("/help/how-to/rebuild.md", "payfold rebuild start"),
    ] {
        let page = get(path).text();
        assert!(page.contains(said) && !page.contains("Log out"), "{said}: {page}");
    }
    for path in ["/help/none.md", "/help/decisions/0001-positions-from-the-writer.md", "/help/../x"]
    {
        assert_eq!(get(path).status, 404, "{path}");
    }
    let ann = Visitor::log_in(&system, &token_of(&system, "ann", "viewer"));
    assert!(ann.get("/help").text().contains("Log out"), "with the bar of a session");
}
