//! Owns where the ledger's findings lie: a table in a temporary SQLite file, so that memory does not grow with what was
//! ever found. Invariants: a finding is what its highest version says, and of two of one version the first; the file has
//! no name and is gone with the process: `findings` has it all.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use payfold_engines::EngineError;
use payfold_schemas::finding::{Code, FindingChanged, FindingStatus};
use payfold_schemas::ids::{OrderKey, PartnerCode};
use payfold_schemas::money::Currency;
use payfold_schemas::order::{Flag, Severity};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use super::found::LINES_MAX;

/// Findings of one page.
const PAGE: usize = 256;

/// What can be lost is read from the log again, so nothing is synced. `order_key` is the order of what stands, and
/// `whole` says whether it carries all its lines.
const TABLE: &str = "
PRAGMA journal_mode = MEMORY;
PRAGMA synchronous = OFF;
PRAGMA locking_mode = EXCLUSIVE;
CREATE TABLE finding (
    id TEXT PRIMARY KEY, version INTEGER NOT NULL, partner TEXT NOT NULL, day TEXT NOT NULL, run TEXT,
    code TEXT NOT NULL, status INTEGER NOT NULL, severity INTEGER NOT NULL, flag TEXT, currency TEXT, at_risk INTEGER NOT NULL,
    order_key TEXT, whole INTEGER NOT NULL, looked INTEGER, body BLOB NOT NULL
);
CREATE INDEX of_day ON finding (partner, day, id);
CREATE INDEX of_run ON finding (run) WHERE run IS NOT NULL;
CREATE INDEX standing ON finding (partner, code, id) WHERE status < 2;
CREATE INDEX open ON finding (code, severity, flag, currency, at_risk) WHERE status = 0;
CREATE INDEX of_order ON finding (order_key, whole, looked) WHERE order_key IS NOT NULL;
";

const PUT: &str = "
INSERT INTO finding
    (id, version, partner, day, run, code, status, severity, currency, at_risk, order_key, whole, body, flag)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
ON CONFLICT (id) DO UPDATE SET version = ?2, run = ?5, code = ?6, status = ?7, severity = ?8, currency = ?9,
    at_risk = ?10, looked = CASE WHEN order_key IS ?11 THEN looked END, order_key = ?11, whole = ?12, body = ?13
WHERE version < ?2";

/// Why the shelf can't be read or written.
#[derive(Debug, thiserror::Error)]
#[error(
    "can't keep what is known of findings in the data folder: {0}; make room there, else start the program again: it reads \
     them anew"
)]
pub struct ShelfError(#[from] rusqlite::Error);

impl From<ShelfError> for EngineError {
    fn from(error: ShelfError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

type Result<T> = std::result::Result<T, ShelfError>;

/// Which findings; those that all its words hold of.
#[derive(Clone, Copy, Debug, Default)]
pub struct Which<'a> {
    /// Of this partner.
    pub partner: Option<&'a PartnerCode>,
    /// First found on this day.
    pub day: Option<&'a str>,
    /// Of this kind.
    pub code: Option<Code>,
    /// Not cleared.
    pub standing: Option<Standing>,
    /// Behind this id.
    pub after: &'a str,
}

/// What of those that are not cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Open and decided ones.
    All,
    /// What nobody has decided.
    Open,
}

/// An order with findings that stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Watched {
    pub(crate) order: String,
    /// The version at which each of its findings was looked at, if each was.
    pub(crate) looked: Option<u64>,
}

/// The findings.
pub(crate) struct Shelf(Mutex<Connection>);

impl std::fmt::Debug for Shelf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shelf")
    }
}

impl Shelf {
    /// In memory: for who lists and ends.
    pub(crate) fn in_memory() -> Result<Self> {
        Self::over(Connection::open_in_memory()?)
    }

    /// In a file of this folder. Errors: the folder's disk.
    pub(crate) fn in_folder(folder: &Path) -> Result<Self> {
        let unnamed =
            |error: std::io::Error| rusqlite::Error::ToSqlConversionFailure(Box::new(error));
        let file = tempfile::NamedTempFile::new_in(folder).map_err(unnamed)?;
        let shelf = Self::over(Connection::open(file.path())?)?;
        // SQLite has it open; without a name nobody finds it, and a killed process leaves none.
        file.close().map_err(unnamed)?;
        Ok(shelf)
    }

    fn over(connection: Connection) -> Result<Self> {
        connection.execute_batch(TABLE)?;
        Ok(Self(Mutex::new(connection)))
    }

    fn rows(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts next versions; all of them or none.
    pub(crate) fn put(&self, changes: &[FindingChanged]) -> Result<()> {
        let mut rows = self.rows();
        let all = rows.transaction()?;
        let mut put = all.prepare_cached(PUT)?;
        for change in changes {
            let FindingChanged { partner, merchant_code, order_id, .. } = change;
            let stands = change.status != FindingStatus::Cleared;
            let order = merchant_code.as_ref().zip(order_id.as_ref());
            let order = order
                .filter(|_| stands)
                .map(|(merchant_code, order_id)| format!("{partner}/{merchant_code}/{order_id}"));
            let body = serde_json::to_vec(change).expect("what is told is JSON");
            put.execute(params![
                change.finding_id,
                change.version,
                partner.as_str(),
                change.day,
                change.run,
                change.code.as_str(),
                number(change.status),
                loudness(change.severity),
                change.currency.map(|currency| currency.code()),
                change.money_at_risk,
                order,
                change.lines.len() < LINES_MAX,
                body,
                change.flag.map(|flag| flag.as_str())
            ])?;
        }
        drop(put);
        Ok(all.commit()?)
    }

    /// The finding of this id.
    pub(crate) fn find(&self, id: &str) -> Result<Option<FindingChanged>> {
        let rows = self.rows();
        let mut find = rows.prepare_cached("SELECT body FROM finding WHERE id = ?1")?;
        Ok(find.query_row([id], finding).optional()?)
    }

    /// The first two whose ids begin so.
    pub(crate) fn beginning(&self, id: &str) -> Result<Vec<FindingChanged>> {
        let select =
            "SELECT body FROM finding WHERE id >= ?1 AND id < ?1 || '~' ORDER BY id LIMIT 2";
        self.all(select, &[&id], finding)
    }

    /// Findings by id, page by page.
    pub(crate) fn findings<'a>(
        &'a self,
        which: Which<'a>,
    ) -> impl Iterator<Item = Result<FindingChanged>> + 'a {
        let (mut page, mut after) = (Vec::new().into_iter(), Some(which.after.to_owned()));
        std::iter::from_fn(move || {
            loop {
                if let Some(next) = page.next() {
                    return Some(Ok(next));
                }
                match self.page(which, &after.take()?) {
                    Err(error) => return Some(Err(error)),
                    Ok(found) => {
                        after = found.last().map(|last| last.finding_id.clone());
                        page = found.into_iter();
                    }
                }
            }
        })
    }

    fn page(&self, which: Which<'_>, after: &str) -> Result<Vec<FindingChanged>> {
        let (partner, code) =
            (which.partner.map(PartnerCode::as_str), which.code.map(Code::as_str));
        let mut select = "SELECT body FROM finding WHERE id > ?1".to_owned();
        let mut values: Vec<&dyn ToSql> = vec![&after];
        if let Some(partner) = &partner {
            values.push(partner);
            select += &format!(" AND partner = ?{}", values.len());
        }
        if let Some(day) = &which.day {
            values.push(day);
            select += &format!(" AND day = ?{}", values.len());
        }
        if let Some(code) = &code {
            values.push(code);
            select += &format!(" AND code = ?{}", values.len());
        }
        select += match which.standing {
            None => "",
            Some(Standing::All) => " AND status < 2",
            Some(Standing::Open) => " AND status = 0",
        };
        select += &format!(" ORDER BY id LIMIT {PAGE}");
        self.all(&select, &values, finding)
    }

    /// How many findings of a run's, or of a day's, are of each status; of open ones also how many are loud.
    pub(crate) fn count(&self, partner: &PartnerCode, of: Of<'_>) -> Result<Counts> {
        let (column, value) = match of {
            Of::Run(run) => ("run", run),
            Of::Day(day) => ("day", day),
        };
        let select = format!(
            "SELECT status, severity > 0, count(*) FROM finding WHERE partner = ?1 AND {column} = ?2 GROUP BY 1, 2"
        );
        let mut counts = Counts::default();
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        for (status, is_loud, count) in
            self.all::<(u8, bool, i64)>(&select, &[&partner.as_str(), &value], read)?
        {
            let count = count.unsigned_abs();
            match status {
                0 if is_loud => counts.loud += count,
                1 => counts.decided += count,
                2 => counts.cleared += count,
                _ => {}
            }
            if status == 0 {
                counts.open += count;
            }
        }
        Ok(counts)
    }

    /// The day's findings, id and version each, by id.
    pub(crate) fn versions(&self, partner: &PartnerCode, day: &str) -> Result<Vec<String>> {
        let select =
            "SELECT id || '/' || version FROM finding WHERE partner = ?1 AND day = ?2 ORDER BY id";
        self.all(select, &[&partner.as_str(), &day], |row| row.get(0))
    }

    /// What is open.
    pub(crate) fn each_open(&self, mut each: impl FnMut(OpenFinding)) -> Result<()> {
        let rows = self.rows();
        let mut select = rows.prepare_cached(
            "SELECT code, severity, flag, currency, at_risk FROM finding WHERE status = 0",
        )?;
        let mut open = select.query([])?;
        while let Some(row) = open.next()? {
            let code = Code::parse(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?);
            let word = |column: usize| {
                row.get_ref(column)?.as_str_or_null().map_err(rusqlite::Error::from)
            };
            each(OpenFinding {
                code: code.expect("it was written as a word"),
                severity: severity(row.get(1)?),
                flag: word(2)?.and_then(Flag::parse),
                currency: word(3)?.and_then(|code| Currency::parse_stored(code).ok()),
                at_risk: row.get(4)?,
            });
        }
        Ok(())
    }

    /// Orders behind this one with findings that stand and carry all their lines, by key.
    pub(crate) fn watched(&self, after: &str, limit: usize) -> Result<Vec<Watched>> {
        let select = format!(
            "SELECT order_key, CASE WHEN count(looked) = count(*) AND min(looked) = max(looked) THEN min(looked) END
             FROM finding WHERE order_key IS NOT NULL AND order_key > ?1 AND whole
             GROUP BY order_key ORDER BY order_key LIMIT {limit}"
        );
        self.all(&select, &[&after], |row| {
            let looked: Option<i64> = row.get(1)?;
            Ok(Watched { order: row.get(0)?, looked: looked.map(i64::cast_unsigned) })
        })
    }

    /// The findings of an order that stand.
    pub(crate) fn of_order(&self, order: &OrderKey) -> Result<Vec<FindingChanged>> {
        let order = order.to_string();
        let select = "SELECT body FROM finding WHERE order_key = ?1 ORDER BY id";
        self.all(select, &[&order], finding)
    }

    /// An order was looked at as of this version.
    pub(crate) fn looked(&self, order: &OrderKey, version: u64) -> Result<()> {
        let rows = self.rows();
        let mut update =
            rows.prepare_cached("UPDATE finding SET looked = ?2 WHERE order_key = ?1")?;
        update.execute(params![order.to_string(), version.cast_signed()])?;
        Ok(())
    }

    fn all<T>(
        &self,
        select: &str,
        values: &[&dyn ToSql],
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let rows = self.rows();
        let mut select = rows.prepare_cached(select)?;
        let all = select.query_map(values, read)?.collect::<rusqlite::Result<_>>()?;
        Ok(all)
    }
}

/// What is counted of an open finding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenFinding {
    pub(crate) code: Code,
    pub(crate) severity: Severity,
    /// The order's flag it is about.
    pub(crate) flag: Option<Flag>,
    pub(crate) currency: Option<Currency>,
    /// Minor units.
    pub(crate) at_risk: i64,
}

/// Of what findings are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Of<'a> {
    /// What a run changed last.
    Run(&'a str),
    /// First found on a day.
    Day(&'a str),
}

/// How many findings there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) open: u64,
    /// Open, and more than worth knowing.
    pub(crate) loud: u64,
    pub(crate) decided: u64,
    pub(crate) cleared: u64,
}

fn number(status: FindingStatus) -> u8 {
    match status {
        FindingStatus::Open => 0,
        FindingStatus::Decided => 1,
        FindingStatus::Cleared => 2,
    }
}

fn loudness(severity: Severity) -> u8 {
    match severity {
        Severity::Info => 0,
        Severity::Warn => 1,
        Severity::High => 2,
        Severity::Critical => 3,
    }
}

/// The severity of this loudness.
fn severity(loudness: u8) -> Severity {
    match loudness {
        0 => Severity::Info,
        1 => Severity::Warn,
        2 => Severity::High,
        _ => Severity::Critical,
    }
}

fn finding(row: &Row<'_>) -> rusqlite::Result<FindingChanged> {
    let body = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
    serde_json::from_slice(body).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Blob, Box::new(error))
    })
}

#[cfg(test)]
mod tests {
    use payfold_schemas::digest::Digest;
    use payfold_schemas::finding::Side;
    use payfold_schemas::ids::{MerchantCode, OrderId};
    use payfold_schemas::time::Time;

    use super::*;

    fn finding(number: u32, version: u32, status: FindingStatus) -> FindingChanged {
        let side = |value: &str| Side { value: value.to_owned(), source: "here".to_owned() };
        FindingChanged {
            finding_id: format!("{number:032x}"),
            version,
            status,
            code: if number.is_multiple_of(2) { Code::MissingThere } else { Code::CutOff },
            severity: if number.is_multiple_of(2) { Severity::Critical } else { Severity::Info },
            partner: PartnerCode::parse("p").unwrap(),
            merchant_code: Some(MerchantCode::parse("M").unwrap()),
            order_id: Some(OrderId::parse(&format!("o{}", number / 2)).unwrap()),
            reference: None,
            payment_ref: None,
            field: None,
            flag: None,
            ours: side("SUCCESS"),
            partners: side("nothing"),
            money_at_risk: i64::from(number),
            currency: Some(Currency::parse("VND").unwrap()),
            day: if number < 600 { "2026-01-31" } else { "2026-02-01" }.to_owned(),
            first_seen: Time::from_unix_ms(0),
            run: Some(format!("run {version}")),
            evidence: Digest::of_bytes(b"evidence"),
            lines: Vec::new(),
            decision: None,
            earlier_decisions: Vec::new(),
            action: String::new(),
        }
    }

    fn order(id: &str) -> OrderKey {
        OrderKey::parse(&format!("p/M/{id}")).unwrap()
    }

    /// 700 findings of 350 orders; every tenth has cleared, and every tenth is decided.
    fn shelf() -> Shelf {
        let shelf = Shelf::in_memory().unwrap();
        let first = |n| finding(n, 1, FindingStatus::Open);
        shelf.put(&(0..700).map(first).collect::<Vec<_>>()).unwrap();
        let changed = |n| {
            let cleared = n % 20 == 0;
            finding(n, 2, if cleared { FindingStatus::Cleared } else { FindingStatus::Decided })
        };
        shelf.put(&(0..700).step_by(10).map(changed).collect::<Vec<_>>()).unwrap();
        shelf
    }

    #[test]
    fn a_finding_is_what_its_highest_version_says_first() {
        let shelf = Shelf::in_memory().unwrap();
        let (open, decided) = (FindingStatus::Open, FindingStatus::Decided);
        let other = FindingChanged { action: "other".to_owned(), ..finding(1, 2, decided) };
        shelf.put(&[finding(1, 2, open), finding(1, 1, decided), other]).unwrap();
        assert_eq!(shelf.find(&format!("{:032x}", 1)).unwrap(), Some(finding(1, 2, open)));
        shelf.put(&[finding(1, 3, decided)]).unwrap();
        assert_eq!(shelf.find(&format!("{:032x}", 1)).unwrap(), Some(finding(1, 3, decided)));
        assert_eq!(shelf.find("1").unwrap(), None);
    }

    #[test]
    fn each_page_goes_on_where_the_last_one_ended() {
        let shelf = shelf();
        let partner = PartnerCode::parse("p").unwrap();
        let numbers = |which| -> Vec<i64> {
            shelf.findings(which).map(|found| found.unwrap().money_at_risk).collect()
        };
        assert_eq!(numbers(Which::default()), (0..700).collect::<Vec<_>>());
        let after = format!("{:032x}", 690);
        let which = Which { after: &after, ..Which::default() };
        assert_eq!(numbers(which), (691..700).collect::<Vec<_>>());
        let (day, standing) = (Some("2026-02-01"), Some(Standing::All));
        let which = Which { partner: Some(&partner), day, standing, ..Which::default() };
        assert_eq!(numbers(which), (600..700).filter(|n| n % 20 != 0).collect::<Vec<_>>());
        let (code, standing) = (Some(Code::MissingThere), Some(Standing::Open));
        let which = Which { code, standing, ..Which::default() };
        assert_eq!(numbers(which), (0..700).step_by(2).filter(|n| n % 10 != 0).collect::<Vec<_>>());
        let nobody = PartnerCode::parse("q").unwrap();
        assert_eq!(
            numbers(Which { partner: Some(&nobody), ..Which::default() }),
            Vec::<i64>::new()
        );
        assert_eq!(shelf.beginning(&"0".repeat(29)).unwrap().len(), 2);
        assert_eq!(shelf.beginning(&format!("{:032x}", 77)).unwrap().len(), 1);
    }

    #[test]
    fn what_is_counted_is_of_one_day_or_one_run() {
        let shelf = shelf();
        let partner = PartnerCode::parse("p").unwrap();
        let count = |of| shelf.count(&partner, of).unwrap();
        let of_day = Counts { open: 90, loud: 40, decided: 5, cleared: 5 };
        assert_eq!(count(Of::Day("2026-02-01")), of_day);
        let of_run = Counts { open: 0, loud: 0, decided: 35, cleared: 35 };
        assert_eq!(count(Of::Run("run 2")), of_run);
        assert_eq!(count(Of::Run("run 3")), Counts::default());
        let versions = shelf.versions(&partner, "2026-02-01").unwrap();
        assert_eq!((versions.len(), &versions[0]), (100, &format!("{:032x}/2", 600)));
        let mut at_risk = 0;
        shelf
            .each_open(|open| at_risk += i64::from(open.currency.is_some()) * open.at_risk)
            .unwrap();
        assert_eq!(at_risk, (0..700).filter(|n| n % 10 != 0).sum::<i64>());
    }

    #[test]
    fn an_order_is_looked_at_once_until_it_or_its_findings_change() {
        let shelf = Shelf::in_memory().unwrap();
        let put = |changed| shelf.put(&[changed]).unwrap();
        (0..4).for_each(|n| put(finding(n, 1, FindingStatus::Open)));
        let watched = |after: &str| shelf.watched(after, 10).unwrap();
        let is = |order: &str, looked| Watched { order: order.to_owned(), looked };
        assert_eq!(watched(""), [is("p/M/o0", None), is("p/M/o1", None)]);
        shelf.looked(&order("o0"), 7).unwrap();
        assert_eq!(watched(""), [is("p/M/o0", Some(7)), is("p/M/o1", None)]);
        assert_eq!(watched("p/M/o0"), [is("p/M/o1", None)]);
        assert_eq!(shelf.of_order(&order("o0")).unwrap().len(), 2);
        // What changed while the order did not is no reason to look again; what came back is.
        put(finding(0, 2, FindingStatus::Decided));
        assert_eq!(watched("")[0], is("p/M/o0", Some(7)));
        put(finding(0, 3, FindingStatus::Cleared));
        put(finding(1, 3, FindingStatus::Cleared));
        assert_eq!(watched(""), [is("p/M/o1", None)]);
        put(finding(0, 4, FindingStatus::Open));
        assert_eq!(watched("")[0], is("p/M/o0", None));
    }

    #[test]
    fn its_file_has_no_name_and_a_full_disk_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let shelf = Shelf::in_folder(folder.path()).unwrap();
        shelf
            .put(&(0..3_000).map(|n| finding(n, 1, FindingStatus::Open)).collect::<Vec<_>>())
            .unwrap();
        assert_eq!(shelf.findings(Which::default()).count(), 3_000);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let nowhere = Shelf::in_folder(std::path::Path::new("/nowhere/at/all")).unwrap_err();
        assert!(nowhere.to_string().contains("in the data folder"), "{nowhere}");
        // As good as full.
        shelf.rows().execute_batch("PRAGMA max_page_count = 1").unwrap();
        let more: Vec<_> = (3_000..9_000).map(|n| finding(n, 1, FindingStatus::Open)).collect();
        assert!(shelf.put(&more).unwrap_err().to_string().contains("make room"));
        assert_eq!(shelf.findings(Which::default()).count(), 3_000, "all of a page or none");
    }
}
