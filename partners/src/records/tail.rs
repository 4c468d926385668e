//! Owns the tail of a file: rows at its end that are not entries, such as totals and the partner's
//! own count. Count and sum are compared with the rows, so that a file that lacks rows is not
//! taken for a complete one.

use payfold_schemas::money::Currency;

use super::money::MoneyRule;
use super::plan::{RowCondition, RowText};
use super::row::Row;
use crate::records::types::{RowFault, UnfitFile, shown};

/// The tail of a file, as the profile describes it.
#[derive(Clone, Debug)]
pub(crate) struct TailRule {
    /// The conditions of the tail's first row. Without conditions the tail is the last `lines`
    /// rows.
    pub(crate) when: Vec<RowCondition>,
    /// The number of rows of the tail.
    pub(crate) lines: usize,
    /// The tail row with count and sum, from 1.
    pub(crate) row: usize,
    /// The number of rows before the tail.
    pub(crate) count: Option<RowText>,
    /// The sum of the entries' amounts, with the signs that the file writes.
    pub(crate) sum: Option<RowText>,
}

/// The number of rows before the tail, and the sums of their amounts.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    /// All rows before the tail: entries, ignored and bad ones.
    pub(super) rows: u64,
    pub(super) bad: u64,
    /// The sum in each currency.
    sums: Vec<(Currency, i128)>,
}

impl Totals {
    pub(super) fn add(&mut self, currency: Currency, signed: i128) {
        match self.sums.iter_mut().find(|(known, _)| *known == currency) {
            // No disk holds a file with a sum that overflows an i128.
            Some((_, sum)) => *sum = sum.saturating_add(signed),
            None => self.sums.push((currency, signed)),
        }
    }
}

/// The tail rows that were found so far.
#[derive(Clone, Debug, Default)]
pub(super) struct FoundTail {
    /// The number of rows so far.
    pub(super) rows: usize,
    count: Option<(u64, String)>,
    sum: Option<(u64, String)>,
}

impl FoundTail {
    /// Takes the next row of the tail. Errors: its count or sum is missing or can't be read.
    pub(super) fn take(
        &mut self,
        rule: &TailRule,
        row: &Row<'_>,
        line: u64,
    ) -> Result<(), UnfitFile> {
        self.rows += 1;
        if self.rows != rule.row {
            return Ok(());
        }
        let said = |text: &Option<RowText>| -> Result<Option<(u64, String)>, UnfitFile> {
            let Some(text) = text else { return Ok(None) };
            match text.write_for(row) {
                Ok(Some(value)) => Ok(Some((line, value.into_owned()))),
                Ok(None) => {
                    Err(UnfitFile::at(line, format!("the tail has no value for {}", text.label)))
                }
                Err(RowFault { problem, .. }) => {
                    Err(UnfitFile::at(line, format!("{}: {problem}", text.label)))
                }
            }
        };
        self.count = said(&rule.count)?;
        self.sum = said(&rule.sum)?;
        Ok(())
    }

    /// Compares the tail with the rows. Errors: the first difference.
    pub(super) fn check(
        &self,
        rule: &TailRule,
        money: &MoneyRule,
        totals: &Totals,
    ) -> Result<(), UnfitFile> {
        if self.rows < rule.lines {
            return Err(UnfitFile::whole(format!(
                "the tail has {} of its {} rows: the file is cut off, or records.tail says it \
                 wrongly",
                self.rows, rule.lines
            )));
        }
        if let Some((line, said)) = &self.count
            && said.parse() != Ok(totals.rows)
        {
            let problem = format!(
                "the tail counts {} rows, and {} stand before it: fetch the file again",
                shown(said),
                totals.rows
            );
            return Err(UnfitFile::at(*line, problem));
        }
        // The amount of a bad row is unknown, so the sum can't be compared. The bad row is reported
        // already.
        match &self.sum {
            Some((line, said)) if totals.bad == 0 => check_sum((*line, said), money, totals),
            Some(_) | None => Ok(()),
        }
    }
}

fn check_sum(
    (line, said): (u64, &String),
    money: &MoneyRule,
    totals: &Totals,
) -> Result<(), UnfitFile> {
    let (currency, sum) = match totals.sums.as_slice() {
        [] if !said.contains(|digit: char| ('1'..='9').contains(&digit)) => return Ok(()),
        [] => {
            let problem = format!(
                "the tail gives a sum of {}, and there are no entries: fetch the file again",
                shown(said)
            );
            return Err(UnfitFile::at(line, problem));
        }
        [one] => *one,
        _ => {
            let problem = "the entries are in several currencies, and the tail gives one sum: \
                remove records.tail.sum";
            return Err(UnfitFile::at(line, problem));
        }
    };
    if money.sum(said, currency) == Some(sum) {
        return Ok(());
    }
    let problem = format!(
        "the tail gives a sum of {}, and the entries come to {sum} minor units of {currency}: \
         fetch the file again",
        shown(said)
    );
    Err(UnfitFile::at(line, problem))
}
