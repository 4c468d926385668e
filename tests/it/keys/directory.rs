//! Owns a system on a mounted directory of keys. It starts on the directory and takes swapped
//! files; if these are wrong, it keeps its keys and reports that. Commands read the directory and
//! change nothing.

use std::time::Duration;

use super::mounted::{Mounted, file};
use super::signed;
use crate::support::system::{Home, RUN};

const A: &str = "the secret of the first key file";
const B: &str = "the secret of the second key file";
const SHOP_TOKEN: &str = "pfs_a token that an operator made";

fn key(id: &str, secret: &str, valid_from: &str) -> (String, String) {
    let content = format!("secret = \"text:{secret}\"\nvalid_from = {valid_from}\n");
    file(&format!("acme.SHOP.ipn.{id}"), content)
}

fn plain(more: &str) -> (String, String) {
    let digest = payfold_schemas::digest::Digest::of_bytes(SHOP_TOKEN.as_bytes());
    let text = format!(
        "[[accounts]]\npartner = \"acme\"\nmerchant_code = \"SHOP\"\n\
         {more}\n[[shops]]\nname = \"web\"\n\
         accounts = [{{ partner = \"acme\", merchant_code = \"SHOP\" }}]\n\
         tokens = [{{ sha256 = \"{digest}\", created_at = \"2026-01-31T00:00:00Z\" }}]\n"
    );
    file("vault.toml", text)
}

#[test]
fn a_mounted_directory_is_taken_and_a_wrong_one_is_not() {
    let (home, mut mounted) =
        Mounted::home(&[file("acme.SHOP.ipn.a", format!("text:{A}\n")), plain("")]);
    let checked = home.payfold(&["check", "--output", "json"]);
    assert_eq!(checked.code(), 0, "{checked:?}");
    let system = home.boot_as("ingest,checkout,projector,reconciler", &[]);
    assert_eq!(system.post_ipn(&signed(A)).status, 200);
    assert_eq!(system.post_ipn(&signed(B)).status, 401);
    assert!(!home.data().join("vault.age").exists(), "no file is made that is not read");

    let b = || key("b", B, "2026-01-31T00:00:00Z");
    mounted.swap(&[file("acme.SHOP.ipn.a", format!("text:{A}\n")), b(), plain("")]);
    system.ipn_when(200, || signed(B));
    assert_eq!(system.post_ipn(&signed(A)).status, 200, "there is no end to it yet");

    mounted.swap(&[
        b(),
        file("acme.SHOP.ipn.c", "text:short"),
        file("README", "hush hush"),
        plain("enable = 1"),
    ]);
    system.metric_when("payfold_vault_stale", 1.0);
    for secret in [A, B] {
        assert_eq!(system.post_ipn(&signed(secret)).status, 200, "the old keys stay in force");
    }
    let wrong = [
        "acme.SHOP.ipn.c: key c has 5 bytes",
        "README: its name is not that of a key",
        "vault.toml: line 4: unknown field",
    ];
    let log = home.log_with("the old keys stay in force");
    let checked = home.payfold(&["check"]);
    assert_eq!(checked.code(), 1, "{checked:?}");
    for problem in wrong {
        assert!(log.contains(problem), "{problem} in {log}");
        assert!(
            checked.stdout.contains(problem.split(": ").next().expect("a name")),
            "{checked:?}"
        );
    }
    assert_eq!(
        log.matches("the old keys stay in force").count(),
        1,
        "reported once, and once more after a minute"
    );
    assert!(!log.contains("hush hush"));

    mounted.swap(&[b(), plain("allow_sources = [\"203.0.113.0/24\"]")]);
    system.ipn_when(403, || signed(B));
    assert_eq!(system.post_ipn(&signed(A)).status, 401, "its file is gone");
    system.metric_when("payfold_vault_stale", 0.0);
    assert_eq!(home.log().matches("the old keys stay in force").count(), 1);
}

/// What stands between two lines of the operations manual.
fn manual(from: &str, to: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/how-to/rotate-keys.md");
    let text = std::fs::read_to_string(path).expect("it is there");
    let (_, rest) = text.split_once(from).expect("it begins there");
    rest.split_once(to).expect("it ends there").0.to_owned()
}

#[test]
fn the_examples_of_the_manual_are_vaults() {
    let mut files = Vec::new();
    for line in manual("stringData:\n", "---\n").lines() {
        match line.strip_suffix(": |") {
            Some(name) => files.push((name.trim().to_owned(), String::new())),
            None => {
                let (_, content) = files.last_mut().expect("a name stands above");
                content.push_str(line.strip_prefix("    ").expect("it is indented"));
                content.push('\n');
            }
        }
    }
    let (home, mut mounted) = Mounted::home(&files);
    let listed = home.payfold(&["key", "list", "--output", "json"]).json();
    let ids: Vec<_> = listed.as_array().expect("a list").iter().map(|key| &key["keyId"]).collect();
    assert_eq!(ids, ["2026-a", "2026-b"]);
    assert!(home.payfold(&["account", "list"]).ok().contains("203.0.113.0/24"));

    let digest = payfold_schemas::digest::Digest::of_bytes(b"token").to_string();
    let plain = manual("```toml\n# vault.toml", "```").replace('…', &digest);
    let one = manual("```toml\nsecret = ", "```").replace('…', A);
    mounted.swap(&[
        file("vault.toml", format!("#{plain}")),
        file("acme.S1.ipn.a", format!("secret = {one}")),
        key("b", B, "2026-01-31T00:00:00Z"),
    ]);
    assert!(home.payfold(&["shop", "list"]).ok().contains("acme/SHOP"));
    let listed = home.payfold(&["key", "list", "--output", "json"]).json();
    let keys: Vec<_> = listed.as_array().expect("a list").iter().collect();
    assert_eq!((&keys[0]["keyId"], &keys[1]["keyId"]), (&"b".into(), &"2026:a".into()));
    assert_eq!((&keys[1]["merchantCode"], &keys[1]["serial"]), (&"SHOP:1".into(), &"2".into()));
}

#[test]
fn commands_read_a_directory_and_change_nothing() {
    let keys = [key("a", A, "2026-01-31T00:00:00Z"), key("b", B, "2026-02-01T00:00:00Z")];
    let (home, _) = Mounted::home(&[&keys[..], &[plain("rate_per_s = 9")]].concat());
    let listed = home.payfold(&["key", "list", "--output", "json"]).json();
    let ids: Vec<_> = listed.as_array().expect("a list").iter().map(|key| &key["keyId"]).collect();
    assert_eq!(ids, ["a", "b"]);
    assert!(home.payfold(&["account", "list"]).ok().contains('9'));
    assert!(home.payfold(&["shop", "list"]).ok().contains("web"));
    for (arguments, instead) in [
        (&["key", "add", "acme"][..], "add a file PARTNER.MERCHANT.CHANNEL.KEYID"),
        (&["key", "retire", "acme", "a"], "write valid_until into the key's file"),
        (&["key", "rotate-identity"], "the tool that manages the secret"),
        (&["account", "set", "acme", "SHOP", "--disabled"], "change vault.toml"),
        (&["shop", "add", "web"], "change vault.toml"),
        (&["shop", "retire", "web"], "change vault.toml"),
    ] {
        home.payfold(arguments).fails(&["which payfold only reads", instead]);
    }
    assert!(!home.data().join("vault.age").exists());
}

#[test]
fn a_directory_that_can_t_be_used_is_no_start() {
    let (home, mut mounted) =
        Mounted::home(&[file("acme.SHOP.ipn.a", "text:short"), file("x", "hush")]);
    let ends = |said: &[&str]| {
        let run = [&RUN[..], &["--roles", "ingest"]].concat();
        let ended = home.ends(&run, &[], Duration::from_secs(30));
        ended.fails(said);
        assert!(!ended.stderr.contains("hush"));
    };
    ends(&["acme.SHOP.ipn.a: key a has 5 bytes", "x: its name is not that of a key", "x: line 1"]);
    mounted.swap(&[]);
    ends(&["holds no file at all"]);
    let demo = Home::new();
    let ended = demo.ends(&["run"], &[("PAYFOLD_VAULT", "dir:/nowhere")], Duration::from_secs(30));
    assert!(ended.stderr.contains("a demo creates its own keys"), "{ended:?}");
}

#[test]
fn a_clock_before_every_key_is_named_as_such() {
    let (home, _mounted) = Mounted::home(&[key("a", A, "2099-01-31T00:00:00Z"), plain("")]);
    let checked = home.payfold(&["check"]);
    assert_eq!(checked.code(), 1, "{checked:?}");
    let words =
        ["no key of acme/SHOP is valid at 20", "a from 2099-01-31T00:00:00Z", "check the clock"];
    for word in words {
        assert!(checked.stdout.contains(word), "{word}: {checked:?}");
    }
    let config = home.read("payfold.toml");
    home.write("payfold.toml", &config.replace("\"default\"", "\"sandbox\""));
    let run = [&RUN[..], &["--roles", "sandbox"]].concat();
    let done = home.ends(&run, &[], Duration::from_secs(20));
    done.fails(&words);
    assert!(!done.stderr.contains("no account to play"), "{done:?}");

    // A process that takes notices is warned: none of them becomes a fact.
    let system = home.boot_as("ingest", &[]);
    assert_eq!(system.post_ipn(&signed(A)).status, 503);
    assert!(home.log().contains("no key of this account is valid at 20"), "{}", home.log());
}
