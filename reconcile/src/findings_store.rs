//! Owns the storage of the ledger's findings and, for readers, of people's actions: tables in a
//! temporary SQLite file, so memory does not grow with their number. Invariants: a stored finding
//! is the highest version read, and of two events with the same version the first. The file has no
//! name and ends with the process, because the `findings` topic holds everything.

mod actions;
mod counts;
mod table;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use payfold_engines::EngineError;
use payfold_schemas::finding::{Code, FindingChanged, FindingStatus};
use payfold_schemas::ids::{OrderKey, PartnerCode};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

pub use self::actions::ActionFilter;
pub use self::counts::DayFindings;
pub(crate) use self::counts::{CountScope, OpenFinding, StatusCounts};
use self::table::{TABLE, UPSERT, finding, severity_number, status_number};
use super::detected_finding::LINES_MAX;
use super::person_action::PersonAction;

/// Findings that one page query returns.
const PAGE: usize = 256;

/// A read or write of the findings store failed.
#[derive(Debug, thiserror::Error)]
#[error(
    "can't store the known findings in the data folder: {0}; free disk space there, else restart \
     the program: it builds the findings store from the log again"
)]
pub struct FindingsStoreError(#[from] rusqlite::Error);

impl From<FindingsStoreError> for EngineError {
    fn from(error: FindingsStoreError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

type Result<T> = std::result::Result<T, FindingsStoreError>;

/// Selects findings; a finding is selected if every field that is set holds for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct FindingFilter<'a> {
    /// Findings of this partner's records.
    pub partner: Option<&'a PartnerCode>,
    /// Findings of this day of the partner, `2026-01-31`.
    pub day: Option<&'a str>,
    /// Findings with this code.
    pub code: Option<Code>,
    /// Uncleared findings of this order, `partner/merchantCode/orderId`.
    pub order: Option<&'a OrderKey>,
    /// The finding with this id.
    pub id: Option<&'a str>,
    /// Findings of these statuses; `None` selects cleared ones too.
    pub status: Option<StatusFilter>,
    /// Only findings that people have decided, whether the decision holds or not.
    pub with_decisions: bool,
    /// Findings with an id that sorts after this one.
    pub after: &'a str,
}

/// Which uncleared findings are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusFilter {
    /// Open and decided findings.
    Uncleared,
    /// Open findings: no final decision.
    Open,
    /// Open findings with a first decision that waits for a second person.
    Waiting,
}

/// An order with uncleared findings that carry all their lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrderToRecheck {
    pub(crate) order: String,
    /// The version of the order at which all of its findings were last rechecked. `None` if a
    /// finding was not rechecked, or if the findings were rechecked at different versions.
    pub(crate) checked_version: Option<u64>,
}

/// The stored findings, behind one SQLite connection.
pub(crate) struct FindingsStore(Mutex<Connection>);

impl std::fmt::Debug for FindingsStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FindingsStore")
    }
}

impl FindingsStore {
    /// An empty store in memory, for commands that list findings and end.
    pub(crate) fn in_memory() -> Result<Self> {
        Self::with_connection(Connection::open_in_memory()?)
    }

    /// An empty store in a temporary file of this folder. Errors: the file cannot be made or
    /// opened.
    pub(crate) fn in_folder(folder: &Path) -> Result<Self> {
        let unnamed =
            |error: std::io::Error| rusqlite::Error::ToSqlConversionFailure(Box::new(error));
        let file = tempfile::NamedTempFile::new_in(folder).map_err(unnamed)?;
        let store = Self::with_connection(Connection::open(file.path())?)?;
        // SQLite keeps the file open, so the name can go now: a killed process then leaves no file
        // behind.
        file.close().map_err(unnamed)?;
        Ok(store)
    }

    fn with_connection(connection: Connection) -> Result<Self> {
        connection.execute_batch(TABLE)?;
        connection.execute_batch(actions::TABLE)?;
        Ok(Self(Mutex::new(connection)))
    }

    fn rows(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores these versions, all of them or none, and says of each whether it was stored: a
    /// version that is not higher than the stored one is ignored.
    pub(crate) fn upsert(&self, changes: &[FindingChanged]) -> Result<Vec<bool>> {
        let mut rows = self.rows();
        let all = rows.transaction()?;
        let mut upsert = all.prepare_cached(UPSERT)?;
        let mut recheck =
            all.prepare_cached("UPDATE finding SET checked_version = NULL WHERE order_key = ?1")?;
        let mut stored = Vec::with_capacity(changes.len());
        for change in changes {
            let is_uncleared = change.status != FindingStatus::Cleared;
            let order = change.order_key().map(|key| key.to_string());
            if let (Some(order), false) = (&order, is_uncleared) {
                // What it put at risk may be another finding's now.
                recheck.execute([order])?;
            }
            let order = order.filter(|_| is_uncleared);
            let body = serde_json::to_vec(change).expect("a finding serializes to JSON");
            let rows = upsert.execute(params![
                change.finding_id,
                change.version,
                change.partner.as_str(),
                change.day,
                change.run,
                change.code.as_str(),
                status_number(change.status),
                severity_number(change.severity),
                change.currency.map(|currency| currency.code()),
                change.money_at_risk,
                order,
                change.lines.len() < LINES_MAX,
                body,
                change.flag.map(|flag| flag.as_str()),
                change.decision.is_some() || !change.earlier_decisions.is_empty(),
                change.first_decision().is_some()
            ])?;
            stored.push(rows > 0);
        }
        drop((upsert, recheck));
        all.commit()?;
        Ok(stored)
    }

    /// Stores these actions of people. One that is stored stays as it is.
    pub(crate) fn add_actions(&self, actions: &[PersonAction]) -> Result<()> {
        Ok(actions::add(&mut self.rows(), actions)?)
    }

    /// The selected actions of people, the newest first.
    pub(crate) fn actions(&self, filter: ActionFilter<'_>) -> Result<Vec<PersonAction>> {
        Ok(actions::select(&self.rows(), filter)?)
    }

    /// The finding with this id.
    pub(crate) fn find(&self, id: &str) -> Result<Option<FindingChanged>> {
        let rows = self.rows();
        let mut find = rows.prepare_cached("SELECT body FROM finding WHERE id = ?1")?;
        Ok(find.query_row([id], finding).optional()?)
    }

    /// The first two findings with an id that begins with this prefix. Two mean that the prefix is
    /// ambiguous.
    pub(crate) fn find_by_prefix(&self, id: &str) -> Result<Vec<FindingChanged>> {
        let select =
            "SELECT body FROM finding WHERE id >= ?1 AND id < ?1 || '~' ORDER BY id LIMIT 2";
        self.all(select, &[&id], finding)
    }

    /// The selected findings by id, read page by page.
    pub(crate) fn findings<'a>(
        &'a self,
        filter: FindingFilter<'a>,
    ) -> impl Iterator<Item = Result<FindingChanged>> + 'a {
        let (mut page, mut after) = (Vec::new().into_iter(), Some(filter.after.to_owned()));
        std::iter::from_fn(move || {
            loop {
                if let Some(next) = page.next() {
                    return Some(Ok(next));
                }
                match self.page(filter, &after.take()?) {
                    Err(error) => return Some(Err(error)),
                    Ok(found) => {
                        after = found.last().map(|last| last.finding_id.clone());
                        page = found.into_iter();
                    }
                }
            }
        })
    }

    fn page(&self, filter: FindingFilter<'_>, after: &str) -> Result<Vec<FindingChanged>> {
        let partner = filter.partner.map(PartnerCode::as_str);
        let code = filter.code.map(Code::as_str);
        let order = filter.order.map(OrderKey::to_string);
        let order = order.as_deref();
        let mut select = "SELECT body FROM finding WHERE id > ?1".to_owned();
        let mut values: Vec<&dyn ToSql> = vec![&after];
        for (column, value) in [
            ("partner", &partner),
            ("day", &filter.day),
            ("code", &code),
            ("order_key", &order),
            ("id", &filter.id),
        ] {
            if let Some(value) = value {
                values.push(value);
                select += &format!(" AND {column} = ?{}", values.len());
            }
        }
        select += match filter.status {
            None => "",
            Some(StatusFilter::Uncleared) => " AND status < 2",
            Some(StatusFilter::Open) => " AND status = 0",
            Some(StatusFilter::Waiting) => " AND is_waiting",
        };
        if filter.with_decisions {
            select += " AND has_decisions";
        }
        select += &format!(" ORDER BY id LIMIT {PAGE}");
        self.all(&select, &values, finding)
    }

    /// Counts the findings that a run changed last, or the findings of a day, by status.
    pub(crate) fn count(&self, partner: &PartnerCode, of: CountScope<'_>) -> Result<StatusCounts> {
        Ok(counts::count(&self.rows(), partner, of)?)
    }

    /// What people have to do with the findings of a day, and had. Findings of severity `info` take
    /// no decision and are left out.
    pub(crate) fn day_findings(&self, partner: &PartnerCode, day: &str) -> Result<DayFindings> {
        Ok(counts::day_findings(&self.rows(), partner, day)?)
    }

    /// Calls `each` for every open finding.
    pub(crate) fn each_open(&self, each: impl FnMut(OpenFinding)) -> Result<()> {
        Ok(counts::each_open(&self.rows(), each)?)
    }

    /// The findings of a day as `id/version`, sorted by id.
    pub(crate) fn versions(&self, partner: &PartnerCode, day: &str) -> Result<Vec<String>> {
        let select =
            "SELECT id || '/' || version FROM finding WHERE partner = ?1 AND day = ?2 ORDER BY id";
        self.all(select, &[&partner.as_str(), &day], |row| row.get(0))
    }

    /// Orders with uncleared findings that carry all their lines, sorted by key. Only keys that
    /// sort after `after` are returned.
    pub(crate) fn orders_to_recheck(
        &self,
        after: &str,
        limit: usize,
    ) -> Result<Vec<OrderToRecheck>> {
        let select = format!(
            "SELECT order_key,
                 CASE WHEN count(checked_version) = count(*)
                      AND min(checked_version) = max(checked_version)
                 THEN min(checked_version) END
             FROM finding WHERE order_key IS NOT NULL AND order_key > ?1 AND has_all_lines
             GROUP BY order_key ORDER BY order_key LIMIT {limit}"
        );
        self.all(&select, &[&after], |row| {
            let checked: Option<i64> = row.get(1)?;
            Ok(OrderToRecheck {
                order: row.get(0)?,
                checked_version: checked.map(i64::cast_unsigned),
            })
        })
    }

    /// The uncleared findings of an order.
    pub(crate) fn of_order(&self, order: &OrderKey) -> Result<Vec<FindingChanged>> {
        let order = order.to_string();
        let select = "SELECT body FROM finding WHERE order_key = ?1 ORDER BY id";
        self.all(select, &[&order], finding)
    }

    /// Records that the findings of an order were rechecked at this version of it.
    pub(crate) fn mark_checked(&self, order: &OrderKey, version: u64) -> Result<()> {
        let rows = self.rows();
        let mut update =
            rows.prepare_cached("UPDATE finding SET checked_version = ?2 WHERE order_key = ?1")?;
        update.execute(params![order.to_string(), version.cast_signed()])?;
        Ok(())
    }

    fn all<T>(
        &self,
        select: &str,
        values: &[&dyn ToSql],
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        Ok(table::all(&self.rows(), select, values, read)?)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use payfold_schemas::digest::Digest;
    use payfold_schemas::fact::Verdict;
    use payfold_schemas::finding::{FindingDecision, Side};
    use payfold_schemas::ids::{Author, MerchantCode, OrderId};
    use payfold_schemas::money::Currency;
    use payfold_schemas::order::Severity;
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

    /// 700 findings of 350 orders. Every twentieth is cleared, and every other tenth is decided.
    fn filled_store() -> FindingsStore {
        let store = FindingsStore::in_memory().unwrap();
        let first = |n| finding(n, 1, FindingStatus::Open);
        store.upsert(&(0..700).map(first).collect::<Vec<_>>()).unwrap();
        let changed = |n| {
            let cleared = n % 20 == 0;
            finding(n, 2, if cleared { FindingStatus::Cleared } else { FindingStatus::Decided })
        };
        store.upsert(&(0..700).step_by(10).map(changed).collect::<Vec<_>>()).unwrap();
        store
    }

    #[test]
    fn the_first_event_of_the_highest_version_is_kept() {
        let store = FindingsStore::in_memory().unwrap();
        let (open, decided) = (FindingStatus::Open, FindingStatus::Decided);
        let other = FindingChanged { action: "other".to_owned(), ..finding(1, 2, decided) };
        let versions = [finding(1, 2, open), finding(1, 1, decided), other];
        assert_eq!(store.upsert(&versions).unwrap(), [true, false, false]);
        assert_eq!(store.find(&format!("{:032x}", 1)).unwrap(), Some(finding(1, 2, open)));
        store.upsert(&[finding(1, 3, decided)]).unwrap();
        assert_eq!(store.find(&format!("{:032x}", 1)).unwrap(), Some(finding(1, 3, decided)));
        assert_eq!(store.find("1").unwrap(), None);
    }

    #[test]
    fn findings_are_read_page_by_page_without_gap_or_repeat() {
        let store = filled_store();
        let partner = PartnerCode::parse("p").unwrap();
        let numbers = |filter| -> Vec<i64> {
            store.findings(filter).map(|found| found.unwrap().money_at_risk).collect()
        };
        assert_eq!(numbers(FindingFilter::default()), (0..700).collect::<Vec<_>>());
        let after = format!("{:032x}", 690);
        let filter = FindingFilter { after: &after, ..FindingFilter::default() };
        assert_eq!(numbers(filter), (691..700).collect::<Vec<_>>());
        let (day, status) = (Some("2026-02-01"), Some(StatusFilter::Uncleared));
        let filter =
            FindingFilter { partner: Some(&partner), day, status, ..FindingFilter::default() };
        assert_eq!(numbers(filter), (600..700).filter(|n| n % 20 != 0).collect::<Vec<_>>());
        let (code, status) = (Some(Code::MissingThere), Some(StatusFilter::Open));
        let filter = FindingFilter { code, status, ..FindingFilter::default() };
        assert_eq!(
            numbers(filter),
            (0..700).step_by(2).filter(|n| n % 10 != 0).collect::<Vec<_>>()
        );
        let no_such_partner = PartnerCode::parse("q").unwrap();
        assert_eq!(
            numbers(FindingFilter { partner: Some(&no_such_partner), ..FindingFilter::default() }),
            Vec::<i64>::new()
        );
        assert_eq!(store.find_by_prefix(&"0".repeat(29)).unwrap().len(), 2);
        assert_eq!(store.find_by_prefix(&format!("{:032x}", 77)).unwrap().len(), 1);
    }

    #[test]
    fn findings_are_counted_by_day_or_by_run() {
        let store = filled_store();
        let partner = PartnerCode::parse("p").unwrap();
        let count = |of| store.count(&partner, of).unwrap();
        let of_day = StatusCounts { open: 90, open_above_info: 40, decided: 5, cleared: 5 };
        assert_eq!(count(CountScope::Day("2026-02-01")), of_day);
        let of_run = StatusCounts { open: 0, open_above_info: 0, decided: 35, cleared: 35 };
        assert_eq!(count(CountScope::Run("run 2")), of_run);
        assert_eq!(count(CountScope::Run("run 3")), StatusCounts::default());
        let versions = store.versions(&partner, "2026-02-01").unwrap();
        assert_eq!((versions.len(), &versions[0]), (100, &format!("{:032x}/2", 600)));
        let mut at_risk = 0;
        store
            .each_open(|open| at_risk += i64::from(open.currency.is_some()) * open.at_risk)
            .unwrap();
        assert_eq!(at_risk, (0..700).filter(|n| n % 10 != 0).sum::<i64>());
    }

    #[test]
    fn a_day_has_what_is_open_what_waits_and_what_was_at_risk() {
        let store = FindingsStore::in_memory().unwrap();
        let vnd = Currency::parse("VND").unwrap();
        let decided = |number, status, evidence: &[u8]| {
            let mut finding = finding(number, 1, status);
            finding.currency = Some(vnd);
            finding.decision = Some(FindingDecision {
                accept: Verdict::Ours,
                author: Author::parse("ann").unwrap(),
                reason: "asked".to_owned(),
                at: finding.first_seen,
                evidence: Digest::of_bytes(evidence),
                seconded_by: None,
                second_reason: None,
            });
            finding.evidence = Digest::of_bytes(b"seen");
            finding
        };
        let (waits, stale) =
            (decided(0, FindingStatus::Open, b"seen"), decided(2, FindingStatus::Open, b"x"));
        let (over, info) =
            (decided(4, FindingStatus::Decided, b"seen"), finding(1, 1, FindingStatus::Open));
        let risks = [waits.money_at_risk + stale.money_at_risk, over.money_at_risk];
        let (partner, day) = (waits.partner.clone(), waits.day.clone());
        store.upsert(&[waits, stale, over, info]).unwrap();
        let found = store.day_findings(&partner, &day).unwrap();
        assert_eq!((found.open, found.waiting, found.decided), (2, 1, 1));
        let of = |risks: &BTreeMap<Currency, i64>| risks.get(&vnd).copied().unwrap_or(0);
        assert_eq!([of(&found.at_risk), of(&found.was_at_risk)], risks);
        let mut huge = finding(6, 1, FindingStatus::Open);
        huge.money_at_risk = i64::MAX;
        store.upsert(&[huge]).unwrap();
        let found = store.day_findings(&partner, &day).unwrap();
        assert_eq!(of(&found.at_risk), i64::MAX, "a sum that is too large ends no page");
        let filter = FindingFilter { status: Some(StatusFilter::Waiting), ..Default::default() };
        assert_eq!(store.findings(filter).count(), 1);
        let mut waiting = 0;
        store.each_open(|open| waiting += i32::from(open.is_waiting)).unwrap();
        assert_eq!(waiting, 1);
    }

    #[test]
    fn an_order_is_rechecked_once_until_it_or_its_findings_change() {
        let store = FindingsStore::in_memory().unwrap();
        let upsert = |changed| assert_eq!(store.upsert(&[changed]).unwrap(), [true]);
        (0..4).for_each(|n| upsert(finding(n, 1, FindingStatus::Open)));
        let orders_to_recheck = |after: &str| store.orders_to_recheck(after, 10).unwrap();
        let is = |order: &str, checked_version| OrderToRecheck {
            order: order.to_owned(),
            checked_version,
        };
        assert_eq!(orders_to_recheck(""), [is("p/M/o0", None), is("p/M/o1", None)]);
        store.mark_checked(&order("o0"), 7).unwrap();
        assert_eq!(orders_to_recheck(""), [is("p/M/o0", Some(7)), is("p/M/o1", None)]);
        assert_eq!(orders_to_recheck("p/M/o0"), [is("p/M/o1", None)]);
        assert_eq!(store.of_order(&order("o0")).unwrap().len(), 2);
        // A change of the finding alone needs no recheck; a finding that opens again does.
        upsert(finding(0, 2, FindingStatus::Decided));
        assert_eq!(orders_to_recheck("")[0], is("p/M/o0", Some(7)));
        // Nor does one need less that stays when another of its order is cleared.
        upsert(finding(0, 3, FindingStatus::Cleared));
        assert_eq!(orders_to_recheck("")[0], is("p/M/o0", None));
        upsert(finding(1, 3, FindingStatus::Cleared));
        assert_eq!(orders_to_recheck(""), [is("p/M/o1", None)]);
        upsert(finding(0, 4, FindingStatus::Open));
        assert_eq!(orders_to_recheck("")[0], is("p/M/o0", None));
    }

    #[test]
    fn the_file_has_no_name_and_a_full_disk_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let store = FindingsStore::in_folder(folder.path()).unwrap();
        store
            .upsert(&(0..3_000).map(|n| finding(n, 1, FindingStatus::Open)).collect::<Vec<_>>())
            .unwrap();
        assert_eq!(store.findings(FindingFilter::default()).count(), 3_000);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let nowhere =
            FindingsStore::in_folder(std::path::Path::new("/nowhere/at/all")).unwrap_err();
        assert!(nowhere.to_string().contains("in the data folder"), "{nowhere}");
        // A page limit makes SQLite fail as a full disk does.
        store.rows().execute_batch("PRAGMA max_page_count = 1").unwrap();
        let more: Vec<_> = (3_000..9_000).map(|n| finding(n, 1, FindingStatus::Open)).collect();
        assert!(store.upsert(&more).unwrap_err().to_string().contains("free disk space"));
        assert_eq!(
            store.findings(FindingFilter::default()).count(),
            3_000,
            "all changes of one call or none"
        );
    }
}
