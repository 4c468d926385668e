//! `payfold partner new`: writes a commented profile for a new partner, and test vectors for it.

use std::path::Path;

use anyhow::Context;
use payfold_partners::profile::{Profile, STARTERS, ShippedProfile, StarterProfile};
use payfold_schemas::ids::PartnerCode;

use crate::args::NewPartnerArgs;
use crate::error::Fixable;
use crate::output;

/// The file name of the JSON Schema with which editors check a profile; it is written beside the
/// profile.
const SCHEMA: &str = "profile.schema.json";

pub(super) fn run(args: &NewPartnerArgs) -> anyhow::Result<()> {
    let code = PartnerCode::parse(&args.partner)?;
    let (profile, vectors) = texts(&args.from)?;
    // The written profile must be valid for this partner code.
    Profile::parse(&code, profile)?;
    let path = args.dir.join(format!("{code}.toml"));
    write_new(&path, &format!("#:schema ./{SCHEMA}\n{profile}"))?;
    output::line(&format!("profile  {}", path.display()));
    let schema = args.dir.join(SCHEMA);
    if !schema.exists() {
        write_new(&schema, &super::source::schema())?;
        output::line(&format!("schema   {}", schema.display()));
    }
    if let Some(vectors) = vectors {
        let path = args.dir.join(format!("{code}.vectors.json"));
        write_new(&path, vectors)?;
        output::line(&format!("vectors  {}", path.display()));
    }
    let path = path.display();
    let with_vectors = |step: String| Some(step).filter(|_| vectors.is_some());
    let steps = [
        Some(
            "adapt the profile to the partner's documentation, and put its sample into the vectors"
                .to_owned(),
        ),
        with_vectors(format!("payfold partner vectors {code} --profile {path}")),
        Some(format!("in payfold.toml: [partners.{code}] profile = \"{path}\"")),
        Some(format!("payfold key add {code} --merchant <merchantCode> --secret-file <file>")),
        Some(format!(
            "the partner sends notices to /api/payment/ipn/{code}; payfold partner explain {code} \
             says why one is refused"
        )),
        with_vectors(format!(
            "if the profile has [create]: set api_url in payfold.toml; payfold partner draft \
             {code} shows the request"
        )),
    ];
    output::line("\nnext:");
    for (number, step) in steps.into_iter().flatten().enumerate() {
        output::line(&format!("  {}. {step}", number + 1));
    }
    Ok(())
}

fn texts(name: &str) -> anyhow::Result<(&'static str, Option<&'static str>)> {
    if name == "contract" {
        return Ok((payfold_partners::profile::DEFAULT_PROFILE, None));
    }
    if let Some(StarterProfile { profile, vectors, .. }) = StarterProfile::of(name) {
        return Ok((profile, Some(vectors)));
    }
    if let Some(ShippedProfile { profile, vectors, .. }) = ShippedProfile::of(name) {
        return Ok((profile, Some(vectors)));
    }
    let starters = STARTERS.iter().map(|starter| starter.name);
    let shipped = payfold_partners::profile::SHIPPED.iter().map(|shipped| shipped.name);
    let known: Vec<_> = ["contract"].into_iter().chain(starters).chain(shipped).collect();
    Err(Fixable::error(
        format!("the starter {name} does not exist"),
        format!("use one of {}", known.join(", ")),
    ))
}

/// Writes a new file. Errors: it exists already.
fn write_new(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create_new(true).open(path);
    let mut file = match file {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(Fixable::error(
                format!("{} exists already", path.display()),
                "move it away, or choose another folder with --dir",
            ));
        }
        other => other.with_context(|| format!("{} can't be written", path.display()))?,
    };
    std::io::Write::write_all(&mut file, text.as_bytes())?;
    Ok(())
}
