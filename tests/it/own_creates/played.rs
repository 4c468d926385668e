//! The sandbox role plays a partner of each shipped profile: it reads the create call, shows its
//! page, sends notices that are acknowledged, and answers the queries that confirm them.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::{CREATE_KEY, IPN_KEY, shipped, text};
use crate::support::sandbox::constants_of;
use crate::support::system::{Home, System};
use crate::support::waits::until;
use crate::support::wire::{Connection, get_request};

/// Every notice of a test is answered long before that.
const FINISHED_MAX: Duration = Duration::from_secs(30);

struct Played {
    system: System,
    token: String,
}

/// A port that no other test gets: below those that the system hands out, and by process.
fn quiet_port() -> u16 {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(std::process::id() % 10_000).expect("it is below 10,000");
    let mut ports = std::iter::repeat_with(|| {
        20_000 + (first + TAKEN.fetch_add(1, Ordering::Relaxed)) % 10_000
    });
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    ports.find(is_free).expect("one of them is free")
}

impl Played {
    /// A system with a partner of this profile only, played by the same process.
    fn boot(profile: &str) -> Self {
        let home = Home::configured(
            "[partners.acme]\nprofile = \"acme.toml\"\n\
             [reconciler]\nquery_after = [\"1s\", \"2s\", \"4s\"]\nquery_poll_ms = 20\n",
        );
        home.write("acme.toml", &profile.replace("stage = \"draft\"", "stage = \"sandbox\""));
        let address = format!("127.0.0.1:{}", quiet_port());
        let url = format!("http://{address}");
        let constants = constants_of(profile, &url).into_iter();
        let constants: Vec<_> = constants.map(|(name, value)| format!("{name}={value}")).collect();
        let given = constants.iter().flat_map(|constant| ["--constant", constant]);
        let given: Vec<_> = ["--merchant", "SHOP"].into_iter().chain(given).collect();
        home.add_key("acme", IPN_KEY, &given);
        home.add_key("acme", CREATE_KEY, &["--merchant", "SHOP", "--channel", "create"]);
        let token = home.add_shop("acme/SHOP");
        let system = home.boot_as("all,sandbox", &[("PAYFOLD_LISTEN_SANDBOX", &address)]);
        Self { system, token }
    }

    fn create(&self, key: &str, (amount, currency): (i64, &str), description: &str) -> Value {
        let mut body = json!({
            "partner": "acme", "reference": key, "amount": amount, "currency": currency,
            "description": description,
        });
        if key == "qr" {
            body["presentation"] = "qr".into();
        }
        let answer = self.system.create_payment(&self.token, key, &body);
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()
    }

    /// The notices of an order, once nothing more is sent: the status of each, and whether each of
    /// its attempts was acknowledged.
    fn sent(&self, order: &str) -> Vec<(String, Vec<Value>)> {
        let url = self.system.sandbox_url();
        let address = url.strip_prefix("http://").expect("a URL");
        let path = format!("/sandbox/deliveries?orderId={order}");
        let finished = || {
            let said = Connection::open(address).exchange(&get_request(&path)).json();
            (said["finished"] == true).then_some(said)
        };
        let said = until("all notices are sent", FINISHED_MAX, finished);
        let acked = |notice: &Value| {
            let attempts = notice["attempts"].as_array().expect("a list");
            attempts.iter().map(|attempt| attempt["acked"].clone()).collect()
        };
        let notices = said["deliveries"].as_array().expect("a list");
        notices.iter().map(|one| (text(one, "status").to_owned(), acked(one))).collect()
    }
}

fn order_when(played: &Played, order: &str, state: &str) -> Value {
    played.system.order_when(["acme", "SHOP", order], |order| order["state"] == state)
}

/// A paid and a forged payment of this profile.
fn plays(name: &str, money: (i64, &str)) -> Played {
    let played = Played::boot(shipped(name));
    let payment = played.create("paid", money, "Two tickets #pay");
    let order = text(&payment, "orderId");
    let page = text(&payment, "redirectUrl");
    assert!(page.starts_with(&played.system.sandbox_url()), "{name}: {page}");
    let paid = order_when(&played, order, "PAID");
    assert_eq!((&paid["fulfil"], &paid["flags"]), (&json!(true), &json!([])), "{name}: {paid}");
    assert_eq!(played.sent(order), [("SUCCESS".to_owned(), vec![json!(true)])], "{name}");

    let forged = played.create("forged", money, "Two tickets #wrong-key");
    let sent = played.sent(text(&forged, "orderId"));
    assert!(sent.iter().any(|(_, attempts)| attempts[0] == false), "{name}: {sent:?}");
    played
}

#[test]
fn razorpay_is_played() {
    let played = plays("razorpay", (50_000, "INR"));
    let failed = played.create("failed", (50_000, "INR"), "Two tickets #fail");
    order_when(&played, text(&failed, "orderId"), "FAILED");
}

#[test]
fn zalopay_is_played() {
    plays("zalopay", (150_000, "VND"));
}

#[test]
fn momo_is_played() {
    let played = plays("momo", (150_000, "VND"));
    // Its answers offer both, and the shop chooses.
    let payment = played.create("qr", (150_000, "VND"), "Two tickets");
    assert!(text(&payment, "qrPayload").starts_with("payfold-sandbox:"), "{payment}");
    assert_eq!(payment["redirectUrl"], Value::Null);
    // A notice has the time of its event, so each of its attempts is the same payment.
    let payment = played.create("again", (150_000, "VND"), "Two tickets #duplicates");
    let order = text(&payment, "orderId");
    assert!(played.sent(order).len() > 1, "it is sent several times");
    assert_eq!(order_when(&played, order, "PAID")["flags"], json!([]));
    // Its transactions are numbers, the second one, too.
    let payment = played.create("twice", (150_000, "VND"), "Two tickets #second-ref");
    let order = text(&payment, "orderId");
    let is_flagged = |order: &Value| order["flags"].to_string().contains("DOUBLE_PAYMENT");
    played.system.order_when(["acme", "SHOP", order], is_flagged);
}

/// Each of its notices counts only after a query.
#[test]
fn midtrans_is_played() {
    plays("midtrans", (15_000_000, "IDR"));
}

#[test]
fn square_is_played() {
    plays("square", (1_050, "USD"));
}
