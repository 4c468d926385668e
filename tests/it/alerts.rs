//! Checks alerts and dashboard without Prometheus. The rules are YAML of the shape that Prometheus
//! takes. Each has a test, an existing runbook and a first command that the program knows. Rules
//! and dashboard use only metrics that the program makes.

use std::collections::BTreeSet;
use std::path::Path;

use yaml_rust2::{Yaml, YamlLoader};

use crate::support::system::Home;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn yaml(path: &str) -> Yaml {
    YamlLoader::load_from_str(&read(path)).expect("it is YAML").remove(0)
}

fn rules() -> Vec<Yaml> {
    let alerts = yaml("deploy/prometheus/alerts.yaml");
    let groups = alerts["groups"].as_vec().expect("groups").clone();
    groups.iter().flat_map(|group| group["rules"].as_vec().expect("rules").clone()).collect()
}

/// What begins as metrics do, and is none.
const CRATES: [&str; 4] = ["payfold_api", "payfold_report", "payfold_schemas", "payfold_views"];

/// The names of metrics in a text.
fn names(text: &str) -> BTreeSet<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_word(c));
    words.filter(|word| word.starts_with("payfold_")).map(str::to_owned).collect()
}

/// Every text in the program's code that begins as a metric does.
fn made() -> BTreeSet<String> {
    let mut made = BTreeSet::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crates = std::fs::read_dir(root).expect("the workspace").map(|one| one.expect("an entry"));
    let mut folders: Vec<_> = crates.map(|one| one.path().join("src")).collect();
    folders.push(root.join("src"));
    // The console reads what processes measure.
    folders.retain(|folder| folder.is_dir() && !folder.starts_with(root.join("console")));
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of the code") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("code");
                let quoted = text.split('"').skip(1).step_by(2);
                made.extend(quoted.filter(|word| word.starts_with("payfold_")).map(str::to_owned));
            }
        }
    }
    made
}

/// What is asked for and not made; of a histogram its parts are asked for.
fn unknown(asked: BTreeSet<String>) -> Vec<String> {
    let made = made();
    let parts = ["_bucket", "_sum", "_count"];
    let is_made = |name: &String| {
        let whole = parts.iter().find_map(|part| name.strip_suffix(part));
        made.contains(name) || whole.is_some_and(|whole| made.contains(whole))
    };
    asked.into_iter().filter(|name| !is_made(name)).collect()
}

#[test]
fn every_rule_has_what_prometheus_and_a_person_need() {
    let operations = read("docs/reference/metrics.md");
    let tests = yaml("deploy/prometheus/alerts_test.yaml");
    let tests = tests["tests"].as_vec().expect("tests");
    let tried = tests.iter().flat_map(|test| test["alert_rule_test"].as_vec().expect("cases"));
    let tried: BTreeSet<&str> = tried.filter_map(|case| case["alertname"].as_str()).collect();
    let (mut alerts, mut labelled, home) = (BTreeSet::new(), BTreeSet::new(), Home::new());
    for rule in rules() {
        let text = |value: &Yaml| value.as_str().unwrap_or_default().to_owned();
        let name = text(&rule["alert"]);
        // One alert may have several rules; their labels differ.
        let labels = format!("{:?}", rule["labels"]);
        assert!(labelled.insert((name.clone(), labels)) && !name.is_empty(), "{rule:?}");
        alerts.insert(name.clone());
        assert!(tried.contains(name.as_str()), "{name} is not tried in alerts_test.yaml");
        let expression = text(&rule["expr"]);
        for pair in ["()", "{}", "[]"] {
            let count = |at: usize| expression.matches(&pair[at..=at]).count();
            assert_eq!(count(0), count(1), "{pair} in the expression of {name}");
        }
        assert!(!expression.is_empty(), "{name}");
        let severity = text(&rule["labels"]["severity"]);
        assert!(["page", "ticket"].contains(&severity.as_str()), "{name}: {severity}");
        let notes = &rule["annotations"];
        assert!(!text(&notes["summary"]).is_empty(), "{name}");
        let runbook = text(&notes["runbook_url"]);
        let help = "{{ with $externalLabels.console_url }}{{ . }}/help{{ else }}docs{{ end }}\
            /reference/metrics.md#";
        let anchor = runbook.strip_prefix(help).expect("a runbook in the console's help");
        assert!(operations.contains(&format!("<a id=\"{anchor}\"></a>")), "{name}: {runbook}");
        // The first command is one of the program's: it has help.
        let first = text(&notes["first"]);
        let command = first.split("payfold ").nth(1).filter(|_| first.starts_with("payfold "));
        if let Some(command) = command {
            let is_plain = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase());
            let mut words: Vec<&str> = command.split_whitespace().take_while(is_plain).collect();
            words.push("--help");
            home.payfold(&words).ok();
        }
    }
    assert!(alerts.contains("MoneyAtRisk") && alerts.contains("RecordsNotCompared"));
    let untold: Vec<_> = tried.iter().filter(|name| !alerts.contains(**name)).collect();
    assert!(untold.is_empty(), "tried, and no alert: {untold:?}");
}

#[test]
fn what_alerts_dashboard_and_console_ask_for_is_made() {
    for path in [
        "console/src/alerts.rs",
        "deploy/prometheus/alerts.yaml",
        "deploy/prometheus/alerts_test.yaml",
        "deploy/grafana/dashboards/payfold.json",
    ] {
        let mut asked = names(&read(path));
        asked.retain(|name| !CRATES.contains(&name.as_str()));
        assert!(asked.len() > 5, "{path}");
        assert_eq!(unknown(asked), Vec::<String>::new(), "{path} names unknown metrics");
    }
    let planted = names("rate(payfold_reconciler_findings_opened[5m]) > payfold_vault_stale");
    assert_eq!(unknown(planted), ["payfold_reconciler_findings_opened"]);
}
