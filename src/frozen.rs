//! Owns the check that a frozen profile does not change. A profile of stage frozen or live must
//! equal the copy that was kept when it was frozen, except for the stage itself. A start is refused
//! otherwise.

use std::path::{Path, PathBuf};

use payfold_partners::profile::{Profile, Stage};

use crate::error::Fixable;

/// The path of the frozen copy of a version, beside the profile.
pub(crate) fn copy_of(path: &Path, version: u32) -> PathBuf {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{name}.v{version}.frozen"))
}

/// Whether a line sets the stage.
pub(crate) fn is_stage_line(line: &str) -> bool {
    let rest = line.trim_start().strip_prefix("stage");
    rest.is_some_and(|rest| rest.trim_start().starts_with('='))
}

/// The text with its stage line replaced by this line.
pub(crate) fn with_stage_line(text: &str, line: &str) -> String {
    let lines = text.lines().map(|old| if is_stage_line(old) { line } else { old });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

/// Whether two texts are equal except for the stage.
pub(crate) fn is_same(a: &str, b: &str) -> bool {
    let lines = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !is_stage_line(line)).map(str::to_owned).collect()
    };
    lines(a) == lines(b)
}

/// A unified diff: `-` lines were frozen, `+` lines are there now.
pub(crate) fn difference(kept: &str, now: &str) -> String {
    let diff = similar::TextDiff::from_lines(kept, now);
    diff.unified_diff().context_radius(1).header("frozen", "now").to_string()
}

/// Checks a profile of stage frozen or live against its frozen copy. Errors: the copy can't be
/// read, or it differs.
pub(crate) fn check(path: &Path, profile: &Profile, text: &str) -> anyhow::Result<()> {
    if !matches!(profile.stage(), Stage::Frozen | Stage::Live) {
        return Ok(());
    }
    let (code, version) = (profile.partner(), profile.stamp().version);
    let copy = copy_of(path, version);
    let kept = std::fs::read_to_string(&copy).map_err(|error| {
        Fixable::error(
            format!(
                "{} is frozen as version {version}, but its copy {} can't be read: {error}",
                path.display(),
                copy.display()
            ),
            format!(
                "restore the copy beside the profile; for a new profile write stage = \
                \"draft\" and run payfold partner freeze {code}"
            ),
        )
    })?;
    if is_same(&kept, text) {
        return Ok(());
    }
    Err(Fixable::error(
        format!(
            "{} was changed after version {version} was frozen:\n{}",
            path.display(),
            difference(&kept, text)
        ),
        format!(
            "to keep the change, increment version, write stage = \"draft\", certify and freeze it \
             again; else copy it aside and restore what was frozen: cp {} {}",
            copy.display(),
            path.display()
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_stage_may_change() {
        let frozen = "version = 1\nstage = \"frozen\"\nx = 1\n";
        assert!(is_same(frozen, "version = 1\nstage = \"live\"\nx = 1\n"));
        assert!(!is_same(frozen, "version = 1\nstage = \"live\"\nx = 2\n"));
        assert!(
            difference(frozen, "version = 1\nstage = \"frozen\"\nx = 2\n")
                .contains("-x = 1\n+x = 2")
        );
        let copy = copy_of(Path::new("/etc/payfold/momo.toml"), 3);
        assert_eq!(copy, Path::new("/etc/payfold/momo.v3.frozen"));
    }
}
