//! Owns the rendering of listings as table, JSON, JSON lines or CSV. A row is a struct. JSON shows
//! the row as it serialises. Tables and CSV show its columns by one rule: a missing value is `-` in
//! a table and empty in CSV, a time is cut to milliseconds, a fraction has one decimal, spaces
//! separate the items of a list, and a map is `name=value`.

use payfold_report::money::{major_named, plain};
use payfold_report::text::on_one_line;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::OutputFormat;
use crate::output;

/// A row of a listing.
pub(crate) trait Row: Serialize {
    /// The columns of the table, separated by spaces. `valid_from` shows the member `validFrom`;
    /// `created:firstSeen` shows `firstSeen` under the heading `created`; `file:records.name` shows
    /// the member `name` of `records`.
    const COLUMNS: &'static str;
    /// The columns of the CSV, if they differ from the table's.
    const CSV_COLUMNS: &'static str = Self::COLUMNS;

    /// The value of a column that shows no member; `None` for a column that does.
    fn shown(&self, _column: &str, _format: OutputFormat) -> Option<Value> {
        None
    }
}

/// How rows write an amount with its currency: as a plain number in CSV, where the currency has a
/// column of its own.
pub(crate) fn money_writer(format: OutputFormat) -> fn(i128, Currency) -> String {
    if format == OutputFormat::Csv { plain } else { major_named }
}

/// The cells `amount`, `amount_minor` and `currency` of a row with money; `None` for another
/// column.
pub(crate) fn show_money(
    column: &str,
    money: Option<(Amount, Currency)>,
    format: OutputFormat,
) -> Option<Value> {
    let write = money_writer(format);
    Some(match column {
        "amount" => json!(money.map(|(amount, currency)| write(amount.minor().into(), currency))),
        "amount_minor" => json!(money.map(|(amount, _)| amount.minor())),
        "currency" => json!(money.map(|(_, currency)| currency)),
        _ => return None,
    })
}

impl<R: Row> Row for &R {
    const COLUMNS: &'static str = R::COLUMNS;
    const CSV_COLUMNS: &'static str = R::CSV_COLUMNS;

    fn shown(&self, column: &str, format: OutputFormat) -> Option<Value> {
        R::shown(self, column, format)
    }
}

/// A column: its heading and the path of the member it shows.
struct Column {
    heading: &'static str,
    path: String,
}

impl Column {
    fn of(text: &'static str) -> Self {
        let (heading, path) = text.split_once(':').unwrap_or((text, text));
        let mut words = path.split('_');
        let mut path = words.next().unwrap_or_default().to_owned();
        for word in words {
            let (first, rest) = word.split_at(usize::from(!word.is_empty()));
            path.extend([&first.to_uppercase(), rest]);
        }
        Self { heading, path }
    }

    fn value<'a>(&self, object: &'a Value) -> &'a Value {
        let found = self.path.split('.').try_fold(object, |value, name| value.get(name));
        debug_assert!(found.is_some(), "a row has no member {}", self.path);
        found.unwrap_or(&Value::Null)
    }
}

/// Collects rows and prints them. JSON lines are printed at once.
pub(crate) struct Listing {
    format: OutputFormat,
    columns: Vec<Column>,
    rows: Vec<Vec<Option<String>>>,
    objects: Vec<Value>,
}

impl Listing {
    /// Makes an empty listing for rows of type `R`.
    pub(crate) fn of<R: Row>(format: OutputFormat) -> Self {
        let columns = if format == OutputFormat::Csv { R::CSV_COLUMNS } else { R::COLUMNS };
        let columns = columns.split_whitespace().map(Column::of).collect();
        Self { format, columns, rows: Vec::new(), objects: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row<R: Row>(&mut self, row: &R) -> anyhow::Result<()> {
        match self.format {
            OutputFormat::Table | OutputFormat::Csv => {
                let object = serde_json::to_value(row)?;
                let cell = |column: &Column| {
                    let shown = row.shown(column.heading, self.format);
                    cell_text(shown.as_ref().unwrap_or_else(|| column.value(&object)))
                };
                self.rows.push(self.columns.iter().map(cell).collect());
            }
            OutputFormat::Json => self.objects.push(serde_json::to_value(row)?),
            OutputFormat::Jsonl => output::line(&serde_json::to_string(row)?),
        }
        Ok(())
    }

    /// Prints the collected rows.
    pub(crate) fn print(self) -> anyhow::Result<()> {
        match self.format {
            OutputFormat::Table => output::line(&self.table()),
            OutputFormat::Csv => output::line(self.csv()?.trim_end_matches('\n')),
            OutputFormat::Json => output::line(&serde_json::to_string_pretty(&self.objects)?),
            OutputFormat::Jsonl => {}
        }
        Ok(())
    }

    fn headings(&self) -> Vec<&str> {
        self.columns.iter().map(|column| column.heading).collect()
    }

    fn table(&self) -> String {
        // A line break in a text of somebody else could look like a row.
        let or_dash =
            |cell: &Option<String>| cell.as_deref().map_or_else(|| "-".to_owned(), on_one_line);
        let rows: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(or_dash).collect()).collect();
        output::table(&self.headings(), &rows)
    }

    fn csv(&self) -> anyhow::Result<String> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(self.headings())?;
        for row in &self.rows {
            writer.write_record(row.iter().map(|cell| formula_safe(cell.as_deref())))?;
        }
        Ok(String::from_utf8(writer.into_inner()?)?)
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

/// The text of a cell; `None` for null and for an empty list or map.
fn cell_text(value: &Value) -> Option<String> {
    let text = match value {
        Value::Null => return None,
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(fraction) => format!("{fraction:.1}"),
            None => number.to_string(),
        },
        Value::String(text) => Time::parse(text).map_or_else(|_| text.clone(), output::time),
        Value::Array(items) => joined(items.iter().filter_map(cell_text))?,
        Value::Object(members) => joined(members.iter().map(|(name, value)| {
            let text = cell_text(value).unwrap_or_default();
            format!("{name}={text}")
        }))?,
    };
    Some(text)
}

fn joined(texts: impl Iterator<Item = String>) -> Option<String> {
    let texts: Vec<String> = texts.collect();
    (!texts.is_empty()).then(|| texts.join(" "))
}

/// The text of a CSV cell, quoted so that a spreadsheet doesn't run it as a formula.
fn formula_safe(cell: Option<&str>) -> String {
    let cell = cell.unwrap_or_default();
    let is_formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let quote = if is_formula && cell.parse::<f64>().is_err() { "'" } else { "" };
    format!("{quote}{cell}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Sample {
        valid_from: Time,
        lag_s: f64,
        enabled: bool,
        flags: Vec<&'static str>,
        note: Option<&'static str>,
        minor: i64,
    }

    impl Row for Sample {
        const COLUMNS: &'static str = "valid_from lag_s enabled flags note amount";
        const CSV_COLUMNS: &'static str = "amount note flags minor";

        fn shown(&self, column: &str, format: OutputFormat) -> Option<Value> {
            (column == "amount").then(|| json!([self.minor, format == OutputFormat::Csv]))
        }
    }

    fn listing(format: OutputFormat) -> Listing {
        let mut listing = Listing::of::<Sample>(format);
        let valid_from = Time::parse("2026-01-31T10:00:00.123456789Z").unwrap();
        let (flags, note) = (vec!["A", "B"], None);
        let one = Sample { valid_from, lag_s: 0.25, enabled: true, flags, note, minor: -5 };
        let note = Some("=1\n2");
        let other =
            Sample { valid_from, lag_s: 2.0, enabled: false, flags: vec![], note, minor: 5 };
        for row in [one, other] {
            listing.row(&row).unwrap();
        }
        listing
    }

    #[test]
    fn tables_and_csv_show_columns_and_json_the_row() {
        let table = listing(OutputFormat::Table).table();
        let lines: Vec<Vec<&str>> =
            table.lines().map(|line| line.split_whitespace().collect()).collect();
        let expected = [
            "VALID_FROM LAG_S ENABLED FLAGS NOTE AMOUNT",
            "2026-01-31T10:00:00.123Z 0.2 yes A B - -5 no",
            "2026-01-31T10:00:00.123Z 2.0 no - =1 2 5 no",
        ];
        assert_eq!(lines, expected.map(|line| line.split(' ').collect::<Vec<_>>()));
        let csv = listing(OutputFormat::Csv).csv().unwrap();
        assert_eq!(csv, "amount,note,flags,minor\n'-5 yes,,A B,-5\n5 yes,\"'=1\n2\",,5\n");
        let objects = listing(OutputFormat::Json).objects;
        assert_eq!(objects[0]["validFrom"], "2026-01-31T10:00:00.123456789Z");
        assert_eq!(objects[1]["flags"], json!([]));
    }

    #[test]
    fn a_map_is_shown_as_name_and_value_and_an_unknown_member_panics() {
        let map = json!({ "accessKey": "A", "shop": 7 });
        assert_eq!(cell_text(&map).as_deref(), Some("accessKey=A shop=7"));
        let object = json!({ "validFrom": 1, "records": { "name": "a.csv" } });
        let shown = |column| Column::of(column).value(&object).clone();
        assert_eq!((shown("valid_from"), shown("file:records.name")), (1.into(), "a.csv".into()));
        let misspelt = std::panic::catch_unwind(|| shown("valid_form"));
        assert!(misspelt.is_err());
    }
}
