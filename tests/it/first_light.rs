//! Owns the main story on the real binary: what operators, partners and downstream teams see of it,
//! from the first notice to the last signal.

pub mod commands;
pub mod drain;
pub mod listeners;
pub mod rotation;
pub mod story;

use crate::support::pair::{Inside, Pair};
use crate::support::system::{Home, System};

/// A file of the data folder, without the blanks at its end.
fn data_file(home: &Home, name: &str) -> String {
    let text = std::fs::read_to_string(home.data().join(name)).expect("the demo made it");
    text.trim().to_owned()
}

/// A demo and what a user reads in its folder.
struct Demo {
    system: System,
    secret: String,
    token: String,
}

impl Demo {
    fn boot() -> Self {
        Self::of(System::demo())
    }

    /// The same on these engines; none where they are left out.
    fn on(pair: Pair) -> Option<Self> {
        Some(Self::of(pair.home()?.boot()))
    }

    fn of(system: System) -> Self {
        let secret = data_file(system.home(), "sandbox.key");
        let token = data_file(system.home(), "admin.token");
        Self { system, secret, token }
    }

    /// Opens an order as the shop would: its id and its session's ref.
    fn open_order(&self) -> [String; 2] {
        let body = "{\"amount\":150000,\"currency\":\"VND\"}";
        let opened = self.system.open_order(&self.token, body);
        assert_eq!(opened.status, 201, "{}", opened.text());
        let opened = opened.json();
        let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
        [text(&opened["order"]["orderId"]), text(&opened["providerRef"])]
    }

    /// Posts a notice that must be taken.
    fn take(&self, body: &[u8]) {
        let answer = self.system.post_ipn(body);
        assert_eq!((answer.status, answer.body.len()), (200, 0), "{}", answer.text());
        assert_eq!(answer.header("content-length"), Some("0"));
    }

    /// Waits until all that was taken so far is folded.
    fn catch_up(&self) {
        Inside::of(self.system.home()).settle();
    }
}
