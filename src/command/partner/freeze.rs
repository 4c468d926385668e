//! Moves a profile from stage to stage, and keeps what was frozen. The frozen copy stands beside the profile as
//! `<name>.v<version>.frozen`, travels with it, and is what a profile of stage frozen or live must be the same as.

use std::path::{Path, PathBuf};

use payfold_partners::profile::{Profile, Stage};
use payfold_sandbox::certify::report;
use serde_json::Value;

use super::Source;
use super::show::stage_name;
use crate::args::PromoteTo;
use crate::error::{DifferencesFound, Fixable};
use crate::frozen;
use crate::output;

pub(super) fn freeze(source: &Source) -> anyhow::Result<()> {
    let (path, profile) = (source.file()?, source.profile()?);
    let version = profile.stamp().version;
    let copy = frozen::copy_of(path, version);
    if copy.exists() {
        let kept = std::fs::read_to_string(&copy)?;
        if frozen::is_same(&kept, &source.text) {
            output::line(&format!("version {version} is frozen already in {}", copy.display()));
            return Ok(());
        }
        return Err(Fixable::error(
            format!(
                "version {version} was frozen with other content:\n{}",
                frozen::difference(&kept, &source.text)
            ),
            "count version up in the profile, then freeze that",
        ));
    }
    let text = with_stage(source, Stage::Frozen)?;
    write(&copy, &text)?;
    write(path, &text)?;
    let digest = payfold_schemas::digest::Digest::of_bytes(text.as_bytes());
    output::line(&format!("frozen: version {version}, digest {digest}"));
    output::line(&format!("copy:   {}", copy.display()));
    Ok(())
}

/// What speaks for a profile that goes live.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proof<'a> {
    /// A certification's report.
    pub(super) report: Option<&'a Path>,
    /// Why it goes live without one.
    pub(super) uncertified: Option<&'a str>,
}

pub(super) fn promote(source: &Source, to: PromoteTo, proof: Proof<'_>) -> anyhow::Result<()> {
    let (path, profile) = (source.file()?, source.profile()?);
    let (from, to) = match to {
        PromoteTo::Sandbox => (Stage::Draft, Stage::Sandbox),
        PromoteTo::Live => (Stage::Frozen, Stage::Live),
    };
    if profile.stage() != from {
        return Err(Fixable::error(
            format!("the profile is at stage {}, not {}", stage_name(profile.stage()), stage_name(from)),
            match to {
                Stage::Live => format!("freeze it first: payfold partner freeze {}", source.code),
                _ => "a stage is only gone through once; count version up and write stage = \"draft\" to begin again".to_owned(),
            },
        ));
    }
    if to == Stage::Live {
        frozen::check(path, &profile, &source.text)?;
        output::line(&proven(source, &profile, proof)?);
    }
    write(path, &with_stage(source, to)?)?;
    output::line(&format!("{} is at stage {} now; restart what runs", source.code, stage_name(to)));
    Ok(())
}

/// What is to be said of how this profile was tried. Errors: it was not, or the report is not of it.
fn proven(source: &Source, profile: &Profile, proof: Proof<'_>) -> anyhow::Result<String> {
    let file = match (proof.report, proof.uncertified) {
        (Some(file), _) => file,
        (None, Some(reason)) => return Ok(format!("not certified: {reason}")),
        (None, None) if profile.scheme().is_some() => {
            return Ok(
                "certification is for the contract's scheme; this partner has its own".to_owned()
            );
        }
        (None, None) => {
            return Err(Fixable::error(
                "a profile goes live with the report of its certification",
                format!(
                    "payfold partner certify {} --url … --report FILE, then promote with --report FILE; or say why not \
                     with --uncertified REASON",
                    source.code
                ),
            ));
        }
    };
    let text = std::fs::read(file)
        .map_err(|error| anyhow::anyhow!("{} can't be read: {error}", file.display()))?;
    let verified = report::verify(&text)
        .map_err(|error| anyhow::anyhow!("{} proves nothing: {error}", file.display()))?;
    let body = Value::Object(verified.report);
    let said = |pointer| body.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let digest = profile.stamp().digest.to_string();
    if said("/partner") != source.code.to_string() || said("/profile/digest") != digest {
        return Err(Fixable::error(
            format!(
                "{} is about {} with digest {}; this profile is {} with digest {digest}",
                file.display(),
                said("/partner"),
                said("/profile/digest"),
                source.code
            ),
            "certify the profile as it is frozen now",
        ));
    }
    if said("/verdict") != "passed" {
        return Err(Fixable::error(
            format!("{} says {}", file.display(), said("/verdict")),
            "mend what failed and certify again, or say why it goes live all the same with --uncertified REASON",
        ));
    }
    Ok(format!(
        "certified: passed {} at {}, signed by {}",
        said("/finishedAt"),
        said("/apiUrl"),
        hex::encode(verified.public_key)
    ))
}

pub(super) fn diff(source: &Source, against: Option<&Path>) -> anyhow::Result<()> {
    let version = source.profile()?.stamp().version;
    let other: PathBuf = match against {
        Some(file) => file.to_owned(),
        None => frozen::copy_of(source.file()?, version),
    };
    let kept = std::fs::read_to_string(&other).map_err(|error| {
        Fixable::error(
            format!("{} can't be read: {error}", other.display()),
            "freeze the profile first, or name a file with --against",
        )
    })?;
    if frozen::is_same(&kept, &source.text) {
        output::line(&format!("the same as {} (but for the stage)", other.display()));
        return Ok(());
    }
    output::line(&frozen::difference(&kept, &source.text));
    Err(anyhow::Error::new(DifferencesFound))
}

/// The profile's text with another stage, all else as it stands.
fn with_stage(source: &Source, stage: Stage) -> anyhow::Result<String> {
    let is_stage = |line: &str| frozen::is_stage_line(line);
    if source.text.lines().filter(|line| is_stage(line)).count() != 1 {
        return Err(Fixable::error(
            "the profile has no line of its own for the stage",
            "write stage = \"…\" on a line of its own before the first section",
        ));
    }
    let line = format!("stage = \"{}\"", stage_name(stage));
    Ok(frozen::with_stage_line(&source.text, &line))
}

/// Writes a file whole or not at all.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}
