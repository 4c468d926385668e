//! Moves a profile from stage to stage, and keeps what was frozen. The frozen copy stands beside the profile as
//! `<name>.v<version>.frozen`, travels with it, and is what a profile of stage frozen or live must be the same as.

use std::path::{Path, PathBuf};

use payfold_partners::profile::Stage;

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

pub(super) fn promote(source: &Source, to: PromoteTo) -> anyhow::Result<()> {
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
    }
    write(path, &with_stage(source, to)?)?;
    output::line(&format!("{} is at stage {} now; restart what runs", source.code, stage_name(to)));
    Ok(())
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
    let lines = source.text.lines().map(|old| if is_stage(old) { line.as_str() } else { old });
    Ok(lines.collect::<Vec<_>>().join("\n") + "\n")
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
