//! `payfold partner freeze|promote|diff`: moves a profile between stages and keeps its frozen copy,
//! `<name>.v<version>.frozen` beside the profile. A profile of stage frozen or live must equal this
//! copy.

use std::path::{Path, PathBuf};

use payfold_certify::report;
use payfold_partners::profile::{Profile, Stage};
use serde_json::Value;

use super::source::ProfileSource;
use crate::args::PromoteTo;
use crate::error::{DifferencesFound, Fixable};
use crate::{frozen, output};

pub(super) fn freeze(source: &ProfileSource) -> anyhow::Result<()> {
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
            "increment version in the profile, then freeze it",
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

/// The evidence with which a profile may go live: a passed report, or a reason without one.
#[derive(Clone, Copy, Debug)]
pub(super) struct CertificationProof<'a> {
    /// The report of its certification.
    pub(super) report: Option<&'a Path>,
    /// Why it goes live without a report.
    pub(super) uncertified: Option<&'a str>,
}

pub(super) fn promote(
    source: &ProfileSource,
    to: PromoteTo,
    proof: CertificationProof<'_>,
) -> anyhow::Result<()> {
    let (path, profile) = (source.file()?, source.profile()?);
    let (from, to) = match to {
        PromoteTo::Sandbox => (Stage::Draft, Stage::Sandbox),
        PromoteTo::Live => (Stage::Frozen, Stage::Live),
    };
    if profile.stage() != from {
        return Err(Fixable::error(
            format!("the profile is at stage {}, not {}", profile.stage().as_str(), from.as_str()),
            match to {
                Stage::Live => format!("freeze it first: payfold partner freeze {}", source.code),
                _ => "a version passes each stage once; to begin again, increment version and \
                    write stage = \"draft\""
                    .to_owned(),
            },
        ));
    }
    if to == Stage::Live {
        frozen::check(path, &profile, &source.text)?;
        output::line(&proven(source, &profile, proof)?);
    }
    write(path, &with_stage(source, to)?)?;
    output::line(&format!(
        "{} is at stage {} now; restart the running system",
        source.code,
        to.as_str()
    ));
    Ok(())
}

/// Checks the proof and returns a text about it. Errors: there is no proof; the report is of
/// another profile, or not passed.
fn proven(
    source: &ProfileSource,
    profile: &Profile,
    proof: CertificationProof<'_>,
) -> anyhow::Result<String> {
    let file = match (proof.report, proof.uncertified) {
        (Some(file), _) => file,
        (None, Some(reason)) => return Ok(format!("not certified: {reason}")),
        (None, None) => {
            return Err(Fixable::error(
                "a profile needs the report of its certification to go live",
                format!(
                    "run payfold partner certify {} --url … --report FILE, then promote with \
                     --report FILE; or give the reason to go live without one with --uncertified \
                     REASON",
                    source.code
                ),
            ));
        }
    };
    let text = std::fs::read(file)
        .map_err(|error| anyhow::anyhow!("{} can't be read: {error}", file.display()))?;
    let verified = report::verify_report(&text)
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
            "certify the profile again as it is frozen now",
        ));
    }
    if said("/verdict") != "passed" {
        return Err(Fixable::error(
            format!("{} says {}", file.display(), said("/verdict")),
            "correct what failed and certify again, or give the reason to go live all the same \
             with --uncertified REASON",
        ));
    }
    Ok(format!(
        "certified: passed {} at {}, signed by {}",
        said("/finishedAt"),
        said("/apiUrl"),
        hex::encode(verified.public_key)
    ))
}

pub(super) fn diff(source: &ProfileSource, against: Option<&Path>) -> anyhow::Result<()> {
    let version = source.profile()?.stamp().version;
    let other: PathBuf = match against {
        Some(file) => file.to_owned(),
        None => frozen::copy_of(source.file()?, version),
    };
    let kept = std::fs::read_to_string(&other).map_err(|error| {
        Fixable::error(
            format!("{} can't be read: {error}", other.display()),
            "freeze the profile first, or give a file with --against",
        )
    })?;
    if frozen::is_same(&kept, &source.text) {
        output::line(&format!("the same as {} (except for the stage)", other.display()));
        return Ok(());
    }
    output::line(&frozen::difference(&kept, &source.text));
    Err(anyhow::Error::new(DifferencesFound))
}

/// The profile's text with another stage. Errors: it has no stage line, or several.
fn with_stage(source: &ProfileSource, stage: Stage) -> anyhow::Result<String> {
    let is_stage = |line: &str| frozen::is_stage_line(line);
    if source.text.lines().filter(|line| is_stage(line)).count() != 1 {
        return Err(Fixable::error(
            "the profile needs exactly one line that sets the stage",
            "write stage = \"…\" on a line of its own before the first section",
        ));
    }
    let line = format!("stage = \"{}\"", stage.as_str());
    Ok(frozen::with_stage_line(&source.text, &line))
}

/// Replaces a file atomically.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}
