//! Owns the profiles that `log verify --signatures` uses: the shipped ones of this and of earlier
//! builds, the configured ones, their frozen copies, and given files. A stored notice names its
//! profile by the digest of the file. The file contains the stage, so each profile is tried with
//! every stage; the next stage changes nothing else.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use payfold_partners::profile::{
    DEFAULT_PROFILE, EARLIER, SANDBOX_PROFILE, SHIPPED, ShippedProfile, Stage,
};
use payfold_schemas::digest::Digest;

use crate::frozen;
use crate::settings::Loaded;

/// The texts of all profiles by digest. Errors: a file can't be read.
pub(crate) fn texts(loaded: &Loaded, more: &[PathBuf]) -> anyhow::Result<HashMap<Digest, String>> {
    let shipped = [DEFAULT_PROFILE, SANDBOX_PROFILE].into_iter().chain(EARLIER);
    let shipped = shipped.chain(SHIPPED.iter().map(|shipped| shipped.profile));
    let mut texts: Vec<String> = shipped.map(str::to_owned).collect();
    for partner in loaded.settings.partners.values() {
        if !is_shipped(&partner.profile) {
            texts.extend(with_frozen_copies(Path::new(&partner.profile))?);
        }
    }
    for path in more {
        texts.push(read(path)?);
    }
    Ok(texts.iter().flat_map(|text| at_every_stage(text)).collect())
}

fn is_shipped(profile: &str) -> bool {
    ["default", "sandbox"].contains(&profile) || ShippedProfile::of(profile).is_some()
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("{} can't be read", path.display()))
}

/// The text of a profile file, and the texts of its frozen copies.
fn with_frozen_copies(path: &Path) -> anyhow::Result<Vec<String>> {
    let mut texts = vec![read(path)?];
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    for entry in std::fs::read_dir(parent.unwrap_or(Path::new(".")))? {
        let path = entry?.path();
        let found = path.file_name().unwrap_or_default().to_string_lossy();
        if found.starts_with(&format!("{name}.v")) && found.ends_with(".frozen") {
            texts.push(read(&path)?);
        }
    }
    Ok(texts)
}

fn at_every_stage(text: &str) -> Vec<(Digest, String)> {
    let staged = Stage::ALL
        .map(|stage| frozen::with_stage_line(text, &format!("stage = \"{}\"", stage.as_str())));
    let all = staged.into_iter().chain([text.to_owned()]);
    all.map(|text| (Digest::of_bytes(text.as_bytes()), text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_and_its_frozen_copies_are_known_at_every_stage() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        file("momo.toml", "version = 2\nstage = \"live\"\n");
        file("momo.v1.frozen", "version = 1\nstage = \"frozen\"\n");
        file("zalo.v1.frozen", "version = 9\nstage = \"frozen\"\n");
        let texts = with_frozen_copies(&folder.path().join("momo.toml")).unwrap();
        assert_eq!(texts.len(), 2);
        let known: HashMap<_, _> = texts.iter().flat_map(|text| at_every_stage(text)).collect();
        for text in [
            "version = 2\nstage = \"live\"\n",
            "version = 2\nstage = \"frozen\"\n",
            "version = 1\nstage = \"live\"\n",
            "version = 1\nstage = \"frozen\"\n",
        ] {
            assert_eq!(
                known.get(&Digest::of_bytes(text.as_bytes())).map(String::as_str),
                Some(text)
            );
        }
        assert!(!known.contains_key(&Digest::of_bytes(b"version = 9\nstage = \"frozen\"\n")));
    }
}
