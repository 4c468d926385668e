//! `payfold partner certify --verify FILE`: checks that a report is unchanged and who signed it,
//! and prints it. Exit 1 if the report is not authenticated, 3 if it is and says that a rule
//! failed.

use std::path::Path;

use anyhow::Context;
use payfold_certify::report;
use serde_json::Value;

use super::certify::{open_signer, print};
use crate::args::{CertifyArgs, Global};
use crate::data_dir::DataDir;
use crate::error::{DifferencesFound, Fixable};
use crate::{output, settings};

/// Checks a report.
pub(crate) fn run(global: &Global, args: &CertifyArgs, file: &Path) -> anyhow::Result<()> {
    let text = std::fs::read(file).with_context(|| format!("{} can't be read", file.display()))?;
    let verified = report::verify_report(&text)
        .map_err(|error| anyhow::anyhow!("{} proves nothing: {error}", file.display()))?;
    let signed_by = hex::encode(verified.public_key);
    let wanted = match &args.signer {
        Some(key) => key.to_lowercase(),
        None => {
            let data = DataDir::of(&settings::load(global)?.settings);
            hex::encode(open_signer(&data, args)?.public_key())
        }
    };
    if signed_by != wanted {
        return Err(Fixable::error(
            format!("{} is unchanged, but signed by {signed_by}, not by {wanted}", file.display()),
            "if you trust that key, give it with --signer",
        ));
    }
    let body = Value::Object(verified.report);
    print(args, &body)?;
    let text = |pointer| body.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    output::error_line(&format!(
        "authenticated: {} of {}/{}, profile version {} {}, {}",
        text("/verdict"),
        text("/partner"),
        text("/merchantCode"),
        body["profile"]["version"],
        text("/profile/digest"),
        text("/finishedAt"),
    ));
    output::error_line(&format!("digest {}, signed by {signed_by}", verified.digest));
    if text("/verdict") == "failed" { Err(DifferencesFound.into()) } else { Ok(()) }
}
