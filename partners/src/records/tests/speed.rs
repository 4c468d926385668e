//! How fast a million lines are read. Run by hand, in release: `cargo test --release --lib -- --ignored a_million`.

use std::io::{self, Write};
use std::time::Instant;

use super::spec;
use crate::records::Read;

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

/// Lines of some 120 bytes and 10 columns, made up as they are read.
struct Lines {
    next: u64,
    count: u64,
    time: &'static str,
    left: Vec<u8>,
}

impl io::Read for Lines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.left.len() < buffer.len() && self.next < self.count {
            let n = self.next;
            let time = self.time.replace("MM", &format!("{:02}", n % 60));
            writeln!(
                self.left,
                "{n:010},payment,SHOP-1,ord-{n:020},TX{n:016},{},VND,{time},card,ok",
                150_000 + n % 1_000
            )?;
            self.next += 1;
        }
        let count = buffer.len().min(self.left.len());
        buffer[..count].copy_from_slice(&self.left[..count]);
        self.left.drain(..count);
        Ok(count)
    }
}

/// How long this thread has run, whoever else wanted the core; ns, 0 where nobody says.
fn cpu_ns() -> u64 {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    said.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or_default()
}

#[test]
#[ignore = "a measurement"]
fn a_million_lines() {
    for (format, time) in [
        ("rfc3339", "2026-01-31T10:MM:00Z"),
        ("%Y-%m-%d %H:%M:%S", "2026-01-31 10:MM:00"),
        ("unix_ms", "17698536MM000"),
        ("%Y-%m-%d", "2026-01-31"),
    ] {
        let spec = spec(&SECTION.replace("FORMAT", format));
        let mut file = b"id,type,merchant,order,ref,amount,currency,booked,method,state\n".to_vec();
        let mut lines = Lines { next: 0, count: 1_000_000, time, left: Vec::new() };
        io::copy(&mut lines, &mut file).unwrap();
        let (begun, on_cpu) = (Instant::now(), cpu_ns());
        let mut entries = 0_u64;
        let facts = spec.read(file.as_slice(), &mut |read| {
            entries += u64::from(matches!(read, Read::Entry(_)));
        });
        let (took, cpu_ms) = (begun.elapsed(), (cpu_ns() - on_cpu) / 1_000_000);
        let facts = facts.unwrap();
        assert_eq!((entries, facts.bad), (1_000_000, 0));
        println!("{format}: {} bytes in {took:?}, {cpu_ms} ms of CPU", facts.bytes);
    }
}
