//! Builds the console role: the admin listeners it asks, the key that seals its sessions, and the
//! demo's first log-in.

use std::fs;
use std::net::TcpListener;
use std::sync::Arc;

use actix_web::middleware::from_fn;
use actix_web::web::{self, Data};
use anyhow::Context;
use payfold_console::{
    Console, ConsoleSettings, FirstLogin, SESSION_KEY_BYTES, UPLOADS, upload_routes,
};
use payfold_engines::clock::{Clock, SystemClock};
use payfold_partners::remote::install_tls;
use payfold_partners::vault::random_secret;
use url::{Host, Url};
use zeroize::Zeroizing;

use super::Assembly;
use crate::body;
use crate::data_dir::write_private;
use crate::error::{Fixable, unreadable};
use crate::listener::{self, Routes};
use crate::roles::Roles;
use crate::wiring::Need;

/// The random bytes of a code that logs in once.
const CODE_BYTES: usize = 16;

/// The console of a process.
pub(crate) struct AssembledConsole {
    pub(crate) routes: Routes,
    /// A link that logs the demo's user in once.
    pub(crate) login_link: Option<String>,
}

impl Assembly<'_> {
    /// The console on this socket; `None` without one. Errors: it can't be served so, or its key
    /// can't be read.
    pub(crate) fn console(
        &self,
        socket: Option<&TcpListener>,
        own_admin_url: &str,
        roles: Roles,
    ) -> anyhow::Result<Option<AssembledConsole>> {
        let Some(socket) = socket else { return Ok(None) };
        install_tls();
        let first_login = if self.opened.demo { Some(self.first_login()?) } else { None };
        let address = listener::url(socket)?;
        let login_link =
            first_login.as_ref().map(|first| format!("{address}/login?code={}", first.code));
        let console = Console::new(ConsoleSettings {
            admin_urls: self.admin_urls(own_admin_url, roles)?,
            url: self.console_url(socket)?,
            port: socket.local_addr()?.port(),
            session_key: self.session_key()?,
            first_login,
            now: || SystemClock.now(),
        });
        let console = Data::new(console.context("the system's certificates")?);
        let routes: Routes = Arc::new(move |config| {
            let uploads = web::scope(UPLOADS).wrap(from_fn(body::without_pauses));
            config.service(uploads.configure(|config| upload_routes(&console, config)));
            let pages = web::scope("").wrap(from_fn(body::in_time));
            config.service(pages.configure(|config| payfold_console::routes(&console, config)));
        });
        Ok(Some(AssembledConsole { routes, login_link }))
    }

    /// The admin listeners to ask. Errors: none is configured, and this process has no orders.
    fn admin_urls(&self, own: &str, roles: Roles) -> anyhow::Result<Vec<String>> {
        let set = &self.opened.settings.console.admin_urls;
        if set.is_empty() && roles.need() != Need::Both {
            return Err(Fixable::error(
                "console.admin_urls is empty, and this process has no orders to show",
                "set it to the admin listeners of every process, the reconciler and projector \
                 roles among them, such as [\"http://10.0.0.5:9464\"]",
            ));
        }
        let mut urls: Vec<String> =
            set.iter().map(|url| url.trim_end_matches('/').to_owned()).collect();
        for url in &urls {
            let is_http = Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
            if !is_http {
                return Err(Fixable::error(
                    format!("console.admin_urls: {url} is no http or https address"),
                    "write it as http://HOST:PORT",
                ));
            }
        }
        if urls.is_empty() {
            urls.push(own.to_owned());
        }
        Ok(urls)
    }

    /// The address that browsers reach the console at; `None` for its own, on this machine. Errors:
    /// tokens would cross a network in the clear.
    fn console_url(&self, socket: &TcpListener) -> anyhow::Result<Option<Url>> {
        let set = &self.opened.settings.console.url;
        let is_of_this_machine = socket.local_addr()?.ip().is_loopback();
        if set.is_empty() && is_of_this_machine {
            return Ok(None);
        }
        let url = Url::parse(set).ok();
        // A container's port is published on the machine that tries it.
        let is_tried = self.opened.settings.dev && url.as_ref().is_some_and(leads_to_this_machine);
        let is_safe = is_tried || url.as_ref().is_some_and(|url| url.scheme() == "https");
        if !is_of_this_machine && !is_safe {
            return Err(Fixable::error(
                format!(
                    "listen_console = {} is reached over a network, where people's tokens need TLS",
                    self.opened.settings.listen_console
                ),
                "put TLS in front of it (a reverse proxy) and set console.url to the https address \
                 that browsers use, or listen on 127.0.0.1",
            ));
        }
        let url = url.filter(|url| {
            url.scheme() == "https" || (url.scheme() == "http" && leads_to_this_machine(url))
        });
        url.map(Some).ok_or_else(|| {
            Fixable::error(
                format!("console.url = \"{set}\" is no https address"),
                "write the address that browsers use, such as https://payfold.example.com",
            )
        })
    }

    /// The key that seals sessions; made at the first start.
    fn session_key(&self) -> anyhow::Result<Zeroizing<Vec<u8>>> {
        let set = &self.opened.settings.console.session_key_file;
        let path = if set.is_empty() { self.opened.data.console_key() } else { set.into() };
        // Processes that share the folder may start together: one makes the key.
        let alone = fs::File::create(self.opened.data.file("vault.starting"));
        let _alone = alone.and_then(|file| file.lock().map(|()| file));
        if set.is_empty() && !path.exists() {
            let mut key = Zeroizing::new(String::new());
            while key.len() < 2 * SESSION_KEY_BYTES {
                key.push_str(&Zeroizing::new(hex::encode(random_secret()?.expose())));
            }
            write_private(&path, key.as_bytes())?;
        }
        let text =
            Zeroizing::new(fs::read_to_string(&path).map_err(|error| unreadable(&path, &error))?);
        let key = hex::decode(text.trim()).ok().filter(|key| key.len() >= SESSION_KEY_BYTES);
        key.map(Zeroizing::new).ok_or_else(|| {
            Fixable::error(
                format!("{} is no key of {SESSION_KEY_BYTES} bytes in hex", path.display()),
                format!(
                    "make one (umask 077; openssl rand -hex {SESSION_KEY_BYTES} > {}); people log \
                     in again",
                    path.display()
                ),
            )
        })
    }

    /// The log-in of the demo's user.
    fn first_login(&self) -> anyhow::Result<FirstLogin> {
        let path = self.opened.data.admin_token();
        let token = fs::read_to_string(&path).map_err(|error| unreadable(&path, &error))?;
        let code = hex::encode(&random_secret()?.expose()[..CODE_BYTES]);
        Ok(FirstLogin { code, token: Zeroizing::new(token.trim().to_owned()) })
    }
}

/// Whether a URL leads to this machine.
fn leads_to_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}
