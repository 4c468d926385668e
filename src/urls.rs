//! Owns the base URLs of a running system for partners, browsers and this process.

use std::net::TcpListener;

use crate::error::Fixable;
use crate::listener::url;
use crate::roles::Roles;
use crate::settings::Settings;

/// Base URLs of the public listener and of the sandbox partner.
pub(crate) struct Urls {
    pub(crate) public: String,
    pub(crate) sandbox: Option<String>,
}

impl Urls {
    pub(crate) fn of(
        settings: &Settings,
        public: Option<&TcpListener>,
        sandbox: Option<&TcpListener>,
        roles: Roles,
    ) -> anyhow::Result<Self> {
        let public = match (public, settings.public_url.trim_end_matches('/')) {
            (Some(socket), "") => url(socket)?,
            (None, "") if roles.checkout => {
                return Err(Fixable::error(
                    "checkout needs an address for partners' notices, and this process has no \
                        public listener",
                    "set public_url in payfold.toml to the address at which partners reach the \
                        ingest role",
                ));
            }
            (_, set) => set.to_owned(),
        };
        let sandbox = sandbox.map(url).transpose()?;
        Ok(Self { public, sandbox })
    }
}
