//! `payfold partner new`: writes a commented profile for a new partner, and test vectors for it.

use std::path::Path;

use anyhow::Context;
use payfold_partners::profile::{Profile, STARTERS, ShippedProfile, StarterProfile};
use payfold_schemas::ids::PartnerCode;

use crate::args::NewPartnerArgs;
use crate::error::{Fixable, is_there};
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
    let vectors = vectors.map(|text| (args.dir.join(format!("{code}.vectors.json")), text));
    // All or nothing: a second try would meet what the first has written.
    for path in [Some(&path), vectors.as_ref().map(|(path, _)| path)].into_iter().flatten() {
        if is_there(path)? {
            return Err(exists_already(path));
        }
    }
    write_new(&path, &format!("#:schema ./{SCHEMA}\n{profile}"))?;
    output::line(&format!("profile  {}", path.display()));
    let schema = args.dir.join(SCHEMA);
    if !is_there(&schema)? {
        write_new(&schema, &super::source::schema())?;
        output::line(&format!("schema   {}", schema.display()));
    }
    if let Some((path, text)) = &vectors {
        write_new(path, text)?;
        output::line(&format!("vectors  {}", path.display()));
    }
    let path = path.display();
    let with_vectors = |step: String| Some(step).filter(|_| vectors.is_some());
    let sample = if vectors.is_some() { ", and put its sample into the vectors" } else { "" };
    let steps = [
        Some(format!("adapt the profile to the partner's documentation{sample}")),
        with_vectors(format!("payfold partner vectors {code} --profile {path}")),
        Some(format!(
            "in payfold.toml, below [partners.{code}]: profile = \"{path}\", and api_url = \"…\" \
             if the profile has [create] or [query]"
        )),
        Some(format!("payfold key add {code} --merchant <merchantCode> --secret-file <file>")),
        Some(format!(
            "the partner sends notices to /api/payment/ipn/{code}; payfold partner explain {code} \
             says why one is refused"
        )),
        with_vectors(format!(
            "if the profile has [create]: payfold partner draft {code} shows the request"
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

fn exists_already(path: &Path) -> anyhow::Error {
    Fixable::error(
        format!("{} exists already", path.display()),
        "move it away, or choose another folder with --dir",
    )
}

/// Writes a new file. Errors: it exists already.
fn write_new(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create_new(true).open(path);
    let mut file = match file {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(exists_already(path));
        }
        other => other.with_context(|| format!("{} can't be written", path.display()))?,
    };
    std::io::Write::write_all(&mut file, text.as_bytes())?;
    Ok(())
}
