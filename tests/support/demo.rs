//! Owns a demo, what a user reads in its folder, and what its shop and its partner do.

use super::notice::Notice;
use super::pair::{Inside, Pair};
use super::system::System;

/// A demo that runs.
pub struct Demo {
    pub system: System,
    pub secret: String,
    pub token: String,
}

impl Demo {
    pub fn boot() -> Self {
        Self::of(System::demo())
    }

    /// The same on these engines; none where they are left out.
    pub fn on(pair: Pair) -> Option<Self> {
        Some(Self::of(pair.home()?.boot()))
    }

    /// A demo that was booted.
    pub fn of(system: System) -> Self {
        let [secret, token] =
            ["sandbox.key", "admin.token"].map(|name| system.home().data_file(name));
        Self { system, secret, token }
    }

    /// Opens an order as the shop would: its id and its session's ref.
    pub fn open_order(&self) -> [String; 2] {
        let body = "{\"amount\":150000,\"currency\":\"VND\"}";
        let opened = self.system.open_order(&self.token, body);
        assert_eq!(opened.status, 201, "{}", opened.text());
        let opened = opened.json();
        let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
        [text(&opened["order"]["orderId"]), text(&opened["providerRef"])]
    }

    /// Posts a notice that must be taken.
    pub fn take(&self, body: &[u8]) {
        let answer = self.system.post_ipn(body);
        assert_eq!((answer.status, answer.body.len()), (200, 0), "{}", answer.text());
        assert_eq!(answer.header("content-length"), Some("0"));
    }

    /// Posts a payment's notice, which must be taken; its bytes.
    pub fn pay(&self, order: &str, provider_ref: &str) -> Vec<u8> {
        let body = Notice::paid("DEMO", order, provider_ref).signed(&self.secret);
        self.take(&body);
        body
    }

    /// Waits until all that was taken so far is folded.
    pub fn catch_up(&self) {
        Inside::of(self.system.home()).settle();
    }
}
