//! Tests of the reading of a partner's file. This file has the valid ones; its submodules have
//! hostile files, mistakes in the section, and properties.

mod broken;
mod cutting;
mod hostile;
mod laws;
mod mistakes;
mod speed;

use std::io::{self, Write};

use payfold_schemas::digest::Digest;
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::ipn::Status;

use super::*;
use crate::profile::{DEFAULT_PROFILE, Profile};

/// A section with CSV, decimal amounts, refunds with a minus, and local times. A test replaces
/// `#head` and `#map` with more keys.
pub(super) const SHOP: &str = r#"
[records]
format = "csv"
zone = "Asia/Ho_Chi_Minh"
refunds = "negative"
#head

[records.map]
order = "{r.Order}"
ref = "{r.Ref}"
amount = "{r.Amount}"
amount_unit = "major"
currency = "{r.Currency}"
at = "{r.Booked}"
at_format = "%Y-%m-%d %H:%M:%S"
#map

[[records.event]]
when = [{ value = "{r.Type}", is = "payment" }]
outcome = "SUCCESS"
[[records.event]]
when = [{ value = "{r.Type}", starts_with = "refund" }]
outcome = "REFUNDED"
[[records.event]]
when = [{ value = "{r.Type}", one_of = ["fee", "payout"] }]
outcome = "ignore"
[[records.event]]
outcome = "refuse"
"#;

/// A section of JSON lines that ignores all other kinds.
pub(super) const LINES: &str = r#"
[records]
format = "jsonl"
zone = "UTC"
#head

[records.map]
merchant = "{r.shop}"
ref = "{r.tx.id}"
amount = "{r.tx.amount}"
currency = "{r.tx.currency}"
at = "{r.at}"
at_format = "rfc3339"
paid_at = "{r.paid}"
event = "{r.tx.refund}"

[[records.event]]
when = [{ value = "{r.tx.refund}", present = true }]
outcome = "REFUNDED"
[[records.event]]
when = [{ value = "{r.tx.id}", present = true }]
outcome = "SUCCESS"
[[records.event]]
outcome = "ignore"
"#;

/// Parses the default profile with this section. Errors: every mistake, by its line in the section.
pub(super) fn parsed(section: &str) -> Result<Profile, Vec<String>> {
    let text = format!("{DEFAULT_PROFILE}\n{section}");
    let lines = DEFAULT_PROFILE.lines().count() + 1;
    Profile::parse(&PartnerCode::parse("acme").unwrap(), &text).map_err(|error| {
        let all = [&error].into_iter().chain(&error.others);
        all.map(|e| format!("{}:{} {}", e.line.saturating_sub(lines), e.column, e.problem))
            .collect()
    })
}

pub(super) fn spec(section: &str) -> RecordsSpec {
    parsed(section).unwrap_or_else(|errors| panic!("{errors:#?}")).records().unwrap().clone()
}

/// The result of every record, and that of the whole file.
pub(super) fn read(
    spec: &RecordsSpec,
    source: impl io::Read,
) -> (Vec<ReadLine>, Result<FileSummary, UnfitFile>) {
    let mut reads = Vec::new();
    let facts = spec.read(source, &mut |read| reads.push(read));
    (reads, facts)
}

/// One line for each bad or ignored record except the header, and one for the whole file.
pub(super) fn report(spec: &RecordsSpec, file: &[u8]) -> Vec<String> {
    let (reads, facts) = read(spec, file);
    let mut report: Vec<String> = (reads.iter())
        .filter_map(|read| match read {
            ReadLine::Entry(_) => None,
            ReadLine::Ignored { why, .. } if why == "the header" => None,
            ReadLine::Ignored { line, why } => Some(format!("{line} ignored: {why}")),
            ReadLine::Bad { line, column, problem } => {
                let column = column.as_ref().map(|c| format!(" {c}")).unwrap_or_default();
                Some(format!("{line} bad{column}: {problem}"))
            }
        })
        .collect();
    report.push(match facts {
        Ok(facts) => format!("{} entries, {} bad", facts.entries, facts.bad),
        Err(unfit) => format!("unfit: {unfit}"),
    });
    report
}

pub(super) fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

fn entries(spec: &RecordsSpec, file: &str) -> Vec<String> {
    let (reads, facts) = read(spec, file.as_bytes());
    facts.unwrap();
    let text = |id: Option<&str>| id.unwrap_or("-").to_owned();
    let one = |read: &ReadLine| match read {
        ReadLine::Entry(e) => Some(format!(
            "{} {} {} {} {} {} {} {} {} {}",
            e.line,
            text(e.merchant_code.as_ref().map(|m| m.as_str())),
            text(e.order_id.as_ref().map(|o| o.as_str())),
            text(e.provider_ref.as_ref().map(|r| r.as_str())),
            e.status,
            e.amount,
            e.currency,
            e.at,
            text(e.paid_at.map(|at| at.to_string()).as_deref()),
            text(e.event_ref.as_ref().map(|r| r.as_str())),
        )),
        ReadLine::Ignored { .. } => None,
        ReadLine::Bad { line, column, problem } => Some(format!("{line} {column:?} {problem}")),
    };
    reads.iter().filter_map(one).collect()
}

#[test]
fn a_settlement_file_lists_payments_and_refunds() {
    let spec = spec(SHOP);
    assert_eq!((spec.match_by(), spec.zone()), (MatchBy::Order, chrono_tz::Asia::Ho_Chi_Minh));
    assert_eq!(spec.lists(), [Status::Success, Status::Refunded]);
    assert_eq!((spec.grace().as_secs(), spec.cut_off().as_secs()), (3_600, 1_800));
    assert_eq!(spec.time_tolerance().map(|span| span.as_secs()), Some(300));
    assert!(!spec.has_dates_only() && spec.file_name().is_none());
    let file = "\u{feff}Ref,Type , Order,Amount,Currency,Booked,Payer\r\n\
        T-1,payment,o-1,150000,VND,2026-01-31 00:30:00,\"Nguyễn, \"\"A\"\"\nB\"\r\n\
        T-2,payment,o-2,12.50,USD,2026-01-31 23:59:59,5\" pipe\r\n\
        \r\n\
        T-3,fee,,,,,\r\n\
        T-1,refund-part,o-1,-50000,VND,2026-02-01 08:00:00,";
    assert_eq!(
        entries(&spec, file),
        [
            "2 - o-1 T-1 SUCCESS 150000 VND 2026-01-30T17:30:00Z - -",
            "4 - o-2 T-2 SUCCESS 1250 USD 2026-01-31T16:59:59Z - -",
            "7 - o-1 T-1 REFUNDED 50000 VND 2026-02-01T01:00:00Z - -",
        ]
    );
    let (reads, facts) = read(&spec, file.as_bytes());
    let facts = facts.unwrap();
    assert_eq!((facts.lines, facts.entries, facts.ignored, facts.bad), (7, 3, 3, 0));
    assert_eq!(facts.sha256, Digest::of_bytes(file.as_bytes()));
    assert_eq!(facts.bytes, u64::try_from(file.len()).unwrap());
    let why = "{r.Type} is one of [\"fee\", \"payout\"]".to_owned();
    assert!(reads.contains(&ReadLine::Ignored { line: 6, why }));
    assert!(reads.contains(&ReadLine::Ignored { line: 5, why: "blank".to_owned() }));
    // The packed file has the same records, and its digest is that of the stored bytes.
    let packed = gzipped(file.as_bytes());
    let (same, stored) = read(&spec, packed.as_slice());
    let stored = stored.unwrap();
    assert_eq!((same, stored.sha256), (reads, Digest::of_bytes(&packed)));
    assert_eq!((stored.lines, stored.bytes), (7, u64::try_from(packed.len()).unwrap()));
}

#[test]
fn json_lines_are_matched_by_ref() {
    let spec = spec(LINES);
    assert_eq!(spec.match_by(), MatchBy::Ref);
    let file = "{\"at\":\"2026-01-31T10:00:00Z\",\"shop\":\"S\",\
        \"paid\":\"2026-01-31T09:59:00+00:00\",\"tx\":{\"id\":7,\"amount\":1500,\
        \"currency\":\"VND\"}}\n\
        {\"hello\":null}\n\
        {\"at\":\"2026-01-31T11:00:00Z\",\"shop\":\"S\",\"tx\":{\"id\":\"7\",\"amount\":\"500\",\
        \"currency\":\"VND\",\"refund\":\"r-1\"}}\n";
    assert_eq!(
        entries(&spec, file),
        [
            "1 S - 7 SUCCESS 1500 VND 2026-01-31T10:00:00Z 2026-01-31T09:59:00Z -",
            "3 S - 7 REFUNDED 500 VND 2026-01-31T11:00:00Z - r-1",
        ]
    );
}

#[test]
fn a_file_of_another_dialect_is_read_by_the_rules_of_the_section() {
    let head = "delimiter = \";\"\nquote = \"'\"\ncell_prefix = \"`=\"\nencoding = \"latin-1\"\n\
        header = false\ncolumns = 6\nskip_head = 2\ncomment = \"#\"\nlists = [\"SUCCESS\"]\n\
        grace_s = 60\nmatch = \"ref\"\nfile = \"day-%Y-%m-%d.csv.gz\"";
    let map = "decimal_point = \",\"\ngrouping = \".\"\n\
        currencies = { 704 = \"VND\", euro = \"EUR\" }\nevent = \"{n.1}:{n.3}[:{n.6}]\"";
    let section = SHOP.replace("#head", head).replace("#map", map);
    let section = section
        .replace("{r.Order}", "{n.2|trim}")
        .replace("{r.Ref}", "{n.3}")
        .replace("{r.Amount}", "{n.4}")
        .replace("{r.Currency}", "{n.5}")
        .replace("{r.Booked}", "{n.6}")
        .replace("{r.Type}", "{n.1|lower}")
        .replace("%Y-%m-%d %H:%M:%S", "%d.%m.%Y");
    let spec = spec(&section);
    assert_eq!((spec.match_by(), spec.time_tolerance()), (MatchBy::Ref, None));
    assert!(spec.has_dates_only());
    assert_eq!(spec.file_name(), Some("day-%Y-%m-%d.csv.gz"));
    let file = b"Umsatz\xfcbersicht; 'half a quote\nof January\n# a comment; 'with a quote\n\
        PAYMENT; o-1 ;`0012;'1.234,50';`euro;31.01.2026\n\
        `refund;o-1;=\"0012\";-12;704;01.02.2026\n";
    let (reads, facts) = read(&spec, file.as_slice());
    assert_eq!(facts.unwrap().ignored, 3);
    let entries: Vec<_> = (reads.iter())
        .filter_map(|read| match read {
            ReadLine::Entry(entry) => Some(entry),
            _ => None,
        })
        .collect();
    assert_eq!(entries.len(), 2, "{reads:#?}");
    let [payment, refund] = entries[..] else { panic!() };
    assert_eq!((payment.amount.minor(), payment.currency.code()), (123_450, "EUR"));
    assert_eq!(payment.order_id.as_ref().unwrap().as_str(), "o-1");
    assert_eq!(payment.provider_ref.as_ref().unwrap().as_str(), "0012");
    assert_eq!(payment.event_ref.as_ref().unwrap().as_str(), "PAYMENT:0012:31.01.2026");
    assert_eq!(payment.at.to_rfc3339(), "2026-01-31T05:00:00Z");
    assert_eq!((refund.amount.minor(), refund.currency.code()), (12, "VND"));
    assert_eq!(refund.provider_ref, payment.provider_ref);
}

#[test]
fn digits_that_are_protected_from_spreadsheets_are_read() {
    let spec = spec(&SHOP.replace("#head", "cell_prefix = \"=`\""));
    let row = |cell: &str| {
        let file = format!(
            "Type,Order,Ref,Amount,Currency,Booked\npayment,o-1,{cell},1,USD,2026-01-31 00:30:00\n"
        );
        entries(&spec, &file)[0].split(' ').nth(3).unwrap().to_owned()
    };
    for (cell, expected) in [
        ("=\"0012\"", "0012"),
        ("\"=\"\"0012\"\"\"", "0012"),
        ("`0012", "0012"),
        ("\"`0012\"", "0012"),
        ("`\"0012\"", "\"0012\""),
        ("=0012", "0012"),
        ("=\"", "\""),
        ("\"=\"\"\"", "\""),
        ("``0012", "`0012"),
        ("\"\"\"0012\"\"\"", "\"0012\""),
    ] {
        assert_eq!(row(cell), expected, "{cell}");
    }
}

#[test]
fn a_tail_is_compared_with_the_rows_before_it() {
    let tail = "[records.tail]\nwhen = [{ value = \"{n.1}\", is = \"TOTAL\" }]\nlines = 2\n\
        row = 2\ncount = \"{n.2}\"\nsum = \"{r.Amount}\"\n";
    let by_name = spec(&format!("{SHOP}\n{tail}"));
    let tail = "[records.tail]\nlines = 2\nrow = 2\ncount = \"{n.2}\"\nsum = \"{r.Amount}\"\n";
    let by_place = spec(&format!("{SHOP}\n{tail}"));
    let rows = "Type,Order,Ref,Amount,Currency,Booked\n\
        payment,o-1,T-1,10.00,USD,2026-01-31 00:30:00\n\
        payment,o-2,T-2,2.50,USD,2026-01-31 00:30:00\n\
        \n\
        fee,,,0.50,,\n\
        refund,o-1,T-1,-3.00,USD,2026-01-31 00:30:00\n";
    for spec in [by_name, by_place] {
        let said = |tail: &str| report(&spec, format!("{rows}{tail}").as_bytes()).pop().unwrap();
        assert_eq!(said("TOTAL,rows\n,4,,9.50\n\n"), "3 entries, 0 bad");
        assert_eq!(said("TOTAL,rows\n\n,4,,9.50"), "3 entries, 0 bad");
        assert!(said("TOTAL,rows\n,3,,9.50\n").contains("counts \"3\" rows, and 4 stand before"));
        assert!(said("TOTAL,rows\n,4,,9.51\n").contains("and the entries come to 950 minor units"));
        assert!(said("TOTAL,rows\n,4\n").contains("the tail has no value for Amount"));
        assert!(
            said("TOTAL,rows\n,\"4\"x,,9.5\n").contains("the tail can't be read: Order: there is")
        );
    }
}

#[test]
fn every_mistake_of_the_profile_is_reported_at_once() {
    let errors = parsed(
        "[records]\nformat = \"csv\"\nzone = \"Mars\"\n[records.map]\norder = \"{x.a}\"\n\
         amount = \"{r.A}\"\ncurrency = \"VND\"\nat = \"{r.B}\"\n[[records.event]]\n\
         outcome = \"PAID\"\n",
    )
    .unwrap_err();
    assert_eq!(errors.len(), 4, "{errors:#?}");
}
