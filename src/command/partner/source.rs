//! Owns the source of a profile's text: a configured partner, a file, or a profile that is shipped
//! with the program.

use std::path::PathBuf;

use anyhow::Context;
use payfold_partners::profile::{DEFAULT_PROFILE, Profile, SANDBOX_PROFILE, ShippedProfile};
use payfold_schemas::ids::PartnerCode;

use crate::args::ProfileArgs;
use crate::error::Fixable;
use crate::settings::Loaded;

/// A profile's text, and its source.
pub(crate) struct ProfileSource {
    pub(super) code: PartnerCode,
    pub(super) text: String,
    /// `None` for a shipped profile.
    pub(super) path: Option<PathBuf>,
    pub(super) shipped: Option<ShippedProfile>,
}

impl ProfileSource {
    /// Reads the profile that the arguments name. Errors: it does not exist.
    pub(super) fn of(loaded: &Loaded, args: &ProfileArgs) -> anyhow::Result<Self> {
        let code = PartnerCode::parse(&args.partner)?;
        let configured = loaded.settings.partners.get(&args.partner).map(|p| p.profile.clone());
        let name = match &args.profile {
            Some(file) => file.display().to_string(),
            None => configured.unwrap_or_else(|| args.partner.clone()),
        };
        let shipped = match name.as_str() {
            "default" => Some(DEFAULT_PROFILE),
            "sandbox" => Some(SANDBOX_PROFILE),
            _ => ShippedProfile::of(&name).map(|shipped| shipped.profile),
        };
        if let Some(text) = shipped.filter(|_| args.profile.is_none()) {
            return Ok(Self {
                code,
                text: text.to_owned(),
                path: None,
                shipped: ShippedProfile::of(&name),
            });
        }
        let path = PathBuf::from(&name);
        if args.profile.is_none() && !loaded.settings.partners.contains_key(&args.partner) {
            return Err(Fixable::error(
                format!("partner {} is not configured", args.partner),
                format!(
                    "add [partners.{}] to payfold.toml, or give a file with --profile",
                    args.partner
                ),
            ));
        }
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("the profile {name} can't be read"))?;
        Ok(Self { code, text, path: Some(path), shipped: None })
    }

    pub(super) fn profile(&self) -> anyhow::Result<Profile> {
        let parsed = Profile::parse(&self.code, &self.text);
        match &self.path {
            None => Ok(parsed?),
            Some(path) => {
                parsed.with_context(|| format!("{} is not a valid profile", path.display()))
            }
        }
    }

    /// The profile's file, to change it. Errors: the profile is shipped with the program.
    pub(super) fn file(&self) -> anyhow::Result<&PathBuf> {
        self.path.as_ref().ok_or_else(|| {
            Fixable::error(
                format!(
                    "the profile of {} is shipped with the program and can't be changed",
                    self.code
                ),
                format!(
                    "make a copy: payfold partner new {0} --from {1}, then set profile \
                     = \"{0}.toml\" in [partners.{0}]",
                    self.code,
                    self.shipped.map_or("contract", |shipped| shipped.name),
                ),
            )
        })
    }
}

/// The JSON Schema of profiles as text.
pub(super) fn schema() -> String {
    format!("{:#}\n", payfold_partners::scheme::profile_schema())
}
