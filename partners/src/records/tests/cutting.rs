//! The property of splitting: a record that is written cell by cell is split into these cells, ends
//! where it was ended, and its first malformed cell is named.

use proptest::prelude::*;

use crate::records::cells::{Cells, CsvDialect, RecordEnd, TextEncoding};

/// How a cell is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Plain,
    Quoted,
    /// In quotes, and followed by this text.
    Stray(&'static str),
    /// With an opening quote only, so that the rest of the file is in the cell.
    Open,
}

fn dialect() -> impl Strategy<Value = CsvDialect> {
    let quote = proptest::sample::select(&[Some(b'"'), Some(b'\''), None][..]);
    (proptest::sample::select(&b",;\t"[..]), quote).prop_map(|(delimiter, quote)| CsvDialect {
        delimiter,
        quote,
        prefix: Vec::new(),
        encoding: TextEncoding::Utf8,
    })
}

/// Cells of characters that are special in some dialect, a lone `\r` and a byte-order mark
/// included.
fn cells() -> impl Strategy<Value = Vec<(String, Written)>> {
    use Written::{Open, Plain, Quoted, Stray};
    let written = prop_oneof![
        8 => Just(Plain), 8 => Just(Quoted), 1 => Just(Open),
        1 => proptest::sample::select(
            &[Stray("x"), Stray(" "), Stray("\r\r"), Stray("x\"'"), Stray("\0")][..],
        ),
    ];
    let text = proptest::collection::vec(
        proptest::sample::select(
            &["a", "\"", "'", ",", ";", "\t", "\n", "\r", "é", "\u{feff}"][..],
        ),
        0..6,
    );
    proptest::collection::vec((text.prop_map(|parts| parts.concat()), written), 1..6)
}

/// The cells as this dialect can express them, and the record without its line end.
fn record(dialect: &CsvDialect, cells: Vec<(String, Written)>) -> (Vec<(String, Written)>, String) {
    let delimiter = char::from(dialect.delimiter);
    let mut cells: Vec<_> = (cells.into_iter())
        .map(|(text, written)| match (written, dialect.quote) {
            (Written::Plain, _) | (_, None) => {
                let quote = dialect.quote.map(char::from);
                let text = text.replace([delimiter, '\n'], "");
                let text = text.trim_start_matches(|c| Some(c) == quote).trim_end_matches('\r');
                (text.to_owned(), Written::Plain)
            }
            _ => (text, written),
        })
        .collect();
    // No cell follows a quote that stays open.
    if let Some(open) = cells.iter().position(|(_, written)| *written == Written::Open) {
        cells.truncate(open + 1);
    }
    let quote = dialect.quote.map(|quote| char::from(quote).to_string()).unwrap_or_default();
    let one = |(text, written): &(String, Written)| {
        let doubled = text.replace(&quote, &quote.repeat(2));
        match written {
            Written::Plain => text.clone(),
            Written::Quoted => format!("{quote}{doubled}{quote}"),
            Written::Stray(behind) => format!("{quote}{doubled}{quote}{behind}"),
            Written::Open => format!("{quote}{doubled}"),
        }
    };
    let all: Vec<_> = cells.iter().map(one).collect();
    (cells, all.join(&delimiter.to_string()))
}

/// The ends of a line in a file.
const LINE_ENDS: &[&str] = &["\n", "\r\n"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_048))]

    #[test]
    fn a_record_is_split_as_it_was_written(
        dialect in dialect(),
        records in proptest::collection::vec((cells(), proptest::sample::select(LINE_ENDS)), 1..4),
        is_ended in any::<bool>(),
    ) {
        let count = records.len();
        let written: Vec<_> = (records.into_iter().enumerate())
            .map(|(at, (cells, end))| {
                (record(&dialect, cells), if at + 1 == count && !is_ended { "" } else { end })
            })
            .collect();
        let mut cut = Cells::new(&dialect);
        for (at, ((cells, text), end)) in written.iter().enumerate() {
            let later = written[at + 1..].iter();
            let behind: String = later.map(|((_, text), end)| format!("{text}{end}")).collect();
            let window = format!("{text}{end}{behind}");
            let is_wrong = |written: &Written| matches!(written, Written::Stray(_) | Written::Open);
            let wrong = cells.iter().position(|(_, written)| is_wrong(written));
            let is_open = wrong.is_some_and(|cell| cells[cell].1 == Written::Open);
            if window.is_empty() || (is_open && !behind.is_empty()) {
                // This is the end of the file, or a quote that the next record may close.
                break;
            }
            let newlines = |text: &str| text.matches('\n').count() as u64;
            let expected = match wrong {
                Some(cell) if cells[cell].1 == Written::Open => RecordEnd::Open { cell },
                Some(cell) => {
                    // No later cell can be recognised: the record ends with the physical line.
                    let closed = record(&dialect, cells[..=cell].to_vec()).1.len();
                    let newline = window[closed..].find('\n');
                    let next = newline.map_or(window.len(), |end| closed + end + 1);
                    let is_ended = window[..next].ends_with('\n');
                    let lines = newlines(&window[..next]) + u64::from(!is_ended);
                    RecordEnd::Stray { cell, next, lines, is_ended }
                }
                None => RecordEnd::Whole {
                    text: text.len(),
                    next: text.len() + end.len(),
                    lines: newlines(text) + 1,
                    is_ended: !end.is_empty(),
                },
            };
            prop_assert_eq!(cut.cut(window.as_bytes()), expected, "{:?}", window);
            if wrong.is_none() {
                let back: Vec<_> = cut.iter().map(String::from_utf8_lossy).collect();
                let texts: Vec<_> = cells.iter().map(|(text, _)| text.as_str()).collect();
                prop_assert_eq!(back, texts);
            }
        }
    }
}
