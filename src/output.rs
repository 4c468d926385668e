//! Owns what commands print: lines and tables for people, objects for programs. No other file
//! writes to standard output or standard error.
#![expect(clippy::print_stderr, reason = "this is the command line's output")]

use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::args::OutputFormat;

/// Prints one line on standard output. Ends the process if the line can't be written.
pub(crate) fn line(text: &str) {
    end_unless_written(writeln!(io::stdout(), "{text}"));
}

/// Ends the process if standard output can't be written. Where its reader went away
/// (`payfold tail | head`), that is no error.
fn end_unless_written(written: io::Result<()>) {
    let Err(error) = written else { return };
    if error.kind() == io::ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    error_line(&format!("error: standard output can't be written: {error}"));
    std::process::exit(1);
}

/// Prints one line on standard output. Ignores a failure to write it.
pub(crate) fn notice(text: &str) {
    // A running system must not end because its terminal was closed.
    let _ = writeln!(io::stdout(), "{text}");
}

/// Prints one line on standard error.
pub(crate) fn error_line(text: &str) {
    eprintln!("{text}");
}

/// Whether standard output is a terminal.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// A progress bar up to `length`; hidden unless a table is printed on a terminal.
pub(crate) fn progress_bar(format: OutputFormat, length: u64, noun: &str) -> ProgressBar {
    if format != OutputFormat::Table || !is_terminal() {
        return ProgressBar::hidden();
    }
    let template = format!("{{bar:40}} {{pos}}/{{len}} {noun}, {{eta}} left");
    let style = ProgressStyle::with_template(&template).expect("the template is a valid one");
    ProgressBar::new(length).with_style(style)
}

/// Prints bytes unchanged, followed by a line feed. Ends the process if they can't be written.
pub(crate) fn raw(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    let written = out.write_all(bytes).and_then(|()| out.write_all(b"\n"));
    end_unless_written(written.and_then(|()| out.flush()));
}

/// Formats a table without lines; two spaces separate the columns.
pub(crate) fn table(columns: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(columns.iter().map(|column| column.to_uppercase()));
    for row in rows {
        table.add_row(row);
    }
    let text = table.to_string();
    text.lines().map(|line| line.trim_end().trim_start_matches(' ')).collect::<Vec<_>>().join("\n")
}

/// Prints one object: indented JSON, or one line for `jsonl`.
pub(crate) fn object(format: OutputFormat, object: &impl Serialize) -> anyhow::Result<()> {
    match format {
        OutputFormat::Jsonl => line(&serde_json::to_string(object)?),
        OutputFormat::Json | OutputFormat::Table | OutputFormat::Csv => {
            line(&serde_json::to_string_pretty(object)?)
        }
    }
    Ok(())
}
