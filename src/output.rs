//! Owns what commands print: listings as table, JSON, JSON lines or CSV, and lines for people.
//! The only file that writes to standard output and standard error.
#![expect(clippy::print_stderr, reason = "this is the command line's output")]

use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};
use payfold_schemas::time::Time;
use serde::Serialize;

use crate::args::Form;

/// One line for people on standard output.
pub fn line(text: &str) {
    if let Err(error) = writeln!(io::stdout(), "{text}") {
        // The reader went away (`payfold tail | head`), or there is nowhere to write: nothing is left to do.
        std::process::exit(i32::from(error.kind() != io::ErrorKind::BrokenPipe));
    }
}

/// One line for people that a program goes on without, if nobody reads it.
pub fn notice(text: &str) {
    // A system that serves does not end because its terminal did.
    let _ = writeln!(io::stdout(), "{text}");
}

/// One line for people on standard error.
pub fn error_line(text: &str) {
    eprintln!("{text}");
}

/// Whether standard output is a terminal.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// A bar over so many of what is named, where a person sees it beside a table.
pub fn progress_bar(form: Form, length: u64, noun: &str) -> ProgressBar {
    if form != Form::Table || !is_terminal() {
        return ProgressBar::hidden();
    }
    let template = format!("{{bar:40}} {{pos}}/{{len}} {noun}, {{eta}} left");
    let style = ProgressStyle::with_template(&template).expect("the template is a valid one");
    ProgressBar::new(length).with_style(style)
}

/// A time for people: to the millisecond.
pub fn time(time: Time) -> String {
    Time::from_unix_ms(time.unix_ms()).to_string()
}

/// Bytes as they are.
pub fn raw(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// A listing with fixed columns; each row serialises to a flat object of those columns.
pub struct Listing<'a> {
    form: Form,
    columns: &'a [&'a str],
    rows: Vec<Vec<String>>,
    objects: Vec<serde_json::Value>,
}

impl<'a> Listing<'a> {
    /// An empty listing.
    pub fn new(form: Form, columns: &'a [&'a str]) -> Self {
        Self { form, columns, rows: Vec::new(), objects: Vec::new() }
    }

    /// Adds a row: cells for people and spreadsheets, the object for programs.
    pub fn row(&mut self, cells: Vec<String>, object: &impl Serialize) -> anyhow::Result<()> {
        match self.form {
            Form::Table | Form::Csv => self.rows.push(cells),
            Form::Json => self.objects.push(serde_json::to_value(object)?),
            Form::Jsonl => line(&serde_json::to_string(object)?),
        }
        Ok(())
    }

    /// Prints what is not printed yet.
    pub fn print(self) -> anyhow::Result<()> {
        match self.form {
            Form::Table => line(&table(self.columns, &self.rows)),
            Form::Csv => print_csv(self.columns, &self.rows)?,
            Form::Json => line(&serde_json::to_string_pretty(&self.objects)?),
            Form::Jsonl => {}
        }
        Ok(())
    }
}

/// A table without lines, columns apart by two blanks.
pub fn table(columns: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(columns.iter().map(|column| column.to_uppercase()));
    for row in rows {
        table.add_row(row);
    }
    let text = table.to_string();
    text.lines().map(|line| line.trim_end().trim_start_matches(' ')).collect::<Vec<_>>().join("\n")
}

fn print_csv(columns: &[&str], rows: &[Vec<String>]) -> anyhow::Result<()> {
    let mut writer = csv::Writer::from_writer(io::stdout().lock());
    writer.write_record(columns)?;
    for row in rows {
        writer.write_record(row.iter().map(|cell| formula_safe(cell).into_owned()))?;
    }
    writer.flush()?;
    Ok(())
}

/// A cell a spreadsheet will not run as a formula.
fn formula_safe(cell: &str) -> std::borrow::Cow<'_, str> {
    if cell.starts_with(['=', '+', '-', '@', '\t', '\r']) && cell.parse::<f64>().is_err() {
        format!("'{cell}").into()
    } else {
        cell.into()
    }
}

/// One object, pretty for `json`, one line for `jsonl`.
pub fn object(form: Form, object: &impl Serialize) -> anyhow::Result<()> {
    match form {
        Form::Jsonl => line(&serde_json::to_string(object)?),
        Form::Json | Form::Table | Form::Csv => line(&serde_json::to_string_pretty(object)?),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_no_formulas() {
        assert_eq!(formula_safe("=1+1"), "'=1+1");
        assert_eq!(formula_safe("-5"), "-5");
        assert_eq!(formula_safe("plain"), "plain");
    }
}
