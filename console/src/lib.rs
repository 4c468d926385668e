//! The console: orders, money and trouble in a browser. Invariants: it has no engines and no keys
//! of partners; each page is made from the answers of admin listeners, which it asks with the token
//! of the person who is logged in; it keeps nothing about a person but a sealed cookie in their
//! browser, so that any process with the same session key serves them.
//!
//! `session` is that cookie, `gate` what every request passes, `listeners` which admin listeners
//! there are, `client` how they are asked, `page` the frame of a page. `login`, `overview`,
//! `orders`, `order`, `stuck`, `search`, `findings`, `finding`, `days`, `day`, `preview`,
//! `quarantine`, `notice`, `bytes`, `partners`, `partner`, `builds`, `people` and `help` are the
//! pages, `decide`, `compare` and `upload` what people send from them. `csv_file` gives a list away
//! as a file, and `freshness` says whether orders are up to date.
#![warn(missing_docs)]
#![cfg_attr(not(test), warn(unreachable_pub))]

mod alerts;
mod builds;
mod bytes;
mod choice;
mod client;
mod compare;
mod csv_file;
mod day;
mod days;
mod decide;
mod failure;
mod field;
mod finding;
mod finding_row;
mod findings;
mod freshness;
mod gate;
mod help;
mod listeners;
mod login;
mod notice;
mod order;
mod order_flags;
mod orders;
mod overview;
mod page;
mod partner;
mod partners;
mod people;
mod preview;
mod problem;
mod quarantine;
mod redirect;
mod refused;
mod search;
mod session;
mod stuck;
mod subject;
mod system;
mod table;
mod text;
mod typed_reason;
mod upload;
mod verdict;
mod visit;

use std::sync::Mutex;

use actix_web::cookie::Key;
use actix_web::middleware::from_fn;
use actix_web::web::{self, Data, FormConfig, PayloadConfig, QueryConfig, ServiceConfig};
use payfold_schemas::time::Time;
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

use crate::client::ApiClient;
use crate::freshness::LastFreshness;
use crate::listeners::Listeners;

/// The bytes of a session key.
pub const SESSION_KEY_BYTES: usize = 64;
/// The largest form, in bytes: a page of findings ticked twice, a reason of 1,000 characters, and
/// to spare.
const POST_BYTES_MAX: usize = 64 * 1_024;

/// What the console needs to know.
pub struct ConsoleSettings {
    /// The admin listeners to ask, each `http://host:port`; a name stands for one at each of its
    /// addresses. A call goes to the first that has the role for it.
    pub admin_urls: Vec<String>,
    /// The address that browsers reach it at; `None` for the listener's own, on this machine only.
    pub url: Option<url::Url>,
    /// The port of its listener. Cookies of this machine have it in their name, because browsers
    /// send a cookie to every port of a host.
    pub port: u16,
    /// Seals sessions. Every process of one console has the same.
    pub session_key: Zeroizing<Vec<u8>>,
    /// The log-in of the demo's user: a code that works once, and the token it stands for.
    pub first_login: Option<FirstLogin>,
    /// Reads the clock.
    pub now: fn() -> Time,
}

/// A code that logs a person in once.
pub struct FirstLogin {
    /// The code.
    pub code: String,
    /// The admin token that it stands for.
    pub token: Zeroizing<String>,
}

/// The console of a process.
pub struct Console {
    client: ApiClient,
    url: Option<url::Url>,
    cookie_name: String,
    key: Key,
    first_login: Mutex<Option<FirstLogin>>,
    logins: Semaphore,
    freshness: LastFreshness,
    /// Whether browsers reach it over TLS.
    is_secure: bool,
    now: fn() -> Time,
}

impl Console {
    /// Makes a console. Errors: the system's certificates can't be read.
    ///
    /// # Panics
    ///
    /// The session key is shorter than `SESSION_KEY_BYTES`.
    pub fn new(settings: ConsoleSettings) -> Result<Self, reqwest::Error> {
        let is_secure = settings.url.as_ref().is_some_and(|url| url.scheme() == "https");
        Ok(Self {
            client: ApiClient::new(Listeners::new(&settings.admin_urls))?,
            // With the prefix browsers keep a cookie for this host and this scheme alone; they
            // refuse it without TLS.
            cookie_name: match is_secure {
                true => "__Host-payfold".to_owned(),
                false => format!("console_{}", settings.port),
            },
            is_secure,
            url: settings.url,
            key: Key::from(&settings.session_key),
            first_login: Mutex::new(settings.first_login),
            logins: Semaphore::new(login::LOGINS_MAX),
            freshness: LastFreshness::default(),
            now: settings.now,
        })
    }
}

/// The path of files, which take longer than a page.
pub const UPLOADS: &str = compare::FILES;

/// Registers the routes below `UPLOADS`.
pub fn upload_routes(console: &Data<Console>, config: &mut ServiceConfig) {
    let pages = web::scope("")
        .wrap(from_fn(gate::pass))
        .route("", web::post().to(upload::take))
        .route("/{ticket}", web::get().to(preview::show))
        .route("/{ticket}", web::post().to(preview::compare))
        .default_service(web::to(problem::nowhere));
    config.configure(|config| readers(console, config)).service(pages);
}

/// Registers the other routes.
pub fn routes(console: &Data<Console>, config: &mut ServiceConfig) {
    let pages = web::scope("")
        .wrap(from_fn(gate::pass))
        .route("/", web::get().to(overview::show))
        .route("/style.css", web::get().to(page::style))
        .route("/icon.svg", web::get().to(page::icon))
        .route(page::SCRIPT_PATH, web::get().to(page::script))
        .route(page::MORPH_PATH, web::get().to(page::morph))
        .route(redirect::LOGIN, web::get().to(login::show))
        .route(redirect::LOGIN, web::post().to(login::log_in))
        .route("/logout", web::post().to(login::log_out))
        .route("/search", web::get().to(search::find))
        .route("/orders", web::get().to(orders::list))
        .route(orders::FILE, web::get().to(orders::file))
        .route(stuck::STUCK_PATH, web::get().to(stuck::list))
        .route(stuck::FILE, web::get().to(stuck::file))
        .route("/days", web::get().to(days::list))
        .route(days::FILE, web::get().to(days::file))
        .route("/days/{partner}/{day}", web::get().to(day::show))
        .route("/days/{partner}/{day}/report", web::get().to(day::report))
        .route("/days/{partner}/{day}/close", web::post().to(day::close))
        .route(compare::QUERIES, web::post().to(compare::query))
        .route("/comparisons/{ticket}", web::get().to(compare::show))
        .route("/findings", web::get().to(findings::list))
        .route(findings::FILE, web::get().to(findings::file))
        .route("/findings/{finding}", web::get().to(finding::show))
        .route("/quarantine", web::get().to(quarantine::list))
        .route(quarantine::FILE, web::get().to(quarantine::file))
        .route("/quarantine/{position}", web::get().to(notice::show))
        .route("/partners", web::get().to(partners::list))
        .route("/partners/{partner}", web::get().to(partner::show))
        .route(builds::BUILDS_PATH, web::get().to(builds::show))
        .route(builds::BUILDS_PATH, web::post().to(builds::change))
        .route(people::PEOPLE, web::get().to(people::show))
        .route(people::FILE, web::get().to(people::file))
        .route(help::INDEX, web::get().to(help::index))
        .route("/help/{page:.+}", web::get().to(help::show))
        .route("/bytes/{topic}/{position}", web::get().to(bytes::ask))
        .route("/bytes/{topic}/{position}", web::post().to(bytes::show))
        .route(decide::DECISIONS, web::post().to(decide::decide))
        .route(decide::WITHDRAWALS, web::post().to(decide::withdraw))
        .route("/orders/{partner}/{merchant}/{order}", web::get().to(order::show))
        .default_service(web::to(problem::nowhere));
    config.configure(|config| readers(console, config)).service(pages);
}

/// What the handlers read requests with.
fn readers(console: &Data<Console>, config: &mut ServiceConfig) {
    config
        .app_data(console.clone())
        .app_data(QueryConfig::default().error_handler(failure::unread_query))
        .app_data(PayloadConfig::new(POST_BYTES_MAX))
        .app_data(FormConfig::default().limit(POST_BYTES_MAX).error_handler(failure::unread_post));
}
