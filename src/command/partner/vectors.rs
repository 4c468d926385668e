//! Checks a profile against test vectors.

use anyhow::Context;
use payfold_partners::scheme::check_vectors;
use serde_json::json;

use super::Source;
use crate::args::VectorsArgs;
use crate::error::{DifferencesFound, Fixable};
use crate::output::Listing;

const COLUMNS: [&str; 4] = ["vector", "result", "sign", "detail"];

pub(super) fn run(source: &Source, args: &VectorsArgs) -> anyhow::Result<()> {
    let profile = source.profile()?;
    let file = match (&args.file, source.shipped, &source.path) {
        (Some(file), _, _) => read(file)?,
        (None, Some(shipped), _) => shipped.vectors.to_owned(),
        (None, None, Some(path)) => read(&path.with_extension("vectors.json"))?,
        (None, None, None) => {
            return Err(Fixable::error(
                "this profile has no vectors of its own",
                "name a file with --file",
            ));
        }
    };
    let reports = check_vectors(&profile, &file).map_err(anyhow::Error::msg)?;
    let mut listing = Listing::new(args.output.output, &COLUMNS);
    let mut failed = false;
    for report in reports {
        failed |= !report.problem.is_empty();
        let result = if report.problem.is_empty() { "ok" } else { "differs" };
        let detail = if report.problem.is_empty() { &report.warning } else { &report.problem };
        let object = json!({
            "vector": report.name, "result": result, "sign": report.sign, "problem": report.problem,
            "warning": report.warning,
        });
        let sign = report.sign.clone().unwrap_or_default();
        listing.row(vec![report.name.clone(), result.to_owned(), sign, detail.clone()], &object)?;
    }
    listing.print()?;
    if failed { Err(anyhow::Error::new(DifferencesFound)) } else { Ok(()) }
}

fn read(file: &std::path::Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file)
        .with_context(|| format!("the vectors {} can't be read", file.display()))
}
