//! `payfold partner vectors`: checks a profile against test vectors.

use payfold_partners::scheme::{VectorReport, check_vectors};
use serde::Serialize;
use serde_json::Value;

use super::source::ProfileSource;
use crate::args::VectorsArgs;
use crate::error::{DifferencesFound, Fixable};
use crate::listing::{self, Cells, Row};

#[derive(Serialize)]
struct VectorRow {
    result: &'static str,
    #[serde(flatten)]
    report: VectorReport,
}

impl Row for VectorRow {
    const COLUMNS: &'static str = "vector result sign detail";

    fn shown(&self, column: &str, _cells: Cells) -> Option<Value> {
        let VectorReport { problem, warning, .. } = &self.report;
        let detail = if problem.is_empty() { warning } else { problem };
        (column == "detail").then(|| detail.as_str().into())
    }
}

pub(super) fn run(source: &ProfileSource, args: &VectorsArgs) -> anyhow::Result<()> {
    let profile = source.profile()?;
    let file = match (&args.file, source.shipped, &source.path) {
        (Some(file), _, _) => read(file)?,
        (None, Some(shipped), _) => shipped.vectors.to_owned(),
        (None, None, Some(path)) => read(&path.with_extension("vectors.json"))?,
        (None, None, None) => {
            return Err(Fixable::error(
                "this shipped profile has no test vectors",
                "give a file with --file",
            ));
        }
    };
    let reports = check_vectors(&profile, &file)?;
    let failed = reports.iter().any(|report| !report.problem.is_empty());
    let rows = reports.into_iter().map(|report| {
        let result = if report.problem.is_empty() { "ok" } else { "differs" };
        VectorRow { result, report }
    });
    listing::print(args.output.output, rows)?;
    if failed { Err(anyhow::Error::new(DifferencesFound)) } else { Ok(()) }
}

fn read(file: &std::path::Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).map_err(|error| {
        Fixable::error(
            format!("the test vectors {} can't be read: {error}", file.display()),
            "give their file with --file; `payfold partner new CODE --from NAME` writes an example",
        )
    })
}
