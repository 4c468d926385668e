//! Owns the counts of findings: by status, of a day, and what metrics count of open ones.

use std::collections::BTreeMap;

use payfold_schemas::finding::Code;
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::money::Currency;
use payfold_schemas::order::{Flag, Severity};
use rusqlite::{Connection, Result, Row, ToSql};

use super::table::{all, severity};

/// What people have to do with the findings of a day, and had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DayFindings {
    /// The number of open ones with a severity above `info`.
    pub open: u64,
    /// The number of decided ones.
    pub decided: u64,
    /// The number of open ones with a first decision that waits for a second person.
    pub waiting: u64,
    /// Minor units that the open ones put at risk.
    pub at_risk: BTreeMap<Currency, i64>,
    /// Minor units that the decided ones put at risk.
    pub was_at_risk: BTreeMap<Currency, i64>,
}

/// The fields of an open finding that metrics count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenFinding {
    pub(crate) code: Code,
    pub(crate) severity: Severity,
    /// The order's flag it is about.
    pub(crate) flag: Option<Flag>,
    pub(crate) currency: Option<Currency>,
    /// Minor units.
    pub(crate) at_risk: i64,
    /// Whether a first decision on it waits for a second person.
    pub(crate) is_waiting: bool,
}

/// Which findings are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CountScope<'a> {
    /// Findings that this run changed last.
    Run(&'a str),
    /// Findings of this day.
    Day(&'a str),
    /// Findings of other days than this that this run changed last.
    OtherDays { run: &'a str, day: &'a str },
}

/// Numbers of findings by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StatusCounts {
    pub(crate) open: u64,
    /// Open findings with a severity above `info`.
    pub(crate) open_above_info: u64,
    pub(crate) decided: u64,
    pub(crate) cleared: u64,
}

/// Counts the findings that a run changed last, or the findings of a day, by status.
pub(crate) fn count(
    rows: &Connection,
    partner: &PartnerCode,
    of: CountScope<'_>,
) -> Result<StatusCounts> {
    let partner = partner.as_str();
    let (condition, values): (_, Vec<&dyn ToSql>) = match &of {
        CountScope::Run(run) => ("run = ?2", vec![&partner, run]),
        CountScope::Day(day) => ("day = ?2", vec![&partner, day]),
        CountScope::OtherDays { run, day } => ("run = ?2 AND day <> ?3", vec![&partner, run, day]),
    };
    let select = format!(
        "SELECT status, severity > 0, count(*) FROM finding WHERE partner = ?1 AND {condition} \
         GROUP BY 1, 2"
    );
    let mut counts = StatusCounts::default();
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get::<_, i64>(2)?));
    for (status, is_above_info, count) in all(rows, &select, &values, read)? {
        let count = count.unsigned_abs();
        match status {
            0_u8 if is_above_info => counts.open_above_info += count,
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

/// What people have to do with the findings of a day, and had. Findings of severity `info` take
/// no decision and are left out.
pub(crate) fn day_findings(
    rows: &Connection,
    partner: &PartnerCode,
    day: &str,
) -> Result<DayFindings> {
    // SQLite refuses a sum that is no `i64`.
    let select = "SELECT status, currency, count(*), sum(is_waiting), sum(at_risk / 1000000),
             sum(at_risk % 1000000)
         FROM finding WHERE partner = ?1 AND day = ?2 AND status < 2
             AND (severity > 0 OR status = 1) GROUP BY 1, 2";
    let read = |row: &Row<'_>| {
        let currency = row.get::<_, Option<String>>(1)?;
        let (millions, rest): (i64, i64) = (row.get(4)?, row.get(5)?);
        let at_risk = millions.saturating_mul(1_000_000).saturating_add(rest);
        Ok((row.get(0)?, currency, row.get::<_, i64>(2)?, row.get::<_, i64>(3)?, at_risk))
    };
    let mut found = DayFindings::default();
    let values: [&dyn ToSql; 2] = [&partner.as_str(), &day];
    for (status, currency, count, waiting, at_risk) in all(rows, select, &values, read)? {
        let (counted, risks) = match status {
            0_u8 => (&mut found.open, &mut found.at_risk),
            _ => (&mut found.decided, &mut found.was_at_risk),
        };
        *counted += count.unsigned_abs();
        found.waiting += waiting.unsigned_abs();
        let currency = currency.and_then(|code| Currency::parse_stored(&code).ok());
        if let Some(currency) = currency.filter(|_| at_risk != 0) {
            risks.insert(currency, at_risk);
        }
    }
    Ok(found)
}

/// Calls `each` for every open finding.
pub(crate) fn each_open(rows: &Connection, mut each: impl FnMut(OpenFinding)) -> Result<()> {
    let mut select = rows.prepare_cached(
        "SELECT code, severity, flag, currency, at_risk, is_waiting FROM finding
         WHERE status = 0",
    )?;
    let mut open = select.query([])?;
    while let Some(row) = open.next()? {
        let code = Code::parse(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?);
        let text_column =
            |column: usize| row.get_ref(column)?.as_str_or_null().map_err(rusqlite::Error::from);
        each(OpenFinding {
            code: code.expect("the table holds codes this program wrote"),
            severity: severity(row.get(1)?),
            flag: text_column(2)?.and_then(Flag::parse),
            currency: text_column(3)?.and_then(|code| Currency::parse_stored(code).ok()),
            at_risk: row.get(4)?,
            is_waiting: row.get(5)?,
        });
    }
    Ok(())
}
