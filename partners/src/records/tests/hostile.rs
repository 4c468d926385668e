//! Files that are cut off, doubled, wrongly encoded, packed badly or otherwise wrong, and the
//! report on each.

use super::{LINES, SHOP, report, spec};
use crate::records::RecordsSpec;

pub(super) const HEAD: &str = "Type,Order,Ref,Amount,Currency,Booked\n";
pub(super) const GOOD: &str = "payment,o-1,T-1,10.00,USD,2026-01-31 00:30:00\n";

/// Settings added to the section, the file after its header and one good row, and part of the
/// report.
const ROWS: &[(&str, &str, &str)] = &[
    ("", "payment,o-2,T-2,10.00,USD,2026-01-31 00:30:00", "2 entries, 0 bad"),
    ("", "payment,o-2,T-2,10.00,USD\n", "3 bad: it has 5 columns, not 6: is it cut off?"),
    (
        "",
        "payment,o-2,T-2,10.00,US",
        "unfit: line 3: the file is cut off: its last line has no end, and it has 5 columns, not 6",
    ),
    (
        "",
        "payment,o-2,T-2,10.00,USD,2026-01-31 00:3",
        "unfit: line 3: the file is cut off: its last line has no end, and Booked: \"2026-01-31 \
         00:3\" is not a time",
    ),
    (
        "",
        "payment,o-2,T-2,10.00,USD,2026-01-",
        "unfit: line 3: the file is cut off: its last line has no end, and Booked: \"2026-01-\" is \
         not a time",
    ),
    (
        "",
        "payment,o-2,T-2,10,00,USD,2026-01-31 00:30:00\n",
        "3 bad: it has 7 columns, not 6: a delimiter in a cell without quotes?",
    ),
    ("", "payment,o-2,T-2,10.00,USD,2026-01-31 00:30:00,\n", "3 bad: it has 7 columns, not 6"),
    (
        "",
        "payment,\"o-2,T-2,10.00,USD,2026-01-31 00:30:00\n",
        "unfit: line 3: the quote that column 2 begins with is not closed",
    ),
    (
        "",
        "payment,\"o-2\"x,T-2,10.00,USD,2026-01-31 00:30:00\n",
        "3 bad Order: there is text after its closing quote",
    ),
    (
        "",
        "payment,\"o-2\" ,T-2,10.00,USD,2026-01-31 00:30:00\n",
        "3 bad Order: there is text after its closing quote",
    ),
    (
        "",
        "payment,\"o-2\"x,T-2",
        "unfit: line 3: the file is cut off: its last line has no end, and Order: there is text \
         after its closing",
    ),
    (
        "",
        "payment,\"o\n2\",T-2,10.00,USD,2026-01-31 00:30:00\npayment,x,x,x,x,x\n",
        "3 bad Order: \"o\\n2\" can't be used: orderId has an illegal character at byte 1",
    ),
    (
        "",
        "payment,\"o\n2\",T-2,10.00,USD,2026-01-31 00:30:00\npayment,x,x,x,x,x\n",
        "5 bad Currency: \"x\" is not a currency of ISO 4217",
    ),
    (
        "",
        "payment,o-2,T-2,10.00,USD,2026-01-31 00:30:00\rpayment,o-3,T-3,10.00,USD,2026-01-31 \
         00:30:00\r",
        "unfit: line 3: the file is cut off: its last line has no end, and it has 11 columns",
    ),
    (
        "",
        "Type,Order,Ref,Amount,Currency,Booked\n",
        "unfit: line 3: the header is here again: this is two files in one; give each file by \
         itself",
    ),
    (
        "",
        "payment,,T-2,10.00,USD,2026-01-31 00:30:00\n",
        "3 bad Order: it is empty, and every entry needs a value here",
    ),
    (
        "",
        "payment,o 2,T-2,10.00,USD,2026-01-31 00:30:00\n",
        "3 bad Order: \"o 2\" can't be used: orderId has an illegal character at byte 1",
    ),
    ("", "payment,o-2,T-2,,USD,2026-01-31 00:30:00\n", "3 bad Amount: it is empty"),
    (
        "",
        "payment,o-2,T-2,10.005,USD,2026-01-31 00:30:00\n",
        "3 bad Amount: \"10.005\" is not an exact number of minor units of USD",
    ),
    (
        "",
        "payment,o-2,T-2,\"1,000.00\",USD,2026-01-31 00:30:00\n",
        "3 bad Amount: \"1,000.00\" is not an exact number of minor units",
    ),
    (
        "",
        "payment,o-2,T-2,1e3,USD,2026-01-31 00:30:00\n",
        "3 bad Amount: \"1e3\" is not an exact number",
    ),
    (
        "",
        "payment,o-2,T-2,NaN,USD,2026-01-31 00:30:00\n",
        "3 bad Amount: \"NaN\" is not an exact number",
    ),
    (
        "",
        "payment,o-2,T-2,$10,USD,2026-01-31 00:30:00\n",
        "3 bad Amount: \"$10\" is not an exact number",
    ),
    (
        "",
        "payment,o-2,T-2,0.00,USD,2026-01-31 00:30:00\n",
        "3 bad Amount: \"0.00\" is not between 1 and 1000000000000000 minor units of USD",
    ),
    (
        "",
        "payment,o-2,T-2,99999999999999999999999999999999999999999,USD,2026-01-31 00:30:00\n",
        "3 bad Amount: \"9999999999999999999999999999999999999999\"… is not an exact number",
    ),
    (
        "",
        "payment,o-2,T-2,-10.00,USD,2026-01-31 00:30:00\n",
        "3 bad Amount: \"-10.00\" has a minus, and SUCCESS is not a refund",
    ),
    (
        "",
        "refund,o-2,T-2,10.00,USD,2026-01-31 00:30:00\n",
        "3 bad Amount: \"10.00\" is a refund without a minus",
    ),
    (
        "",
        "payment,o-2,T-2,10.00,usd,2026-01-31 00:30:00\n",
        "3 bad Currency: \"usd\" is not a currency of ISO 4217",
    ),
    ("", "payment,o-2,T-2,10.00,,2026-01-31 00:30:00\n", "3 bad Currency: it is empty"),
    (
        "",
        "payment,o-2,T-2,10.00,USD,31/01/2026\n",
        "3 bad Booked: \"31/01/2026\" is not a time in the profile's format",
    ),
    (
        "",
        "payment,o-2,T-2,10.00,USD,2026-02-30 00:30:00\n",
        "3 bad Booked: \"2026-02-30 00:30:00\" is not a time",
    ),
    ("", "payment,o-2,T-2,10.00,USD,\n", "3 bad Booked: it is empty"),
    (
        "",
        "chargeback,o-2,T-2,10.00,USD,2026-01-31 00:30:00\n",
        "3 bad: the profile refuses lines of this kind: no other kind",
    ),
    (
        "",
        ",o-2,T-2,10.00,USD,2026-01-31 00:30:00\n",
        "3 bad: the profile refuses lines of this kind",
    ),
    ("", "fee,,,1,USD,\n", "3 ignored: {r.Type} is one of [\"fee\", \"payout\"]"),
    ("", "\n", "3 ignored: blank"),
    ("", ",,,,,\n", "3 ignored: blank"),
    ("", " \t \n", "3 ignored: blank"),
    ("", "# made by acme\n", "3 bad: it has 1 columns, not 6"),
    ("comment = \"#\"", "# made by acme, \"2026\n", "3 ignored: a comment"),
    (
        "",
        "payment,o-2,T-2,10.00,USD,2026-01-31 00:30:00\0\n",
        "3 bad Booked: there is a NUL at byte 46",
    ),
    (
        "",
        "payment\u{feff},o-2,T-2,10.00,USD,2026-01-31 00:30:00\n",
        "3 bad: the profile refuses lines of this kind",
    ),
    (
        "quote = \"\"",
        "payment,\"o-2\",T-2,10.00,USD,2026-01-31 00:30:00\n",
        "3 bad Order: \"\\\"o-2\\\"\" can't be used: orderId has an illegal character at byte 0",
    ),
    (
        "cell_prefix = \"`\"",
        "payment,``o-2,T-2,10.00,USD,2026-01-31 00:30:00\n",
        "3 bad Order: \"`o-2\" can't be used",
    ),
    ("", "payment,`o-2,T-2,10.00,USD,2026-01-31 00:30:00\n", "3 bad Order: \"`o-2\" can't be used"),
    ("", "=HYPERLINK(1),o-2,T-2,10.00,USD,2026-01-31 00:30:00\n", "3 bad: the profile refuses"),
];

/// Settings added to the section, a whole file, and part of the report.
const WHOLE: &[(&str, &[u8], &str)] = &[
    ("", b"", "unfit: the file is empty"),
    ("empty = true", b"", "unfit: the file is empty"),
    ("", b"\n\n", "unfit: there is no header: the file is empty or cut off"),
    ("", b"\xef\xbb\xbf", "unfit: the file is empty"),
    (
        "",
        b"Type,Order,Ref,Amount,Currency,Booked\n",
        "unfit: it has no entries; if a day without payments looks like this, set \
         records.empty = true",
    ),
    ("empty = true", b"Type,Order,Ref,Amount,Currency,Booked\n", "0 entries, 0 bad"),
    ("", b"Type,Order,Ref,Amount,Currency,Booked\nfee,,,,,\n", "unfit: it has no entries"),
    (
        "",
        b"Type;Order;Ref;Amount;Currency;Booked\n",
        "unfit: line 1: the header has no column \"Type\"; it has \
         \"Type;Order;Ref;Amount;Currency;Booked\": the delimiter differs",
    ),
    (
        "",
        b"Type,Order,Ref,Sum,Currency,Booked\n",
        "the header has no column \"Amount\"; it has \"Type\", \"Order\", \"Ref\", \"Sum\"",
    ),
    (
        "",
        b"type,order,ref,amount,currency,booked\n",
        "the header has no column \"Type\"; it has \"type\"",
    ),
    (
        "",
        b"Type,Order,Ref,Amount,Currency,Booked,Amount\n",
        "unfit: line 1: the header has \"Amount\" twice, in columns 4 and 7; write {n.4} or {n.7}",
    ),
    ("", b"Type,Order,Ref,Amount,Currency,Booked,Fee,Fee\n", "unfit: it has no entries"),
    (
        "",
        b"payment,o-1,T-1,10.00,USD,2026-01-31 00:30:00\n",
        "the header has no column \"Type\"; it has \"payment\"",
    ),
    (
        "",
        b"Type,Order,\xfcRef,Amount,Currency,Booked\n",
        "unfit: line 1: the header can't be read: column 3: it is not UTF-8 at byte 12",
    ),
    ("", b"Type,\"Order,Ref\n", "unfit: line 1: the quote that column 2 begins with is not closed"),
    ("skip_head = 2", b"Settlement\n", "unfit: it ends within the 2 lines of records.skip_head"),
    ("skip_head = 2", b"Settlement\nof today\n", "unfit: there is no header"),
    (
        "skip_head = 1",
        b"Settlement\nType,Order\n",
        "unfit: line 2: the header has no column \"Ref\"",
    ),
    ("", b"\xff\xfeT\0y\0p\0e\0", "unfit: it is UTF-16; convert it to UTF-8"),
    ("", b"\xfe\xff\0T\0y\0p\0e", "unfit: it is UTF-16; convert it to UTF-8"),
    ("", b"T\0y\0p\0e\0,\0", "unfit: it looks like UTF-16"),
    ("", b"\0T\0y\0p\0e\0,", "unfit: it looks like UTF-16"),
    ("", b"PK\x03\x04\x14\0", "unfit: it is a zip archive or a spreadsheet"),
    ("", b"\xd0\xcf\x11\xe0\xa1\xb1", "unfit: it is a spreadsheet, not text"),
    ("", b"%PDF-1.7\n", "unfit: it is a PDF"),
    (
        "",
        b"<!DOCTYPE html><html>Please log in</html>",
        "unfit: it begins like HTML or XML: an error page in place of the file?",
    ),
    ("", b"\x1f\x8b", "unfit: the gzip data is cut off"),
    ("", b"\x1f\x8bnot gzip at all", "unfit: the gzip data is damaged"),
    ("", b"{\"error\":\"no such report\"}\n", "the header has no column"),
];

/// A whole file of JSON lines, and part of the report.
const OBJECTS: &[(&[u8], &str)] = &[
    (b"", "unfit: the file is empty"),
    (b"{}\n", "unfit: it has no entries"),
    (b"[]\n", "1 bad: it is JSON, but not an object"),
    (b"1\n", "1 bad: it is JSON, but not an object"),
    (b"{} {}\n", "1 bad: it is not a JSON object"),
    (b"{\"a\":1,}\n", "1 bad: it is not a JSON object"),
    (b"{\"a\":1,\"a\":2}\n", "1 bad: it has a name twice"),
    (b"{\"a\":{\"b\":1,\"\\u0062\":2}}\n", "1 bad: it has a name twice"),
    (b"{\"tx\":{\"id\":7},\"z\":\"\\ud800\"}\n", "1 bad shop: it is empty"),
    (b"{\"tx\":{\"id\":7},\"shop\":\"\\ud800\"}\n", "1 bad shop: it has half of a surrogate pair"),
    (b"{\"a\":[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]}\n", "1 bad: it is nested too deeply"),
    (b"{\"a\":\"\xff\"}\n", "1 bad: it is not UTF-8 at byte 7"),
    (b"{\"a\":\0}\n", "1 bad: there is a NUL at byte 6"),
    (
        b"{\"tx\":{\"id\":\"7\"",
        "unfit: line 1: the file is cut off: its last line has no end, and it is not a JSON object",
    ),
    (b"{\"tx\":{\"id\":7}}\n", "1 bad shop: it is empty"),
    (b"{\"shop\":\"S\",\"tx\":{\"id\":{}}}\n", "1 bad tx.id: it is an object or an array"),
    (
        b"{\"shop\":\"S\",\"tx\":{\"id\":\"7\",\"amount\":1.5,\"currency\":\"USD\"}}\n",
        "1 bad tx.amount: \"1.5\" is not an exact number",
    ),
    (
        b"{\"shop\":\"S\",\"tx\":{\"id\":\"7\",\"amount\":1e2,\"currency\":\"USD\"}}\n",
        "1 bad tx.amount: \"1e2\" is not an exact number",
    ),
    (
        b"{\"shop\":\"S\",\"tx\":{\"id\":\"7\",\"amount\":true,\"currency\":\"USD\"}}\n",
        "1 bad tx.amount: \"true\" is not an exact number",
    ),
    (
        b"{\"shop\":\"S\",\"tx\":{\"id\":\"7\",\"amount\":15,\"currency\":null}}\n",
        "1 bad tx.currency: it is empty",
    ),
    (
        b"{\"shop\":\"S\",\"tx\":{\"id\":\"7\",\"amount\":15,\"currency\":\"USD\"},\
          \"at\":\"2026-01-31\"}\n",
        "1 bad at: \"2026-01-31\" is not a time",
    ),
    (
        b"{\"shop\":\"S\",\"tx\":{\"id\":\"7\",\"amount\":15,\"currency\":\"USD\"},\
          \"at\":\"2026-01-31T10:00:00Z\",\"paid\":\"soon\"}\n",
        "1 bad paid: \"soon\" is not a time",
    ),
    (b"\r\n{}\r\n", "1 ignored: blank"),
    (b"shop,tx\nS,7\n", "1 bad: it is not a JSON object"),
];

fn expect(spec: &RecordsSpec, file: &[u8], expected: &str) -> Option<String> {
    let report = report(spec, file);
    let is_met = report.iter().any(|line| line.contains(expected));
    (!is_met).then(|| format!("{:?}\n  {expected}\n  {report:#?}", String::from_utf8_lossy(file)))
}

#[test]
fn every_fault_is_reported() {
    assert!(ROWS.len() + WHOLE.len() + OBJECTS.len() > 90);
    let lines = spec(LINES);
    let shop = |head: &str| spec(&SHOP.replace("#head", head));
    let rows = ROWS.iter().filter_map(|(head, rows, expected)| {
        expect(&shop(head), format!("{HEAD}{GOOD}{rows}").as_bytes(), expected)
    });
    let whole =
        WHOLE.iter().filter_map(|(head, file, expected)| expect(&shop(head), file, expected));
    let objects = OBJECTS.iter().filter_map(|(file, expected)| expect(&lines, file, expected));
    let missed: Vec<_> = rows.chain(whole).chain(objects).collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn without_a_header_every_row_has_the_columns_of_the_section() {
    let numbers =
        [("Type", 1), ("Order", 2), ("Ref", 3), ("Amount", 4), ("Currency", 5), ("Booked", 6)];
    let section = numbers.iter().fold(SHOP.to_owned(), |section, (name, number)| {
        section.replace(&format!("{{r.{name}}}"), &format!("{{n.{number}}}"))
    });
    let spec = spec(&section.replace("#head", "header = false\ncolumns = 6"));
    assert_eq!(report(&spec, GOOD.as_bytes()), ["1 entries, 0 bad"]);
    let report = report(&spec, format!("{GOOD}payment,o-2,T-2,x,USD\n").as_bytes());
    assert_eq!(report[0], "2 bad: it has 5 columns, not 6: is it cut off?");
    let report = super::report(&spec, format!("payment,o-2,T-2,x,USD,\n{GOOD}").as_bytes());
    assert_eq!(
        report[0],
        "1 bad column 4: \"x\" is not an exact number of minor units of USD in the format of \
         records.map"
    );
}

#[test]
fn bytes_of_another_encoding_are_reported() {
    let shop = spec(SHOP);
    let file = [HEAD.as_bytes(), GOOD.as_bytes(), b"fee,,\xfc,,,\n"].concat();
    assert_eq!(report(&shop, &file)[0], "3 bad Ref: it is not UTF-8 at byte 6");
    let latin = spec(&SHOP.replace("#head", "encoding = \"latin-1\""));
    assert_eq!(report(&latin, &file)[0], "3 ignored: {r.Type} is one of [\"fee\", \"payout\"]");
    let file = [HEAD.as_bytes(), GOOD.as_bytes(), b"payment,o-\xfc,T,1,USD,2026-01-31 00:30:00\n"]
        .concat();
    assert!(report(&latin, &file)[0].starts_with("3 bad Order: \"o-ü\" can't be used"));
}
