//! Owns the rows at a file's end that are no entries: totals, signatures, the partner's own count. What they say is held
//! against what was read, so that a file that lacks lines is not taken for a whole one.

use payfold_schemas::money::Currency;

use super::money::MoneyRule;
use super::plan::{Condition, Text};
use super::row::Row;
use super::{Fault, Unfit, shown};

/// How a file ends.
#[derive(Clone, Debug)]
pub(crate) struct TailRule {
    /// What the first row of the tail is known by; none = the last rows, whatever they are.
    pub(crate) when: Vec<Condition>,
    /// How many rows it has.
    pub(crate) lines: usize,
    /// Which of them says count and sum, from 1.
    pub(crate) row: usize,
    /// How many rows stand before the tail.
    pub(crate) count: Option<Text>,
    /// The sum of the entries' amounts, signed as they are written.
    pub(crate) sum: Option<Text>,
}

/// What the entries come to.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    /// Rows before the tail, whatever became of them.
    pub(super) rows: u64,
    pub(super) bad: u64,
    /// The sum in each currency; several can't be summed.
    sums: Vec<(Currency, i128)>,
}

impl Totals {
    pub(super) fn add(&mut self, currency: Currency, signed: i128) {
        match self.sums.iter_mut().find(|(known, _)| *known == currency) {
            // The digits of a file that overflow this would not fit on any disk.
            Some((_, sum)) => *sum = sum.saturating_add(signed),
            None => self.sums.push((currency, signed)),
        }
    }
}

/// The tail as it was found so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Tail {
    /// Its rows so far.
    pub(super) rows: usize,
    count: Option<(u64, String)>,
    sum: Option<(u64, String)>,
}

impl Tail {
    /// Another row of the tail. Errors: it does not say what it must.
    pub(super) fn take(&mut self, rule: &TailRule, row: &Row<'_>, line: u64) -> Result<(), Unfit> {
        self.rows += 1;
        if self.rows != rule.row {
            return Ok(());
        }
        let said = |text: &Option<Text>| -> Result<Option<(u64, String)>, Unfit> {
            let Some(text) = text else { return Ok(None) };
            match text.of(row) {
                Ok(Some(value)) => Ok(Some((line, value.into_owned()))),
                Ok(None) => Err(Unfit::at(line, format!("the tail says no {}", text.label))),
                Err(Fault { problem, .. }) => {
                    Err(Unfit::at(line, format!("{}: {problem}", text.label)))
                }
            }
        };
        self.count = said(&rule.count)?;
        self.sum = said(&rule.sum)?;
        Ok(())
    }

    /// Holds it against the file. Errors: what differs.
    pub(super) fn check(
        &self,
        rule: &TailRule,
        money: &MoneyRule,
        totals: &Totals,
    ) -> Result<(), Unfit> {
        if self.rows < rule.lines {
            return Err(Unfit::whole(format!(
                "the tail has {} of its {} rows: the file is cut off, or records.tail says it wrongly",
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
            return Err(Unfit::at(*line, problem));
        }
        // A bad row's amount is not known, and that it is bad is told already.
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
) -> Result<(), Unfit> {
    let (currency, sum) = match totals.sums.as_slice() {
        [] if !said.contains(|digit: char| ('1'..='9').contains(&digit)) => return Ok(()),
        [] => {
            let problem = format!(
                "the tail says a sum of {}, and there are no entries: fetch the file again",
                shown(said)
            );
            return Err(Unfit::at(line, problem));
        }
        [one] => *one,
        _ => {
            let problem = "the entries are in several currencies, and the tail says one sum: remove records.tail.sum";
            return Err(Unfit::at(line, problem));
        }
    };
    if money.sum(said, currency) == Some(sum) {
        return Ok(());
    }
    let problem = format!(
        "the tail says a sum of {}, and the entries come to {sum} minor units of {currency}: fetch the file again",
        shown(said)
    );
    Err(Unfit::at(line, problem))
}
