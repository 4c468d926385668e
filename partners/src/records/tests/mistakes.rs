//! Mistakes in a section, and the report on each.

use super::{LINES, SHOP, parsed};

/// Text in a section => its replacement => part of the error.
const OF_SHOP: &[(&str, &str, &str)] = &[
    ("format = \"csv\"", "format = \"xlsx\"", "3:10 unknown variant `xlsx`"),
    ("format = \"csv\"", "format = \"csv\"\ncolour = 1", "4:1 unknown field `colour`"),
    ("format = \"csv\"", "", "missing field `format`"),
    ("zone = \"Asia/Ho_Chi_Minh\"", "", "missing field `zone`"),
    ("zone = \"Asia/Ho_Chi_Minh\"", "zone = \"+07:00\"", "4:8 records.zone is the time zone"),
    ("refunds = \"negative\"", "refunds = \"minus\"", "5:11 unknown variant `minus`"),
    ("#head", "delimiter = \"::\"", "6:13 records.delimiter is one ASCII character"),
    ("#head", "delimiter = \"0\"", "records.delimiter is one ASCII character"),
    ("#head", "delimiter = \".\"", "records.delimiter is one ASCII character"),
    ("#head", "delimiter = \"\\\"\"", "delimiter, quote and the characters of cell_prefix must"),
    ("#head", "quote = \"ab\"", "records.quote is one ASCII character"),
    ("#head", "cell_prefix = \"a\"", "records.cell_prefix lists characters"),
    ("#head", "cell_prefix = \"\"", "records.cell_prefix lists characters"),
    ("#head", "encoding = \"utf-16\"", "unknown variant `utf-16`"),
    ("#head", "header = false", "without a header records.columns must say"),
    ("#head", "columns = 6", "records.columns is for header = false"),
    ("#head", "header = false\ncolumns = 0", "records.columns must be 1 to 1000"),
    ("#head", "header = false\ncolumns = 6", "{r.Order}: there is no header to find it in"),
    ("#head", "skip_head = 1001", "records.skip_head must be 0 to 1000"),
    (
        "#head",
        "comment = \",\"",
        "records.comment is already the delimiter, the quote or a prefix; choose another character",
    ),
    ("#head", "comment = \"//\"", "records.comment is one ASCII character"),
    ("#head", "lists = []", "records.lists is empty"),
    ("#head", "lists = [\"PAID\"]", "6:10 records.lists takes SUCCESS"),
    ("#head", "lists = [\"FAILED\"]", "no [[records.event]] has outcome = \"FAILED\""),
    ("#head", "lists = [\"SUCCESS\", \"SUCCESS\"]", "SUCCESS is listed twice"),
    ("#head", "grace_s = 2678401", "records.grace_s must be 0 to 2678400"),
    ("#head", "cut_off_s = 43201", "records.cut_off_s must be 0 to 43200"),
    ("#head", "time_tolerance_s = 2678401", "records.time_tolerance_s must be 0 to 2678400"),
    ("#head", "file = \"settlement.csv\"", "6:8 records.file is a name with the day in it"),
    ("#head", "file = \"%d.csv\"", "records.file is a name with the day in it"),
    ("#head", "file = \"%m%d.csv\"", "records.file is the same name on several days"),
    ("#head", "file = \"%Q.csv\"", "records.file is a name with the day in it"),
    ("#head", "file = \"%Y%m%d-%H.csv\"", "records.file is a name with the day in it"),
    ("#head", "file = \"%Y/%m/%d.csv\"", "records.file is a name, without a folder"),
    ("#head", "file = \"../%Y%m%d.csv\"", "records.file is a name, without a folder"),
    (
        "order = \"{r.Order}\"\nref = \"{r.Ref}\"",
        "",
        "an entry must find its order: [records.map] has no place for order or ref",
    ),
    ("order = \"{r.Order}\"", "order = \"{r.Order\"", "a { without its }"),
    (
        "order = \"{r.Order}\"",
        "order = \"{f.Order}\"",
        "there is no document f before this; there are: r, n",
    ),
    (
        "order = \"{r.Order}\"",
        "order = \"{merchant}\"",
        "{merchant} is not read from a line; write {r.NAME} or {n.3}",
    ),
    ("order = \"{r.Order}\"", "order = \"{c.app}\"", "there is no constant app"),
    ("order = \"{r.Order}\"", "order = \"{n.0}\"", "{n.0}: columns are counted from 1"),
    ("order = \"{r.Order}\"", "order = \"{n.first}\"", "{n.first}: columns are counted from 1"),
    ("order = \"{r.Order}\"", "nonce = \"{r.Order}\"", "unknown field `nonce`"),
    ("amount = \"{r.Amount}\"", "", "its lines have no place for amount"),
    ("currency = \"{r.Currency}\"", "", "its lines have no place for currency"),
    ("at = \"{r.Booked}\"", "", "missing field `at`"),
    ("at_format = \"%Y-%m-%d %H:%M:%S\"", "", "a time needs a format"),
    ("%Y-%m-%d %H:%M:%S", "%H:%M:%S", "a pattern must say date and time"),
    ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d%z", "a pattern must say date and time"),
    ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S %Z", "%Z is skipped when a time is read"),
    ("%Y-%m-%d %H:%M:%S", "yesterday", "a format is rfc3339, unix_s, unix_ms or a pattern"),
    ("#map", "at_zone = \"Mars/Olympus\"", "a zone is an offset such as +07:00"),
    ("#map", "paid_at = \"{r.Paid}\"\npaid_at_format = \"%H\"", "a pattern must say date and time"),
    ("#map", "decimal_point = \";\"", "records.map.decimal_point is one of the characters"),
    ("#map", "grouping = \".\"\ndecimal_point = \".\"", "grouping is the decimal point"),
    (
        "amount_unit = \"major\"",
        "amount_unit = \"minor\"\ndecimal_point = \",\"",
        "decimal_point is for amount_unit = \"major\"",
    ),
    ("#map", "currencies = { euro = \"EURO\" }", "currencies.euro must be a currency of ISO 4217"),
    ("#map", "exponents = { VND = 9 }", "exponents.VND must be a currency of ISO 4217 and 0 to 4"),
    ("is = \"payment\"", "is = \"payment\", is_not = \"x\"", "a condition has one of is"),
    (
        "{ value = \"{r.Type}\", is = \"payment\" }",
        "",
        "it has no when, so the events after it are never reached",
    ),
    ("outcome = \"refuse\"", "outcome = \"drop\"", "event.outcome is SUCCESS"),
    ("outcome = \"refuse\"", "outcome = \"refuse\"\nnonce = \"{r.Ref}\"", "an entry has no nonce"),
    (
        "outcome = \"refuse\"",
        "outcome = \"FAILED\"\npaid_at = \"{r.Ref}\"",
        "paid_at of a single event has no format",
    ),
    (
        "outcome = \"refuse\"",
        "when = [{ value = \"{r.Type}\", is = \"x\" }]\noutcome = \"refuse\"",
        "the last [[records.event]] must have no when",
    ),
    ("outcome = \"refuse\"", "outcome = \"refuse\"\n[records.tail]", "records.tail needs when"),
    (
        "outcome = \"refuse\"",
        "outcome = \"refuse\"\n[records.tail]\nlines = 17",
        "records.tail.lines must be 1 to 16",
    ),
    (
        "outcome = \"refuse\"",
        "outcome = \"refuse\"\n[records.tail]\nlines = 2\nrow = 3",
        "records.tail.row must be 1 to 2",
    ),
    (
        "outcome = \"refuse\"",
        "outcome = \"refuse\"\n[records.tail]\nlines = 1\ncount = \"{x.1}\"",
        "there is no document x before this",
    ),
    (
        "outcome = \"refuse\"",
        "outcome = \"refuse\"\n[records.tail]\nlines = 1\ntotal = \"{n.1}\"",
        "unknown field `total`",
    ),
    ("[[records.event]]", "[[records.kind]]", "unknown field `kind`"),
];

const OF_LINES: &[(&str, &str, &str)] = &[
    ("#head", "delimiter = \",\"", "records.delimiter is for format = \"csv\""),
    ("#head", "header = true", "records.header is for format = \"csv\""),
    ("#head", "skip_head = 1", "records.skip_head is for format = \"csv\""),
    (
        "#head",
        "comment = \"{\"",
        "records.comment is already the delimiter, the quote or a prefix; choose another character",
    ),
    ("#head", "match = \"order\"", "[records.map] has no place for order"),
    ("ref = \"{r.tx.id}\"", "ref = \"{n.1}\"", "there is no document n before this; there are: r"),
    ("ref = \"{r.tx.id}\"", "ref = \"{body}\"", "{body} is not read from a line; write {r.PATH}"),
    (
        "at_format = \"rfc3339\"",
        "at_format = \"rfc3339\"\nat_zone = \"UTC\"",
        "a zone is for patterns; remove it",
    ),
];

fn check(section: &str, table: &[(&str, &str, &str)]) {
    let mut missed = Vec::new();
    for (from, to, expected) in table {
        assert!(section.contains(from), "{from}");
        let got = parsed(&section.replacen(from, to, 1)).err().unwrap_or_default();
        if !got.iter().any(|error| error.contains(expected)) {
            missed.push(format!("{from} => {to} => {expected}\n    {got:#?}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// The zone of the days is not lent to it.
#[test]
fn a_pattern_with_an_offset_needs_no_zone() {
    for pattern in ["%+", "%FT%T%z"] {
        let own = parsed(&SHOP.replace("%Y-%m-%d %H:%M:%S", pattern));
        assert!(own.is_ok(), "{pattern}: {:?}", own.err());
    }
}

#[test]
fn a_mistake_is_reported_with_its_place() {
    check(SHOP, OF_SHOP);
    check(LINES, OF_LINES);
}
