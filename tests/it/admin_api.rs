//! Compares the description of the admin listener with the listener and with the documentation:
//! each has exactly the endpoints of the others.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;

use crate::support::system::{Done, Home, System};
use crate::support::waits::until;
use crate::support::wire::request;

const METHODS: [&str; 4] = ["get", "post", "put", "delete"];

/// `post /v1/rebuild` and so on.
fn described(document: &Value) -> BTreeSet<String> {
    let paths = document["paths"].as_object().expect("paths");
    let methods = |(path, methods): (&String, &Value)| {
        let methods = methods.as_object().expect("methods").keys();
        methods.map(|method| format!("{method} {path}")).collect::<Vec<_>>()
    };
    paths.iter().flat_map(methods).collect()
}

/// A path with each name filled in.
fn filled(path: &str) -> String {
    let part = |part: &str| match part {
        "{role}" => "ingest".to_owned(),
        "{day}" => "2026-01-31".to_owned(),
        "{position}" => "0-1".to_owned(),
        "{topic}" => "intake".to_owned(),
        name => name.trim_matches(['{', '}']).to_owned(),
    };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

/// The status of a request without a token.
fn status_of(system: &System, call: &str) -> u16 {
    system.ask_admin(&request(call, "content-length: 0\r\n", None)).status
}

#[test]
fn every_call_is_described_and_no_other() {
    let system = System::demo();
    let answer = system.get("/openapi.json");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    let document = answer.json();
    let described = described(&document);
    for path in document["paths"].as_object().expect("paths").keys() {
        for method in METHODS {
            let operation = format!("{method} {path}");
            let call = format!("{} {}", method.to_uppercase(), filled(path));
            let status = status_of(&system, &call);
            let expected: &[u16] = match described.contains(&operation) {
                false => &[405],
                true if path.starts_with("/v1/") => &[401],
                true => &[200],
            };
            assert!(expected.contains(&status), "{operation}: {status}");
        }
    }
    assert_eq!(status_of(&system, "GET /v1"), 404);
}

/// Whether a role may make a call.
fn may(role: &str, method: &str, path: &str) -> bool {
    let named: &[&str] = match role {
        "viewer" => &[],
        "finance" => &["findings", "orders", "reconcile", "periods", "quarantine", "raw"],
        "operator" => &["quarantine", "raw", "rebuild", "demo"],
        _ => return true,
    };
    method == "get" || path.split('/').nth(2).is_some_and(|first| named.contains(&first))
}

#[test]
fn a_token_makes_the_calls_of_its_role_and_no_other() {
    let system = System::demo();
    let mut described = described(&system.get("/openapi.json").json());
    described.retain(|call| call.contains(" /v1/"));
    for role in ["viewer", "finance", "operator", "admin"] {
        let token = system.payfold(&["token", "add", role, "--role", role]).ok();
        let headers = format!("content-length: 0\r\nauthorization: Bearer {}\r\n", token.trim());
        let ask = |call: &str| system.ask_admin(&request(call, &headers, None));
        until("the token is known", Duration::from_secs(5), || {
            (ask("GET /v1/rebuild").status == 200).then_some(())
        });
        for operation in &described {
            let (method, path) = operation.split_once(' ').expect("a method and a path");
            let answer = ask(&format!("{} {}", method.to_uppercase(), filled(path)));
            assert_eq!(answer.status != 403, may(role, method, path), "{role}: {operation}");
            if answer.status == 403 {
                assert_eq!(answer.code(), "forbidden");
            }
        }
        let home = system.home();
        home.write("role.token", token.trim());
        let file = home.file("role.token");
        let start = ["rebuild", "pause", "--reason", "a try", "--admin-token-file", &file];
        let is_refused = home.payfold(&start).stderr.contains(&format!("has the role {role};"));
        assert_eq!(is_refused, !may(role, "post", "/v1/rebuild"), "{role}");
    }
    let listed = system.payfold(&["token", "list", "--output", "json"]).rows();
    let roles: Vec<_> = listed.iter().map(|row| &row["role"]).collect();
    assert_eq!(roles, ["viewer", "finance", "operator", "admin"]);
}

/// Another machine, with the admin listener's address and the token of a viewer.
pub struct Away {
    home: Rc<Home>,
    there: [String; 4],
}

impl Away {
    /// Makes the token.
    pub fn from(system: &System) -> Self {
        let token = system.payfold(&["token", "add", "ann", "--role", "viewer"]).ok();
        let home = Home::new();
        home.write("ann.token", token.trim());
        let url = format!("http://{}", system.admin());
        let there = [
            "--admin-url".to_owned(),
            url,
            "--admin-token-file".to_owned(),
            home.file("ann.token"),
        ];
        let away = Self { home, there };
        until("the token is known", Duration::from_secs(5), || {
            (away.payfold(&["order", "list"]).code() == 0).then_some(())
        });
        away
    }

    /// Runs a command that reads through the listener.
    pub fn payfold(&self, command: &[&str]) -> Done {
        let there = self.there.each_ref().map(String::as_str);
        self.home.payfold(&[command, &there[..]].concat())
    }

    /// Runs a command here and there, and compares what it prints.
    pub fn prints_as(&self, system: &System, command: &[&str]) {
        let (here, there) = (system.payfold(command), self.payfold(command));
        assert_eq!(here.code(), 0, "{here:?}");
        assert_eq!((&here.stdout, &here.stderr), (&there.stdout, &there.stderr), "{command:?}");
    }
}

#[test]
fn orders_are_read_alike_here_and_through_the_admin_listener() {
    let system = System::demo();
    system.payfold(&["demo", "pay", "--count", "3"]).ok();
    let away = Away::from(&system);
    let listed = system.payfold(&["order", "list", "--output", "json"]).rows();
    assert_eq!(listed.len(), 3, "{listed:?}");
    let order = |row: &Value| {
        let text = |name| row[name].as_str().expect("a text").to_owned();
        ["partner", "merchantCode", "orderId"].map(text).join("/")
    };
    let [first, second] = [order(&listed[0]), order(&listed[1])];
    for command in [
        &["order", "list"][..],
        &["order", "list", "--output", "csv"],
        &["order", "list", "--output", "json", "--state", "PAID"],
        &["order", "list", "--limit", "2"],
        &["order", "list", "--newest", "--limit", "2"],
        &["order", "find", &first],
        &["order", "find", listed[1]["orderId"].as_str().expect("an id"), "--output", "json"],
        &["order", "list", "--flag", "DOUBLE_PAYMENT"],
        &["order", "stuck"],
        &["order", "show", &first],
        &["order", "show", &second, "--output", "json"],
        &["order", "show", &first, "--facts"],
        &["order", "show", &second, "--facts", "--output", "jsonl"],
        &["trace", &first],
        &["trace", second.rsplit('/').next().expect("an order id"), "--output", "json"],
        &["tail", "intake", "--no-follow"],
        &["tail", "orders", "--no-follow", "--output", "jsonl", "--since", "1h"],
        &["tail", "findings", "--no-follow", "--output", "json", "--partner", "sandbox"],
        &["tail", "orders", "--no-follow", "--after", "0-2"],
    ] {
        away.prints_as(&system, command);
    }
    for name in ["reference", "sessionRef", "paymentRef"] {
        let name = listed[1][name].as_str().expect("a reference");
        let found = away.payfold(&["order", "find", name, "--output", "json"]).rows();
        assert_eq!(
            found.iter().map(order).collect::<Vec<_>>(),
            std::slice::from_ref(&second),
            "{name}"
        );
    }
    away.payfold(&["order", "find", "none"]).fails(&["no order is named none"]);
    let newest = away.payfold(&["order", "list", "--newest", "--output", "json"]).rows();
    let times =
        |rows: &[Value]| rows.iter().map(|row| row["firstSeen"].clone()).collect::<Vec<_>>();
    assert_eq!(times(&newest), times(&listed).into_iter().rev().collect::<Vec<_>>());
    let none = ["order", "show", "sandbox/DEMO/none"];
    away.payfold(&none).fails(&["order sandbox/DEMO/none does not exist"]);
    away.payfold(&["order", "list", "--after", "no cursor"]).fails(&["cursor"]);
    away.payfold(&["tail", "orders", "--after", "0-x"]).fails(&["0-x"]);
    away.payfold(&["trace", "none"]).fails(&["the log has nothing about none"]);
    away.payfold(&["quarantine", "show", "0-9"]).fails(&["quarantine has no notice at 0-9"]);
    let token = format!("authorization: Bearer {}\r\n", away.home.read("ann.token"));
    let mistyped = system.ask_admin(&request("GET /v1/orders?state=NONE", &token, None));
    assert_eq!((mistyped.status, mistyped.code().as_str()), (400, "bad_request"));
}

#[test]
fn accounts_and_keys_are_listed_of_a_running_system() {
    let system = System::demo();
    system.payfold(&["key", "add", "sandbox", "--channel", "return", "--merchant", "DEMO"]).ok();
    system.metric_when("payfold_vault_reloads_total{result=\"applied\"}", 1.0);
    let away = Away::from(&system);
    for (command, unknown) in [("account", &["constants"][..]), ("key", &["lastUsed", "uses24h"])] {
        let list = [command, "list", "sandbox", "--output", "json"];
        let (mut here, there) = (system.payfold(&list).rows(), away.payfold(&list).rows());
        assert!(!here.is_empty());
        for row in &mut here {
            unknown.iter().for_each(|name| row[name] = Value::Null);
        }
        assert_eq!(here, there, "{command}");
        assert!(away.payfold(&[command, "list", "acme"]).ok().lines().count() == 1);
    }
}

/// The table of the operations' manual has the calls, and no other.
#[test]
fn the_docs_list_every_call() {
    let manual = include_str!("../../docs/reference/admin-api.md");
    let document = System::demo().get("/openapi.json").json();
    let rows = manual.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let calls = rows.filter_map(|(call, _)| {
        let (method, path) = call.split_once(' ')?;
        let method = method.to_lowercase();
        (METHODS.contains(&method.as_str())).then(|| format!("{method} {path}"))
    });
    let calls: BTreeSet<_> = calls.collect();
    let mut described = described(&document);
    described.retain(|call| call.contains(" /v1/"));
    assert_eq!(calls, described);
}
