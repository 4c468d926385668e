//! `payfold partner`: profiles as files, from the first draft to live, and why a request got its answer.

mod certify;
mod draft;
mod explain;
mod freeze;
mod new;
mod records;
mod request;
mod show;
mod vectors;
mod verify;

pub(super) use show::stage_name;

use std::path::PathBuf;

use anyhow::Context;
use payfold_partners::profile::{DEFAULT_PROFILE, Profile, SANDBOX_PROFILE, Shipped};
use payfold_schemas::ids::PartnerCode;

use crate::args::{Global, PartnerCommand, ProfileArgs};
use crate::error::Fixable;
use crate::output;
use crate::settings::{self, Loaded};

/// Runs one of its commands.
pub fn run(global: &Global, command: &PartnerCommand) -> anyhow::Result<()> {
    match command {
        PartnerCommand::Certify(args) => match &args.verify {
            Some(file) => verify::run(global, args, file),
            None => certify::run(global, args),
        },
        PartnerCommand::New(args) => new::run(args),
        PartnerCommand::Schema => {
            output::line(schema().trim_end());
            Ok(())
        }
        PartnerCommand::List { output } => show::list(&settings::load(global)?, output),
        PartnerCommand::Show(args) => show::show(&Source::of(&settings::load(global)?, args)?),
        PartnerCommand::Explain(args) => explain::run(&settings::load(global)?, args),
        PartnerCommand::Draft(args) => draft::run(&settings::load(global)?, args),
        PartnerCommand::Vectors(args) => {
            let source = Source::of(&settings::load(global)?, &args.profile)?;
            vectors::run(&source, args)
        }
        PartnerCommand::Records(args) => {
            records::run(&Source::of(&settings::load(global)?, &args.profile)?, args)
        }
        PartnerCommand::Diff { profile, against } => {
            freeze::diff(&Source::of(&settings::load(global)?, profile)?, against.as_deref())
        }
        PartnerCommand::Freeze(args) => {
            freeze::freeze(&Source::of(&settings::load(global)?, args)?)
        }
        PartnerCommand::Promote { profile, to, report, uncertified } => {
            let proof =
                freeze::Proof { report: report.as_deref(), uncertified: uncertified.as_deref() };
            freeze::promote(&Source::of(&settings::load(global)?, profile)?, *to, proof)
        }
    }
}

/// The JSON Schema of profiles, as a file.
fn schema() -> String {
    format!("{:#}\n", payfold_partners::scheme::profile_schema())
}

/// A profile's text and where it comes from.
pub struct Source {
    code: PartnerCode,
    text: String,
    /// None for a shipped one.
    path: Option<PathBuf>,
    shipped: Option<Shipped>,
}

impl Source {
    /// The profile of a configured partner, of a file, or a shipped one. Errors: there is none of that name.
    fn of(loaded: &Loaded, args: &ProfileArgs) -> anyhow::Result<Self> {
        let code = PartnerCode::parse(&args.partner)?;
        let configured = loaded.settings.partners.get(&args.partner).map(|p| p.profile.clone());
        let name = match &args.profile {
            Some(file) => file.display().to_string(),
            None => configured.unwrap_or_else(|| args.partner.clone()),
        };
        let shipped = match name.as_str() {
            "default" => Some(DEFAULT_PROFILE),
            "sandbox" => Some(SANDBOX_PROFILE),
            _ => Shipped::of(&name).map(|shipped| shipped.profile),
        };
        if let Some(text) = shipped.filter(|_| args.profile.is_none()) {
            return Ok(Self {
                code,
                text: text.to_owned(),
                path: None,
                shipped: Shipped::of(&name),
            });
        }
        let path = PathBuf::from(&name);
        if args.profile.is_none() && !loaded.settings.partners.contains_key(&args.partner) {
            return Err(Fixable::error(
                format!("there is no partner {}", args.partner),
                format!(
                    "put [partners.{}] into payfold.toml, or name a file with --profile",
                    args.partner
                ),
            ));
        }
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("the profile {name} can't be read"))?;
        Ok(Self { code, text, path: Some(path), shipped: None })
    }

    fn profile(&self) -> anyhow::Result<Profile> {
        let parsed = Profile::parse(&self.code, &self.text);
        match &self.path {
            None => Ok(parsed?),
            Some(path) => parsed.with_context(|| format!("{} is no profile", path.display())),
        }
    }

    /// The file, to change it. Errors: it is shipped with the program.
    fn file(&self) -> anyhow::Result<&PathBuf> {
        self.path.as_ref().ok_or_else(|| {
            Fixable::error(
                format!("the profile of {} is one that comes with the program", self.code),
                format!(
                    "make it yours: payfold partner new {0} --from {1}, then profile = \"{0}.toml\" in [partners.{0}]",
                    self.code,
                    self.shipped.map_or("contract", |shipped| shipped.name),
                ),
            )
        })
    }
}
