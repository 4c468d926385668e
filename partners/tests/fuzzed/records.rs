//! Owns the check of the reading of a partner's file: no file makes it panic, the result does not
//! depend on how the bytes arrive, every record is reported once and in order, and every entry is
//! valid.

use std::io;
use std::sync::LazyLock;

use payfold_partners::profile::Profile;
use payfold_partners::records::{
    FileSummary, MatchBy, PartnerEntry, ReadLine, RecordsSpec, UnfitFile,
};
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::money::Amount;

use super::known::PARTNER;

/// The `[records]` sections. Each is read after the head of the sandbox's profile. A new section is
/// added at the end, because the files of the corpus select a section by its index.
const SECTIONS: [&str; 4] = [
    include_str!("records/settlement.toml"),
    include_str!("records/numbered.toml"),
    include_str!("records/tail.toml"),
    include_str!("records/lines.toml"),
];

static SPECS: LazyLock<Vec<RecordsSpec>> = LazyLock::new(|| {
    let (head, _) = payfold_partners::profile::SANDBOX_PROFILE
        .split_once("[records]")
        .expect("the sandbox's profile has [records]");
    let partner = PartnerCode::parse(PARTNER).expect("a partner code");
    let spec = |section: &&str| {
        let profile = Profile::parse(&partner, &format!("{head}{section}"));
        let profile = profile.unwrap_or_else(|error| panic!("{error}"));
        profile.records().cloned().expect("it has a section")
    };
    SECTIONS.iter().map(spec).collect()
});

/// The first byte selects the section, the second the size of the pieces in which the rest arrives.
/// The rest is a file.
pub fn records(bytes: &[u8]) {
    let [selector, size, file @ ..] = bytes else { return };
    let spec = &SPECS[usize::from(*selector) % SPECS.len()];
    let whole = read_all(spec, file);
    let pieces = read_all(spec, Pieces { left: file, size: usize::from(*size) + 1 });
    assert_eq!(whole, pieces, "the result does not depend on how the bytes arrive");
    let (reads, facts) = whole;
    let mut last = 0;
    let (mut entries, mut ignored, mut bad) = (0_u64, 0_u64, 0_u64);
    for read in &reads {
        let line = match read {
            ReadLine::Entry(entry) => {
                entries += 1;
                sound(spec, entry);
                entry.line
            }
            ReadLine::Ignored { line, why } => {
                ignored += 1;
                assert!(!why.is_empty());
                *line
            }
            ReadLine::Bad { line, problem, .. } => {
                bad += 1;
                assert!(!problem.is_empty());
                *line
            }
        };
        assert!(line > last, "line {line} after line {last}");
        last = line;
    }
    match facts {
        Ok(facts) => {
            assert_eq!((facts.entries, facts.ignored, facts.bad), (entries, ignored, bad));
            assert!(last <= facts.lines);
            assert_eq!(facts.bytes, u64::try_from(file.len()).expect("a length"));
        }
        Err(unfit) => assert!(!unfit.problem.is_empty()),
    }
}

/// The result of a file as text, for tests.
pub fn fate(bytes: &[u8]) -> String {
    let [selector, _, file @ ..] = bytes else { return String::new() };
    let (_, facts) = read_all(&SPECS[usize::from(*selector) % SPECS.len()], file);
    facts.map_or_else(|unfit| unfit.to_string(), |facts| format!("{} entries", facts.entries))
}

fn read_all(
    spec: &RecordsSpec,
    source: impl io::Read,
) -> (Vec<ReadLine>, Result<FileSummary, UnfitFile>) {
    let mut reads = Vec::new();
    let facts = spec.read(source, &mut |read| reads.push(read));
    (reads, facts)
}

fn sound(spec: &RecordsSpec, entry: &PartnerEntry) {
    match spec.match_by() {
        MatchBy::Order => assert!(entry.order_id.is_some()),
        MatchBy::Ref => assert!(entry.provider_ref.is_some()),
    }
    assert_eq!(Amount::from_minor(entry.amount.minor()), Ok(entry.amount));
}

struct Pieces<'b> {
    left: &'b [u8],
    size: usize,
}

impl io::Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.size.min(buffer.len()).min(self.left.len());
        let (now, later) = self.left.split_at(count);
        buffer[..count].copy_from_slice(now);
        self.left = later;
        Ok(count)
    }
}
