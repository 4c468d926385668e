//! Owns the partner beside programs under test, in this process: it outlives every kill and records
//! every create call. It also has the keys of its account and of the shop.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use actix_web::dev::ServerHandle;
use actix_web::{App, HttpServer};
use payfold_engines::clock::{Clock, SystemClock};
use payfold_partners::document::{AccountEntry, NewKey};
use payfold_partners::keys::Channel;
use payfold_partners::secret::Secret;
use payfold_partners::shops::{ShopAccount, ShopToken};
use payfold_partners::vault::Vault;
use payfold_sandbox::{Sandbox, SandboxAccount, SandboxSettings};
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{KeyId, MerchantCode, PartnerCode, ShopName};

/// What the account's notices are signed with.
pub const SECRET: &str = "a test key of the sandbox, worth nothing at all";
/// What the shop shows.
pub const TOKEN: &str = "a test token of the shop, worth nothing at all";

/// The partner's code.
pub fn code() -> PartnerCode {
    PartnerCode::parse("sandbox").expect("a code")
}

fn merchant() -> MerchantCode {
    MerchantCode::parse("DEMO").expect("a code")
}

fn secret() -> Secret {
    Secret::from_bytes(SECRET.as_bytes().to_vec())
}

/// The account at the partner.
pub fn account() -> SandboxAccount {
    SandboxAccount { merchant_code: merchant(), key: secret() }
}

/// Makes a vault with the account's key and the shop's token.
pub fn fill_vault(data: &Path) {
    let now = SystemClock.now();
    let partner = code();
    let merchant_code = merchant();
    let mut account = AccountEntry::new(partner.clone(), merchant_code.clone());
    let key = NewKey {
        id: KeyId::parse("k").expect("an id"),
        channel: Channel::Ipn,
        secret: secret(),
        valid_from: now.plus_ms(-60_000),
        overlap_ms: 0,
        created_at: now,
    };
    account.add_key(key).expect("the first key");
    let mut vault = Vault::create(data).expect("a vault can be made");
    let document = vault.document_mut();
    document.add_account(account).expect("the first account");
    let token = ShopToken {
        sha256: Digest::of_bytes(TOKEN.as_bytes()),
        created_at: now,
        valid_until: None,
    };
    let name = ShopName::parse("web").expect("a name");
    document.add_shop_token(&name, &[ShopAccount { partner, merchant_code }], token, 0);
    vault.save().expect("the folder can be written");
}

/// The partner on its own thread, with its own runtime.
pub fn serve(socket: TcpListener, settings: SandboxSettings) -> (Sandbox, ServerHandle) {
    let (made, making) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        actix_web::rt::System::new().block_on(async move {
            let sandbox = Sandbox::new(settings, Arc::new(SystemClock)).expect("a partner");
            let serving = sandbox.clone();
            let server = HttpServer::new(move || {
                let serving = serving.clone();
                App::new().configure(move |config| serving.routes(config))
            })
            .workers(1)
            .disable_signals()
            .listen(socket)
            .expect("the socket is ours")
            .run();
            made.send((sandbox, server.handle())).expect("the test waits for it");
            server.await.expect("the partner serves until its end");
        });
    });
    making.recv().expect("the partner starts")
}
