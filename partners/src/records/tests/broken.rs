//! Files with a record that is too long, files that are packed badly or can't be read, and files
//! with another end than the section describes.

use std::io::{self, Read as _};

use super::hostile::{GOOD, HEAD};
use super::{LINES, SHOP, gzipped, report, spec};
use crate::records::RecordsSpec;
use crate::records::types::RECORD_BYTES_MAX;

#[test]
fn a_record_that_is_too_long_is_bad_and_the_next_one_is_read() {
    let shop = spec(SHOP);
    let of = |length: usize| "x".repeat(length);
    let row = |length: usize| format!("fee,{},,,,\n", of(length - 8));
    let file = |long: &str| format!("{HEAD}{GOOD}{long}{GOOD}");
    let said = |long: &str| report(&shop, file(long).as_bytes());
    assert_eq!(said(&row(RECORD_BYTES_MAX)).len(), 2);
    assert_eq!(said(&row(RECORD_BYTES_MAX))[1], "2 entries, 0 bad");
    let too_long = format!("3 bad: it is longer than {RECORD_BYTES_MAX} bytes");
    for length in [RECORD_BYTES_MAX + 1, RECORD_BYTES_MAX + 2, RECORD_BYTES_MAX + 3, 1_000_000] {
        assert_eq!(said(&row(length)), [too_long.as_str(), "2 entries, 1 bad"], "{length}");
        let windows = row(length).replace('\n', "\r\n");
        assert_eq!(said(&windows), [too_long.as_str(), "2 entries, 1 bad"], "{length}");
    }
    assert_eq!(said(&row(RECORD_BYTES_MAX).replace('\n', "\r\n"))[1], "2 entries, 0 bad");
    let endless = report(&shop, format!("{HEAD}{GOOD}{}", of(300_000)).as_bytes());
    assert!(endless[0].starts_with("unfit: line 3: the file is cut off"), "{endless:?}");
    // An open quote hides the rest of the file. Memory does not grow with it.
    let open = format!("{HEAD}{GOOD}fee,\"{}", row(100).repeat(10_000));
    assert!(
        report(&shop, open.as_bytes())[0].starts_with("unfit: line 3: the quote that column 2")
    );
    let lines = spec(LINES);
    let object = format!("{{\"a\":\"{}\"}}\n", of(RECORD_BYTES_MAX));
    let too_long = format!("1 bad: it is longer than {RECORD_BYTES_MAX} bytes");
    assert_eq!(report(&lines, object.as_bytes())[0], too_long);
}

#[test]
fn gzip_that_is_cut_off_or_damaged_is_unfit() {
    let shop = spec(SHOP);
    let rows = |from: usize| -> String {
        (from..from + 300).map(|n| GOOD.replace("T-1", &format!("T-{n}"))).collect()
    };
    let (first, second) =
        (gzipped(format!("{HEAD}{}", rows(0)).as_bytes()), gzipped(rows(300).as_bytes()));
    assert_eq!(report(&shop, &first), ["300 entries, 0 bad"]);
    let both = [first.clone(), second].concat();
    assert_eq!(report(&shop, &both), ["600 entries, 0 bad"], "members go on one after the other");
    for length in
        [3, 10, 18, 200, first.len() - 8, first.len() - 1, first.len() + 5, both.len() - 1]
    {
        let report = report(&shop, &both[..length]);
        assert!(
            report.last().unwrap().starts_with("unfit: the gzip data is cut off"),
            "{length}: {report:?}"
        );
    }
    let mut damaged = first.clone();
    let at = damaged.len() - 6;
    damaged[at] ^= 1;
    assert!(report(&shop, &damaged).last().unwrap().starts_with("unfit: the gzip data is damaged"));
    let trailed = [first.as_slice(), b"\n"].concat();
    assert!(
        report(&shop, &trailed).last().unwrap().starts_with("unfit: the gzip data is"),
        "{:?}",
        report(&shop, &trailed)
    );
    let twice = gzipped(&first);
    assert_eq!(report(&shop, &twice), ["unfit: it is packed twice; unpack it once"]);
    // 16 MB of one letter in some 70 KB: a line that is too long, and that is not kept in memory.
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    io::copy(&mut io::repeat(b'a').take(16_000_000), &mut bomb).unwrap();
    let report = report(&shop, &bomb.finish().unwrap());
    assert_eq!(
        report,
        [format!(
            "unfit: line 1: the header can't be read: it is longer than {RECORD_BYTES_MAX} bytes"
        )]
    );
}

/// A file of 30 KB that would put 20 MB of lines on the disk.
#[test]
fn a_small_file_does_not_unpack_without_end() {
    let shop = spec(SHOP);
    let line = [&[b'a'; 1_000][..], b"\n"].concat();
    let lines = |count| [HEAD.as_bytes(), GOOD.as_bytes(), &line.repeat(count)].concat();
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    io::copy(&mut lines(20_000).as_slice(), &mut bomb).unwrap();
    let bomb = bomb.finish().unwrap();
    assert!(bomb.len() < 80_000, "{}", bomb.len());
    let report_of = |file: &[u8]| report(&shop, file).pop().unwrap();
    let refused = report_of(&bomb);
    assert!(refused.starts_with("unfit: the gzip data unpacks to over 200 times"), "{refused}");
    assert_eq!(report_of(&gzipped(&lines(10_000))), "1 entries, 10000 bad");
    assert_eq!(report_of(&lines(20_000)), "1 entries, 20000 bad", "its own bytes are no bomb");
}

#[test]
fn a_source_that_fails_makes_the_file_unfit() {
    struct Broken;
    impl io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    let shop = spec(SHOP);
    let source = [HEAD.as_bytes(), GOOD.as_bytes()].concat();
    let read = |source: &mut dyn io::Read| shop.read(source, &mut |_| {}).unwrap_err().to_string();
    let broken = read(&mut source.as_slice().chain(Broken));
    assert_eq!(broken, "the file can't be read: the disk is gone");
    assert_eq!(read(&mut Broken), "the file can't be read: the disk is gone");
}

#[test]
fn a_tail_that_does_not_fit_is_reported() {
    let by_name = "[records.tail]\nwhen = [{ value = \"{n.1}\", is = \"TOTAL\" }]\n\
        count = \"{n.2}\"\nsum = \"{n.3}\"\n";
    let by_name = spec(&format!("{SHOP}\n{by_name}"));
    let last = spec(&format!("{SHOP}\n[records.tail]\nlines = 2\n"));
    let said = |spec: &RecordsSpec, rest: &str| {
        report(spec, format!("{HEAD}{GOOD}{rest}").as_bytes()).pop().unwrap()
    };
    let row = GOOD.replace("USD", "EUR");
    assert_eq!(said(&by_name, "TOTAL,1,10.00\n"), "1 entries, 0 bad");
    for (rest, expected) in [
        ("", "unfit: the tail has 0 of its 1 rows: the file is cut off"),
        (
            "TOTAL,1,10.00\npayment",
            "unfit: line 4: there is a row after the tail: two files in one",
        ),
        ("TOTAL,one,10.00\n", "unfit: line 3: the tail counts \"one\" rows, and 1 stand before it"),
        ("TOTAL,1,-10.00\n", "unfit: line 3: the tail gives a sum of \"-10.00\""),
        ("TOTAL,1\n", "unfit: line 3: the tail has no value for column 3"),
        ("TOTAL,1,\n", "unfit: line 3: the tail has no value for column 3"),
        ("TOTAL,1,\0\n", "unfit: the tail has 0 of its 1 rows"),
        ("payment,o,T,x,USD,2026-01-31 00:30:00\nTOTAL,2,999\n", "1 entries, 1 bad"),
    ] {
        let said = said(&by_name, rest);
        assert!(said.starts_with(expected), "{rest}: {said}");
    }
    assert!(said(&by_name, &format!("{row}TOTAL,2,20.00\n")).contains("are in several currencies"));
    let none = report(&by_name, format!("{HEAD}TOTAL,0,10.00\n").as_bytes()).pop().unwrap();
    assert_eq!(
        none,
        "unfit: line 2: the tail gives a sum of \"10.00\", and there are no entries: fetch the \
         file again"
    );
    let none = report(&by_name, format!("{HEAD}TOTAL,0,0.00\n").as_bytes()).pop().unwrap();
    assert!(none.starts_with("unfit: it has no entries"), "{none}");
    assert_eq!(said(&last, "a\n\nb,,\n"), "1 entries, 0 bad");
    assert!(said(&last, "a\n").starts_with("unfit: it has no entries"));
    let short = report(&last, HEAD.as_bytes()).pop().unwrap();
    assert!(short.starts_with("unfit: the tail has 0 of its 2 rows"), "{short}");
}
