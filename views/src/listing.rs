//! Owns the columns of rows, and rows as CSV. A row is a struct; its columns show members of its
//! JSON by one rule: a time is cut to milliseconds, a fraction has one decimal, spaces separate the
//! items of a list, and a map is `name=value`. Pure.

use payfold_report::money::{major, major_named, plain, plain_named};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;
use serde::Serialize;
use serde_json::{Value, json};

/// Where the cells of a row are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cells {
    /// In a table for people: money with grouped digits.
    Table,
    /// In CSV: money as a plain number.
    Csv,
}

impl Cells {
    /// How an amount is written beside its currency, which has a column of its own.
    pub fn money(self) -> fn(i128, Currency) -> String {
        if self == Self::Csv { plain } else { major }
    }

    /// How an amount is written with its currency.
    pub fn money_named(self) -> fn(i128, Currency) -> String {
        if self == Self::Csv { plain_named } else { major_named }
    }

    /// How an amount is written if its currency has a column of its own in CSV alone.
    pub fn amount(self) -> fn(i128, Currency) -> String {
        if self == Self::Csv { plain } else { major_named }
    }
}

/// A row of a listing.
pub trait Row: Serialize {
    /// The columns of the table, separated by spaces. `valid_from` shows the member `validFrom`;
    /// `created:firstSeen` shows `firstSeen` under the heading `created`; `file:records.name` shows
    /// the member `name` of `records`.
    const COLUMNS: &'static str;
    /// The columns of the CSV, if they differ from the table's.
    const CSV_COLUMNS: &'static str = Self::COLUMNS;

    /// The value of a column that shows no member; `None` for a column that does.
    fn shown(&self, _column: &str, _cells: Cells) -> Option<Value> {
        None
    }
}

impl<R: Row> Row for &R {
    const COLUMNS: &'static str = R::COLUMNS;
    const CSV_COLUMNS: &'static str = R::CSV_COLUMNS;

    fn shown(&self, column: &str, cells: Cells) -> Option<Value> {
        R::shown(self, column, cells)
    }
}

/// The cells `amount`, `amount_minor` and `currency` of a row with money; `None` for another
/// column.
pub fn show_money(column: &str, money: Option<(Amount, Currency)>, cells: Cells) -> Option<Value> {
    let write = cells.amount();
    Some(match column {
        "amount" => json!(money.map(|(amount, currency)| write(amount.minor().into(), currency))),
        "amount_minor" => json!(money.map(|(amount, _)| amount.minor())),
        "currency" => json!(money.map(|(_, currency)| currency)),
        _ => return None,
    })
}

/// The columns of a listing.
#[derive(Debug)]
pub struct Columns {
    columns: Vec<Column>,
    cells: Cells,
}

/// A column: its heading and the path of the member it shows.
#[derive(Debug)]
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

impl Columns {
    /// The columns of rows of this type.
    pub fn of<R: Row>(cells: Cells) -> Self {
        let columns = if cells == Cells::Csv { R::CSV_COLUMNS } else { R::COLUMNS };
        Self { columns: columns.split_whitespace().map(Column::of).collect(), cells }
    }

    /// Their headings.
    pub fn headings(&self) -> Vec<&'static str> {
        self.columns.iter().map(|column| column.heading).collect()
    }

    /// The texts of a row; `None` for a cell with nothing in it. Errors: the row is no JSON.
    pub fn texts<R: Row>(&self, row: &R) -> Result<Vec<Option<String>>, serde_json::Error> {
        let object = serde_json::to_value(row)?;
        let text = |column: &Column| {
            let shown = row.shown(column.heading, self.cells);
            cell_text(shown.as_ref().unwrap_or_else(|| column.value(&object)))
        };
        Ok(self.columns.iter().map(text).collect())
    }
}

/// The lines of these texts as CSV (RFC 4180, with a line feed). A text that a spreadsheet would
/// run as a formula begins with a quote.
pub fn csv_lines(rows: &[Vec<Option<String>>]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        let cells = row.iter().map(|text| formula_safe(text.as_deref()));
        writer.write_record(cells).expect("memory takes every line");
    }
    let bytes = writer.into_inner().expect("memory takes every line");
    String::from_utf8(bytes).expect("the cells are text")
}

/// A time for people, to the millisecond.
pub fn moment(time: Time) -> String {
    Time::from_unix_ms(time.unix_ms()).to_string()
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
        Value::String(text) => Time::parse(text).map_or_else(|_| text.clone(), moment),
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

/// The text of a CSV cell, with a quote before what a spreadsheet would run as a formula: at the
/// beginning, and where another separator begins a cell of its own.
fn formula_safe(cell: Option<&str>) -> String {
    let cell = cell.unwrap_or_default();
    if cell.parse::<f64>().is_ok() {
        return cell.to_owned();
    }
    let (mut safe, mut begins_cell) = (String::with_capacity(cell.len()), true);
    for c in cell.chars() {
        if begins_cell && matches!(c, '=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠') {
            safe.push('\'');
        }
        begins_cell = matches!(c, ';' | '\t' | '\r' | '\n') || begins_cell && c.is_whitespace();
        safe.push(c);
    }
    safe
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

        fn shown(&self, column: &str, cells: Cells) -> Option<Value> {
            (column == "amount").then(|| json!([self.minor, cells == Cells::Csv]))
        }
    }

    fn samples() -> [Sample; 2] {
        let valid_from = Time::parse("2026-01-31T10:00:00.123456789Z").unwrap();
        let (flags, note) = (vec!["A", "B"], None);
        let one = Sample { valid_from, lag_s: 0.25, enabled: true, flags, note, minor: -5 };
        let note = Some("=1\n2");
        let other =
            Sample { valid_from, lag_s: 2.0, enabled: false, flags: vec![], note, minor: 5 };
        [one, other]
    }

    #[test]
    fn tables_and_csv_show_columns() {
        let columns = Columns::of::<Sample>(Cells::Table);
        assert_eq!(columns.headings().join(" "), Sample::COLUMNS);
        let texts = samples().map(|row| columns.texts(&row).unwrap());
        let dashed = texts.map(|row| {
            row.into_iter().map(|text| text.unwrap_or("-".to_owned())).collect::<Vec<_>>().join("|")
        });
        assert_eq!(dashed[0], "2026-01-31T10:00:00.123Z|0.2|yes|A B|-|-5 no");
        assert_eq!(dashed[1], "2026-01-31T10:00:00.123Z|2.0|no|-|=1\n2|5 no");
        let columns = Columns::of::<Sample>(Cells::Csv);
        assert_eq!(columns.headings().join(" "), Sample::CSV_COLUMNS);
        let texts = samples().map(|row| columns.texts(&row).unwrap());
        assert_eq!(csv_lines(&texts), "'-5 yes,,A B,-5\n5 yes,\"'=1\n2\",,5\n");
    }

    #[test]
    fn no_text_is_a_formula_in_a_spreadsheet() {
        for (text, safe) in [
            ("=1+1", "'=1+1"),
            (" =1", " '=1"),
            ("\t@x", "\t'@x"),
            ("＝1", "'＝1"),
            ("a;=1", "a;'=1"),
            ("a\n- b", "a\n'- b"),
            ("-5", "-5"),
            ("+84 1", "'+84 1"),
            ("a-b=c", "a-b=c"),
            ("", ""),
        ] {
            assert_eq!(formula_safe(Some(text)), safe, "{text:?}");
        }
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
