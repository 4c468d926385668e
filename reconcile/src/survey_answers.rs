//! Owns the answers of a survey, stored in a file of JSON lines, so an interrupted survey continues
//! where it stopped and repeats no query. Invariant: a line that was cut off is no answer.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use chrono::NaiveDate;
use payfold_schemas::finding::BookLine;
use payfold_schemas::ids::{OrderKey, PartnerCode};
use payfold_schemas::time::Time;
use serde::{Deserialize, Serialize};

use crate::question::QueryTarget;

/// An answer older than this is queried again, ms.
const KEPT_MS: i64 = 12 * 3_600_000;

/// The answer to one query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SurveyAnswer {
    /// The order's key as text.
    pub(crate) order: String,
    /// The transaction that was queried, or `None` for the order as a whole.
    pub(crate) target: QueryTarget,
    /// When it was answered.
    pub(crate) at: Time,
    /// The answer as lines of a file; empty if the payment has not ended or the partner doesn't
    /// know it.
    pub(crate) lines: Vec<BookLine>,
    /// Whether the answer can't change any more; others are queried again.
    pub(crate) is_final: bool,
}

/// The answers of one partner's day, in memory and in a file.
pub(crate) struct SurveyAnswers {
    path: PathBuf,
    file: File,
    known: HashMap<(String, QueryTarget), SurveyAnswer>,
}

impl SurveyAnswers {
    /// Opens the answers of an interrupted survey, or an empty file. Errors: the disk.
    pub(crate) fn open(
        folder: &Path,
        (partner, day): (&PartnerCode, NaiveDate),
        now: Time,
    ) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let path = folder.join(format!("answers-{partner}-{day}.jsonl"));
        let text = match std::fs::read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let answers =
            text.lines().filter_map(|line| serde_json::from_str::<SurveyAnswer>(line).ok());
        let is_valid = |answer: &SurveyAnswer| answer.is_final && answer.at.plus_ms(KEPT_MS) > now;
        let known = answers
            .filter(is_valid)
            .map(|answer| ((answer.order.clone(), answer.target.clone()), answer))
            .collect();
        let mut file = File::options().create(true).append(true).open(&path)?;
        if !text.is_empty() && !text.ends_with('\n') {
            file.write_all(b"\n")?;
        }
        Ok(Self { path, file, known })
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this query has an answer.
    pub(crate) fn has(&self, order: &OrderKey, target: &QueryTarget) -> bool {
        self.known.contains_key(&(order.to_string(), target.clone()))
    }

    /// Adds an answer to the file. Errors: the disk.
    pub(crate) fn add(&mut self, answer: SurveyAnswer) -> io::Result<()> {
        let mut line = serde_json::to_vec(&answer)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.known.insert((answer.order.clone(), answer.target.clone()), answer);
        Ok(())
    }

    /// Returns how many answers give no end of the payment, and the lines of the others. The lines
    /// are numbered by order and target, so their numbers don't depend on which answer came first.
    pub(crate) fn into_lines(self) -> (u64, Vec<BookLine>) {
        let mut answers: Vec<SurveyAnswer> = self.known.into_values().collect();
        answers.sort_unstable_by(|a, b| (&a.order, &a.target).cmp(&(&b.order, &b.target)));
        let silent = answers.iter().filter(|answer| answer.lines.is_empty()).count();
        let lines = answers.into_iter().flat_map(|answer| answer.lines);
        let lines = (1..).zip(lines).map(|(number, line)| BookLine { line: number, ..line });
        (u64::try_from(silent).unwrap_or(u64::MAX), lines.collect())
    }
}

#[cfg(test)]
mod tests {
    use payfold_schemas::ids::{MerchantCode, ProviderRef};
    use payfold_schemas::ipn::Status;
    use payfold_schemas::money::{Amount, Currency};

    use super::*;

    fn answer(order: &str, at: Time, lines: usize) -> SurveyAnswer {
        let line = BookLine {
            line: 0,
            merchant_code: MerchantCode::parse("M").unwrap(),
            order_id: None,
            provider_ref: Some(ProviderRef::parse(order).unwrap()),
            status: Status::Success,
            amount: Amount::parse("100").unwrap(),
            currency: Currency::parse("VND").unwrap(),
            at,
            paid_at: None,
            event_ref: None,
        };
        let order = format!("p/M/{order}");
        SurveyAnswer { order, target: None, at, lines: vec![line; lines], is_final: lines > 0 }
    }

    #[test]
    fn an_answer_is_kept_unless_it_was_cut_off_or_is_old() {
        let folder = tempfile::tempdir().unwrap();
        let now = Time::parse("2026-02-01T10:00:00Z").unwrap();
        let (partner, day) = (PartnerCode::parse("p").unwrap(), "2026-01-31".parse().unwrap());
        let open = || SurveyAnswers::open(folder.path(), (&partner, day), now).unwrap();
        let mut answers = open();
        answers.add(answer("b", now, 1)).unwrap();
        answers.add(answer("pending", now, 0)).unwrap();
        answers.add(answer("old", now.plus_ms(-KEPT_MS), 1)).unwrap();
        answers.add(answer("a", now, 1)).unwrap();
        assert_eq!(answers.into_lines().0, 1, "a pending payment has no end");
        // The process was killed while it wrote a line.
        let path = open().path().to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let cut = serde_json::to_string(&answer("cut", now, 1)).unwrap();
        std::fs::write(&path, format!("{text}{}", &cut[..cut.len() / 2])).unwrap();
        let mut answers = open();
        let has = |answers: &SurveyAnswers, order: &str| {
            answers.has(&OrderKey::parse(&format!("p/M/{order}")).unwrap(), &None)
        };
        let known = ["a", "b", "pending", "old", "cut"].map(|order| has(&answers, order));
        assert_eq!(known, [true, true, false, false, false]);
        answers.add(answer("cut", now, 1)).unwrap();
        let answers = open();
        assert!(has(&answers, "cut"));
        let (silent, lines) = answers.into_lines();
        let numbered: Vec<_> = lines
            .iter()
            .map(|line| (line.line, line.provider_ref.as_ref().unwrap().as_str()))
            .collect();
        assert_eq!((silent, numbered), (0, vec![(1, "a"), (2, "b"), (3, "cut")]));
    }
}
