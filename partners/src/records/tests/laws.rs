//! Properties: what is written in any dialect is read back exactly; the result does not depend on
//! how the bytes arrive; any bytes can be read to an end.

use std::io;

use payfold_schemas::ids::{EventRef, MerchantCode, OrderId, ProviderRef};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;
use proptest::prelude::*;

use super::{LINES, SHOP, gzipped, read, spec};
use crate::records::types::{PartnerEntry, ReadLine};

/// A source that returns its bytes in pieces of the given sizes, repeatedly.
struct Chunks<'b> {
    bytes: &'b [u8],
    sizes: Vec<usize>,
    reads: usize,
}

impl io::Read for Chunks<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.sizes[self.reads % self.sizes.len()];
        self.reads += 1;
        let count = size.min(buffer.len()).min(self.bytes.len());
        buffer[..count].copy_from_slice(&self.bytes[..count]);
        self.bytes = &self.bytes[count..];
        Ok(count)
    }
}

/// How a file is written.
#[derive(Clone, Debug)]
struct Writing {
    delimiter: u8,
    quote: u8,
    always_quotes: bool,
    prefix: Option<char>,
    crlf: bool,
    bom: bool,
    has_header: bool,
    is_packed: bool,
    point: char,
    group: Option<char>,
    /// The order of the columns.
    columns: Vec<usize>,
    ends: bool,
}

const NAMES: [&str; 9] =
    ["Type", "Shop", "Order", "Ref", "Amount", "Cur rency", "Booked", "Event", "Note"];

fn writing() -> impl Strategy<Value = Writing> {
    let of = |all: &'static [u8]| proptest::sample::select(all);
    let dialect = (of(b",;\t|^"), of(b"\"'"), any::<[bool; 6]>(), of(b"`=~ "));
    let money = proptest::sample::select(
        &[('.', None), ('.', Some(',')), (',', None), (',', Some('.')), ('.', Some(' '))][..],
    );
    let columns = Just((0..NAMES.len()).collect::<Vec<_>>()).prop_shuffle();
    (dialect, money, columns).prop_map(
        |((delimiter, quote, flags, prefix), (point, group), columns)| {
            let [always_quotes, crlf, bom, has_header, is_packed, ends] = flags;
            let prefix = Some(char::from(prefix)).filter(|c| *c != ' ');
            Writing {
                delimiter,
                quote,
                always_quotes,
                prefix,
                crlf,
                bom,
                has_header,
                is_packed,
                point,
                group,
                columns,
                ends,
            }
        },
    )
}

fn section(writing: &Writing) -> String {
    let place = |name: &str| {
        let column = NAMES.iter().position(|other| *other == name).unwrap();
        let at = writing.columns.iter().position(|other| *other == column).unwrap();
        if writing.has_header { format!("{{r.{name}}}") } else { format!("{{n.{}}}", at + 1) }
    };
    let quoted = |c: char| match c {
        '\t' => "\"\\t\"".to_owned(),
        '"' => "'\"'".to_owned(),
        c => format!("\"{c}\""),
    };
    let mut head = format!(
        "delimiter = {}\nquote = {}\n",
        quoted(writing.delimiter.into()),
        quoted(writing.quote.into())
    );
    if let Some(prefix) = writing.prefix {
        head += &format!("cell_prefix = \"{prefix}\"\n");
    }
    if !writing.has_header {
        head += &format!("header = false\ncolumns = {}\n", NAMES.len());
    }
    let mut map = format!(
        "decimal_point = \"{}\"\nmerchant = \"{}\"\nevent = \"{}\"\n",
        writing.point,
        place("Shop"),
        place("Event")
    );
    if let Some(group) = writing.group {
        map += &format!("grouping = \"{group}\"\n");
    }
    SHOP.replace("#head", &(head + "empty = true"))
        .replace("#map", &map)
        .replace("{r.Type}", &place("Type"))
        .replace("{r.Order}", &place("Order"))
        .replace("{r.Ref}", &place("Ref"))
        .replace("{r.Amount}", &place("Amount"))
        .replace("{r.Currency}", &place("Cur rency"))
        .replace("{r.Booked}", &place("Booked"))
}

fn entry() -> impl Strategy<Value = (PartnerEntry, String)> {
    let ids = ("[A-Za-z0-9._:-]{1,64}", "[!-~][ -~]{0,60}[!-~]", "[A-Z0-9-]{1,20}", "[!-~]{0,12}");
    let currency = proptest::sample::select(&["VND", "USD", "KWD", "EUR"][..]);
    let seconds = 0_i64..4_000_000_000;
    let note = "[ -~\né\"',;|\t`=]{0,20}";
    (ids, currency, 1_i64..=1_000_000_000_000_000, seconds, any::<bool>(), note).prop_map(
        |((order, provider, merchant, event), currency, minor, seconds, is_refund, note)| {
            let entry = PartnerEntry {
                line: 0,
                merchant_code: Some(MerchantCode::parse(&merchant).unwrap()),
                order_id: Some(OrderId::parse(&order).unwrap()),
                provider_ref: Some(ProviderRef::parse(&provider).unwrap()),
                status: if is_refund { Status::Refunded } else { Status::Success },
                amount: Amount::from_minor(minor).unwrap(),
                currency: Currency::parse(currency).unwrap(),
                at: Time::from_unix_ms(seconds * 1_000),
                paid_at: None,
                event_ref: Some(event)
                    .filter(|e| !e.is_empty())
                    .map(|e| EventRef::parse(&e).unwrap()),
            };
            (entry, note)
        },
    )
}

/// An amount in major units, as this partner writes it.
fn amount(entry: &PartnerEntry, writing: &Writing) -> String {
    let scale = usize::from(entry.currency.exponent());
    let digits = format!("{:0>width$}", entry.amount.minor(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            grouped.extend(writing.group);
        }
        grouped.push(digit);
    }
    let sign = if entry.status == Status::Refunded { "-" } else { "" };
    let point = if fraction.is_empty() { String::new() } else { writing.point.to_string() };
    format!("{sign}{grouped}{point}{fraction}")
}

fn written(entries: &[(PartnerEntry, String)], writing: &Writing) -> Vec<u8> {
    let style =
        if writing.always_quotes { csv::QuoteStyle::Always } else { csv::QuoteStyle::Necessary };
    let end = if writing.crlf { csv::Terminator::CRLF } else { csv::Terminator::Any(b'\n') };
    let mut writer = csv::WriterBuilder::new()
        .delimiter(writing.delimiter)
        .quote(writing.quote)
        .quote_style(style)
        .terminator(end)
        .from_writer(if writing.bom { b"\xef\xbb\xbf".to_vec() } else { Vec::new() });
    if writing.has_header {
        writer.write_record(writing.columns.iter().map(|column| NAMES[*column])).unwrap();
    }
    for (entry, note) in entries {
        let cell = |column: &usize| match NAMES[*column] {
            "Type" => {
                if entry.status == Status::Refunded { "refund" } else { "payment" }.to_owned()
            }
            "Shop" => entry.merchant_code.as_ref().unwrap().to_string(),
            "Order" => entry.order_id.as_ref().unwrap().to_string(),
            "Ref" => entry.provider_ref.as_ref().unwrap().to_string(),
            "Amount" => amount(entry, writing),
            "Cur rency" => entry.currency.to_string(),
            "Booked" => {
                let zone = chrono_tz::Asia::Ho_Chi_Minh;
                let utc = chrono::DateTime::from_timestamp_nanos(entry.at.unix_nanos());
                utc.with_timezone(&zone).format("%Y-%m-%d %H:%M:%S").to_string()
            }
            "Event" => entry.event_ref.as_ref().map(ToString::to_string).unwrap_or_default(),
            _ => note.clone(),
        };
        let prefixed = |cell: String| match writing.prefix {
            // The partner writes the prefix before every value. Without it a value that begins with
            // the prefix character would lose that character.
            Some(prefix) if !cell.is_empty() => format!("{prefix}{cell}"),
            _ => cell,
        };
        writer.write_record(writing.columns.iter().map(|column| prefixed(cell(column)))).unwrap();
    }
    let mut file = writer.into_inner().unwrap();
    if !writing.ends {
        while file.last().is_some_and(|byte| b"\r\n".contains(byte)) {
            file.pop();
        }
    }
    if writing.is_packed { gzipped(&file) } else { file }
}

/// Whether this dialect can express the entry: after the prefix `=`, quotes around a value are
/// lost.
fn is_expressible((entry, _): &(PartnerEntry, String), writing: &Writing) -> bool {
    let texts = [
        entry.provider_ref.as_ref().map(|r| r.as_str().to_owned()),
        entry.event_ref.as_ref().map(|r| r.as_str().to_owned()),
    ];
    let is_wrapped = |text: &String| text.len() > 1 && text.starts_with('"') && text.ends_with('"');
    writing.prefix != Some('=') || !texts.iter().flatten().any(is_wrapped)
}

/// Bytes that are special in a file, and some that are not.
const FILE_BYTES: &[u8] = b"payment,refund\",\n\r\0\xff`=o-1 2026{}[]:";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_written_is_read_back(
        writing in writing(),
        entries in proptest::collection::vec(entry(), 0..12),
        sizes in proptest::collection::vec(1_usize..200, 1..8),
    ) {
        let entries: Vec<_> = entries.into_iter().filter(|e| is_expressible(e, &writing)).collect();
        let spec = spec(&section(&writing));
        let file = written(&entries, &writing);
        // An empty file is always unfit.
        prop_assume!(writing.has_header || !entries.is_empty());
        let (reads, facts) = read(&spec, file.as_slice());
        let facts = facts.map_err(|unfit| TestCaseError::fail(format!("{unfit}")))?;
        let mut back = Vec::new();
        let mut line = 0;
        for read in &reads {
            match read {
                ReadLine::Entry(entry) => {
                    prop_assert!(entry.line > line);
                    line = entry.line;
                    back.push(PartnerEntry { line: 0, ..entry.clone() });
                }
                ReadLine::Ignored { why, .. } => {
                    prop_assert!(why == "the header" || why == "blank");
                }
                ReadLine::Bad { .. } => prop_assert!(false, "{:?}", read),
            }
        }
        let wanted: Vec<_> = entries.iter().map(|(entry, _)| entry.clone()).collect();
        prop_assert_eq!(back, wanted);
        let count = facts.entries + facts.ignored + facts.bad;
        prop_assert_eq!(count, u64::try_from(reads.len()).unwrap());
        let chunks = Chunks { bytes: &file, sizes, reads: 0 };
        prop_assert_eq!(read(&spec, chunks), (reads, Ok(facts)));
    }

    #[test]
    fn any_bytes_have_one_result_however_they_arrive(
        bytes in proptest::collection::vec(proptest::sample::select(FILE_BYTES), 0..400),
        sizes in proptest::collection::vec(1_usize..50, 1..5),
        head in any::<bool>(),
    ) {
        let start: &[u8] = if head { b"Type,Order,Ref,Amount,Currency,Booked\n" } else { b"" };
        let file = [start, bytes.as_slice()].concat();
        let tail = "\n[records.tail]\nlines = 1\n";
        for (section, tail) in [(SHOP, ""), (LINES, ""), (SHOP, tail), (LINES, tail)] {
            let spec = spec(&format!("{section}{tail}"));
            let whole = read(&spec, file.as_slice());
            if let Ok(facts) = &whole.1 {
                let count = facts.entries + facts.ignored + facts.bad;
                prop_assert_eq!(count, u64::try_from(whole.0.len()).unwrap());
            }
            let chunks = Chunks { bytes: &file, sizes: sizes.clone(), reads: 0 };
            prop_assert_eq!(&read(&spec, chunks), &whole);
        }
    }
}

/// A file with records longer than the buffer, in pieces of several sizes.
#[test]
fn a_large_file_is_the_same_in_any_pieces() {
    let spec = spec(SHOP);
    let mut file = b"Type,Order,Ref,Amount,Currency,Booked\n".to_vec();
    for number in 0..4_000 {
        let note = "x".repeat(number % 700);
        let row = format!(
            "payment,o-{number},\"T-{number}{}\",1.00,USD,2026-01-31 00:30:00\n",
            "y".repeat(number % 200)
        );
        file.extend_from_slice(row.as_bytes());
        file.extend_from_slice(format!("fee,\"{note}\n\",,,,\n").as_bytes());
        if number % 1_000 == 999 {
            file.extend_from_slice(format!("fee,{},,,,\n", "z".repeat(70_000)).as_bytes());
        }
    }
    let whole = read(&spec, file.as_slice());
    let facts = whole.1.clone().unwrap();
    assert_eq!((facts.entries, facts.bad), (4_000, 4));
    for size in [997, 8_192, 65_536, 65_537, 262_144] {
        let chunks = Chunks { bytes: &file, sizes: vec![size], reads: 0 };
        assert_eq!(read(&spec, chunks), whole, "{size}");
    }
}
