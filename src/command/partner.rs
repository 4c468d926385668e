//! `payfold partner`: profiles of partners from the first draft to live, and explanations of
//! answers to requests.

mod certify;
mod draft;
mod explain;
mod freeze;
mod new;
mod records;
mod request;
mod show;
mod source;
mod vectors;
mod verify;

use self::source::{ProfileSource, schema};
use crate::args::{Global, PartnerCommand};
use crate::{output, settings};

/// Runs one of its commands.
pub(crate) fn run(global: &Global, command: &PartnerCommand) -> anyhow::Result<()> {
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
        PartnerCommand::Show(args) => {
            show::show(&ProfileSource::of(&settings::load(global)?, args)?)
        }
        PartnerCommand::Explain(args) => explain::run(&settings::load(global)?, args),
        PartnerCommand::Draft(args) => draft::run(&settings::load(global)?, args),
        PartnerCommand::Vectors(args) => {
            let source = ProfileSource::of(&settings::load(global)?, &args.profile)?;
            vectors::run(&source, args)
        }
        PartnerCommand::Records(args) => {
            records::run(&ProfileSource::of(&settings::load(global)?, &args.profile)?, args)
        }
        PartnerCommand::Diff { profile, against } => {
            freeze::diff(&ProfileSource::of(&settings::load(global)?, profile)?, against.as_deref())
        }
        PartnerCommand::Freeze(args) => {
            freeze::freeze(&ProfileSource::of(&settings::load(global)?, args)?)
        }
        PartnerCommand::Promote { profile, to, report, uncertified } => {
            let proof = freeze::CertificationProof {
                report: report.as_deref(),
                uncertified: uncertified.as_deref(),
            };
            freeze::promote(&ProfileSource::of(&settings::load(global)?, profile)?, *to, proof)
        }
    }
}
