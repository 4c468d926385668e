//! Owns where a secret may never show: in the output of a whole run with the fullest log, in a core
//! file, and in the arguments that every user of the machine sees.

use std::process::Stdio;
use std::time::Duration;

use crate::support::notice::Notice;
use crate::support::system::{Home, Process, RUN, System, alone};
use crate::support::waits::until;

const PLANTED: &str = "pl4nted-secret-of-the-next-key-x";

/// Every way a secret could be written down.
fn forms(secret: &str) -> Vec<String> {
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let listed = format!("{:?}", secret.as_bytes());
    let listed = listed.trim_matches(['[', ']']).to_owned();
    vec![
        secret.to_owned(),
        hex.to_uppercase(),
        hex,
        listed.replace(' ', ""),
        listed,
        base64(secret.as_bytes()),
    ]
}

/// RFC 4648 without its padding, and without the last character, which depends on what follows.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits = bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1));
    let bits: Vec<u8> = bits.collect();
    let digit = |six: &[u8]| {
        let value = six.iter().fold(0, |value, bit| value << 1 | usize::from(*bit));
        char::from(DIGITS[value])
    };
    bits.chunks_exact(6).map(digit).collect()
}

fn secrets_of(home: &Home) -> Vec<(String, String)> {
    let file = |name: &str| {
        let text = home.data_file(name);
        let secret = text.lines().find(|line| !line.starts_with('#')).expect("it holds one");
        (name.to_owned(), secret.trim().to_owned())
    };
    ["sandbox.key", "demo.key", "admin.token", "vault.key"].map(file).into()
}

fn output_of(home: &Home) -> String {
    format!("{}\n{}", home.log(), home.printed())
}

/// Everything that reads, makes, takes or refuses a secret, while the program says all it can.
fn talk(system: &System) -> Vec<(String, String)> {
    let home = system.home();
    let mut secrets = secrets_of(home);
    system.payfold(&["demo", "pay", "--count", "4"]).ok();
    home.add_key("sandbox", PLANTED, &["--key-id", "planted"]);
    let signed = |secret: &str| Notice::paid("DEMO", "o", "r").signed(secret);
    system.ipn_when(200, || signed(PLANTED));
    home.add_key("sandbox", PLANTED, &["--channel", "unwrap"]);
    let refused = Notice::paid("DEMO", "o", "r").sent(-4_000).signed(PLANTED);
    assert_eq!(system.post_ipn(&refused).status, 403);
    assert_eq!(system.post_ipn(&signed("an unknown key, of some length at least")).status, 401);
    system.payfold(&["key", "rotate-identity"]).ok();
    secrets.extend(secrets_of(home));
    let vault = home.data().join("vault.age");
    let good = std::fs::read(&vault).expect("it is there");
    std::fs::write(&vault, "age-encryption.org/v1\n").expect("it can be written");
    home.log_with("the old keys stay in force");
    std::fs::write(&vault, good).expect("it can be written");
    secrets.push(("planted".to_owned(), PLANTED.to_owned()));
    secrets
}

#[test]
fn a_run_with_the_fullest_log_shows_no_secret() {
    let system =
        System::demo_with(&[("PAYFOLD_LOG_FILTER", "trace"), ("PAYFOLD_LOG_FORMAT", "json")]);
    let secrets = talk(&system);
    let arguments = std::fs::read_to_string(format!("/proc/{}/cmdline", system.pid()));
    let arguments = arguments.expect("it runs");
    let (home, _) = system.stop();
    let output = output_of(&home);
    assert!(output.contains("\"level\":\"TRACE\""), "it says all it can");
    for (name, secret) in secrets {
        for form in forms(&secret) {
            let lines: Vec<_> =
                output.lines().filter(|line| line.contains(&form)).take(3).collect();
            assert!(lines.is_empty(), "{name}: {lines:?}");
            assert!(!arguments.contains(&form), "{name}: {arguments}");
        }
    }
}

/// The limits of a system that was started where core files are allowed.
fn core_limit(settings: &str) -> String {
    let home = Home::configured(settings);
    let mut allowed = std::process::Command::new("sh");
    // The hard limit is what the soft one may be raised to.
    allowed.args(["-c", "ulimit -S -c \"$(ulimit -H -c)\"; ulimit -c >core; exec \"$0\" \"$@\""]);
    allowed.arg(env!("CARGO_BIN_EXE_payfold")).args(RUN).args(["--roles", "ingest"]);
    allowed.arg("--data").arg(home.data());
    allowed.current_dir(home.path()).env_clear().env("PATH", "/usr/bin:/bin");
    allowed.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let process = Process(alone(|| allowed.spawn()).expect("it can be started"));
    let pid = process.0.id();
    let limits = until("it runs", Duration::from_secs(60), || {
        let run_file = home.data().join(format!("run-{pid}.json"));
        run_file.exists().then(|| std::fs::read_to_string(format!("/proc/{pid}/limits")))
    });
    drop(process);
    let before = home.read("core");
    let limits = limits.expect("the kernel shows them");
    let line = limits.lines().find(|line| line.starts_with("Max core file size"));
    let now = line.and_then(|line| line.split_whitespace().nth(4)).expect("it is in the list");
    format!("{} then {now}", if before.trim() == "0" { "0" } else { "more" })
}

#[test]
fn no_core_file_is_left_of_what_holds_keys() {
    let without = core_limit("debuggable = true\n");
    if without.starts_with('0') {
        // Where this machine allows no core files there is nothing to forbid.
        return;
    }
    assert_ne!(without, "more then 0");
    assert_eq!(core_limit(""), "more then 0");
}
