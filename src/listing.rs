//! Owns the printing of listings as table, JSON, JSON lines or CSV. JSON shows a row as it
//! serialises, tables and CSV its columns; a table has `-` for a missing value.

use payfold_report::text::on_one_line;
pub(crate) use payfold_views::listing::{Cells, Row};
use payfold_views::listing::{Columns, csv_lines};
use serde::Serialize;
use serde_json::Value;

use crate::args::OutputFormat;
use crate::output;

/// A row of a type that says nothing about columns.
#[derive(Serialize)]
#[serde(transparent)]
pub(crate) struct Shown<T>(pub(crate) T);

/// Collects rows and prints them. JSON lines are printed at once.
pub(crate) struct Listing {
    format: OutputFormat,
    columns: Columns,
    rows: Vec<Vec<Option<String>>>,
    objects: Vec<Value>,
}

impl Listing {
    /// Makes an empty listing for rows of type `R`.
    pub(crate) fn of<R: Row>(format: OutputFormat) -> Self {
        let cells = if format == OutputFormat::Csv { Cells::Csv } else { Cells::Table };
        Self { format, columns: Columns::of::<R>(cells), rows: Vec::new(), objects: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row<R: Row>(&mut self, row: &R) -> anyhow::Result<()> {
        match self.format {
            OutputFormat::Table | OutputFormat::Csv => self.rows.push(self.columns.texts(row)?),
            OutputFormat::Json => self.objects.push(serde_json::to_value(row)?),
            OutputFormat::Jsonl => output::line(&serde_json::to_string(row)?),
        }
        Ok(())
    }

    /// Prints the collected rows.
    pub(crate) fn print(self) -> anyhow::Result<()> {
        match self.format {
            OutputFormat::Table => output::line(&self.table()),
            OutputFormat::Csv => {
                let csv = self.columns.headings().join(",") + "\n" + &csv_lines(&self.rows);
                output::line(csv.trim_end_matches('\n'));
            }
            OutputFormat::Json => output::line(&serde_json::to_string_pretty(&self.objects)?),
            OutputFormat::Jsonl => {}
        }
        Ok(())
    }

    fn table(&self) -> String {
        // A line break in a text of somebody else could look like a row.
        let or_dash =
            |cell: &Option<String>| cell.as_deref().map_or_else(|| "-".to_owned(), on_one_line);
        let rows: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(or_dash).collect()).collect();
        output::table(&self.columns.headings(), &rows)
    }
}

/// Prints these rows.
pub(crate) fn print<R: Row>(
    format: OutputFormat,
    rows: impl IntoIterator<Item = R>,
) -> anyhow::Result<()> {
    let mut listing = Listing::of::<R>(format);
    rows.into_iter().try_for_each(|row| listing.row(&row))?;
    listing.print()
}
