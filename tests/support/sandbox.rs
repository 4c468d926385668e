//! Owns the sandbox partner beside programs under test, in this process: it outlives every kill and
//! records every create call. It also has the keys of its account and of the shop.

use std::path::Path;
use std::sync::Arc;

use actix_web::{App, HttpServer};
use payfold_engines::clock::{Clock, SystemClock};
use payfold_partners::document::{AccountEntry, NewKey};
use payfold_partners::keys::Channel;
use payfold_partners::secret::Secret;
use payfold_partners::shops::{ShopAccount, ShopToken};
use payfold_partners::vault::Vault;
use payfold_sandbox::{Sandbox, SandboxSettings};
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{KeyId, MerchantCode, PartnerCode, ShopName};

use super::stub::listen;

/// What the account's notices are signed with.
pub const SECRET: &str = "a test key of the sandbox, worth nothing at all";
/// What the shop shows.
pub const TOKEN: &str = "a test token of the shop, worth nothing at all";

/// The partner's code.
pub fn code() -> PartnerCode {
    PartnerCode::parse("sandbox").expect("a code")
}

/// The account's code.
pub fn merchant() -> MerchantCode {
    MerchantCode::parse("DEMO").expect("a code")
}

/// The account at the partner.
pub fn account() -> AccountEntry {
    account_entry(["sandbox", "DEMO", "k"], SECRET)
}

/// An account for a vault, with one key for notices.
pub fn account_entry([partner, merchant, key]: [&str; 3], secret: &str) -> AccountEntry {
    let partner = PartnerCode::parse(partner).expect("a partner code");
    let mut account = AccountEntry::new(partner, MerchantCode::parse(merchant).expect("a code"));
    account.add_key(new_key(key, Channel::Ipn, secret)).expect("the first key");
    account
}

/// A key that is valid since a minute.
pub fn new_key(id: &str, channel: Channel, secret: &str) -> NewKey {
    let now = SystemClock.now();
    NewKey {
        id: KeyId::parse(id).expect("a key id"),
        channel,
        secret: Secret::from_bytes(secret.into()),
        valid_from: now.plus_ms(-60_000),
        overlap_ms: 0,
        created_at: now,
    }
}

/// The constants that a shipped profile names, with the values of an account that is played at this
/// URL.
pub fn constants_of<'u>(profile: &str, url: &'u str) -> Vec<(&'static str, &'u str)> {
    let mut all = vec![
        ("accessKey", "A-7"),
        ("notification_url", "not used"),
        ("location_id", "L1"),
        ("snap_url", url),
    ];
    all.retain(|(name, _)| profile.contains(&format!("{name} = \"")));
    all
}

/// Makes a vault with the account's key and the shop's token.
pub fn fill_vault(data: &Path) {
    let mut vault = Vault::create(data).expect("a vault can be made");
    let document = vault.document_mut();
    document.add_account(account()).expect("the first account");
    let token = ShopToken {
        sha256: Digest::of_bytes(TOKEN.as_bytes()),
        created_at: SystemClock.now(),
        valid_until: None,
    };
    let name = ShopName::parse("web").expect("a name");
    let account = ShopAccount { partner: code(), merchant_code: merchant() };
    document.add_shop_token(&name, &[account], token, 0);
    vault.save().expect("the folder can be written");
}

/// The partner with the settings for its URL, on its own thread with its own runtime.
pub fn serve(settings: impl FnOnce(&str) -> SandboxSettings) -> (Sandbox, String) {
    let (socket, url) = listen();
    let settings = settings(&url);
    let (made, making) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        actix_web::rt::System::new().block_on(async move {
            let sandbox = Sandbox::new(settings, Arc::new(SystemClock)).expect("a partner");
            made.send(sandbox.clone()).expect("the test waits for it");
            let app = move || {
                let serving = sandbox.clone();
                App::new().configure(move |config| serving.routes(config))
            };
            let server = HttpServer::new(app).workers(2).disable_signals();
            let server = server.listen(socket).expect("the socket is ours").run();
            server.await.expect("the partner serves until its end");
        });
    });
    (making.recv().expect("the partner starts"), url)
}
