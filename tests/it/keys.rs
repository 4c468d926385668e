//! Owns what happens to keys while the program runs: rotations under load, on an age vault and on a
//! mounted directory; the identity that opens the vault; the permissions of accounts; and where a
//! secret may never show.

mod accounts;
mod directory;
mod driver;
mod identity;
mod mounted;
mod old_keys;
mod record_keys;
mod rotations;
mod secrets;

use std::rc::Rc;

use crate::support::notice::Notice;
use crate::support::system::Home;

/// A system with partner acme and its account SHOP, which has its first key.
const ACME: &str = "[partners.acme]\nprofile = \"default\"\n";
const SECRET: &str = "the secret of acme's first key";

/// A folder with acme's first key in an age vault.
fn home() -> Rc<Home> {
    let home = Home::configured(ACME);
    home.add_key("acme", SECRET, &["--merchant", "SHOP", "--key-id", "k0"]);
    home
}

/// A notice of the account.
fn signed(secret: &str) -> Vec<u8> {
    Notice::paid("SHOP", "o", "r").signed(secret)
}
