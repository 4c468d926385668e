//! Measures how fast a million lines are read. Run by hand, in release: `cargo test --release --lib
//! -- --ignored a_million`.

use std::io::{self, Write};
use std::time::Instant;

use super::spec;
use crate::records::types::ReadLine;

const SECTION: &str = r#"
[records]
format = "csv"
zone = "Asia/Ho_Chi_Minh"
[records.map]
merchant = "{r.merchant}"
order = "{r.order}"
ref = "{r.ref}"
amount = "{r.amount}"
currency = "{r.currency}"
at = "{r.booked}"
at_format = "FORMAT"
[[records.event]]
when = [{ value = "{r.type}", is = "payment" }]
outcome = "SUCCESS"
[[records.event]]
when = [{ value = "{r.type}", is = "refund" }]
outcome = "REFUNDED"
[[records.event]]
outcome = "refuse"
"#;

/// Lines of some 120 bytes and 10 columns, generated while they are read.
struct Lines {
    next: u64,
    count: u64,
    time: &'static str,
    /// All cells stand in quotes.
    is_quoted: bool,
    left: Vec<u8>,
}

impl io::Read for Lines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.left.len() < buffer.len() && self.next < self.count {
            let n = self.next;
            let time = self.time.replace("MM", &format!("{:02}", n % 60));
            let amount = 150_000 + n % 1_000;
            let cells =
                format!("{n:010},payment,SHOP-1,ord-{n:020},TX{n:016},{amount},VND,{time},card,ok");
            if self.is_quoted {
                writeln!(self.left, "\"{}\"", cells.replace(',', "\",\""))?;
            } else {
                writeln!(self.left, "{cells}")?;
            }
            self.next += 1;
        }
        let count = buffer.len().min(self.left.len());
        buffer[..count].copy_from_slice(&self.left[..count]);
        self.left.drain(..count);
        Ok(count)
    }
}

/// The CPU time of this thread in ns; 0 if the system does not report it.
fn cpu_ns() -> u64 {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    schedstat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or_default()
}

#[test]
#[ignore = "a measurement"]
fn a_million_lines() {
    for (format, time, is_quoted) in [
        ("rfc3339", "2026-01-31T10:MM:00Z", false),
        ("rfc3339", "2026-01-31T10:MM:00Z", true),
        ("%Y-%m-%d %H:%M:%S", "2026-01-31 10:MM:00", false),
        ("unix_ms", "17698536MM000", false),
        ("%Y-%m-%d", "2026-01-31", false),
    ] {
        let spec = spec(&SECTION.replace("FORMAT", format));
        let mut file = b"id,type,merchant,order,ref,amount,currency,booked,method,state\n".to_vec();
        let mut lines = Lines { next: 0, count: 1_000_000, time, is_quoted, left: Vec::new() };
        io::copy(&mut lines, &mut file).unwrap();
        let (begun, on_cpu) = (Instant::now(), cpu_ns());
        let mut entries = 0_u64;
        let facts = spec.read(file.as_slice(), &mut |read| {
            entries += u64::from(matches!(read, ReadLine::Entry(_)));
        });
        let (took, cpu_ms) = (begun.elapsed(), (cpu_ns() - on_cpu) / 1_000_000);
        let facts = facts.unwrap();
        assert_eq!((entries, facts.bad), (1_000_000, 0));
        let quoted = if is_quoted { ", quoted" } else { "" };
        println!("{format}{quoted}: {} bytes in {took:?}, {cpu_ms} ms of CPU", facts.bytes);
    }
}
