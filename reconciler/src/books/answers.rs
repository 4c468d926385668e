//! Owns what a partner answered of a day's payments, kept in a file of JSON lines, so that a survey that was interrupted
//! goes on where it was and asks nothing twice. Invariant: a line that was cut off is no answer.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use chrono::NaiveDate;
use payfold_schemas::finding::BookLine;
use payfold_schemas::ids::{OrderKey, PartnerCode};
use payfold_schemas::time::Time;
use serde::{Deserialize, Serialize};

use crate::stuck::Target;

/// An older answer is asked for again, ms.
const KEPT_MS: i64 = 12 * 3_600_000;

/// What one question came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// The order's key in one text.
    pub(crate) order: String,
    /// The transaction that was asked for, or the order as a whole.
    pub(crate) target: Target,
    /// When it was answered.
    pub(crate) at: Time,
    /// What it says, as the lines of a file would; of what has not ended, or is not known there, none.
    pub(crate) lines: Vec<BookLine>,
    /// Whether it will say so tomorrow, too.
    pub(crate) is_final: bool,
}

/// A day's answers.
pub(crate) struct Answers {
    path: PathBuf,
    file: File,
    known: HashMap<(String, Target), Answer>,
}

impl Answers {
    /// What there is of a survey that was interrupted. Errors: the disk.
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
        let answers = text.lines().filter_map(|line| serde_json::from_str::<Answer>(line).ok());
        let holds = |answer: &Answer| answer.is_final && answer.at.plus_ms(KEPT_MS) > now;
        let known = answers
            .filter(holds)
            .map(|answer| ((answer.order.clone(), answer.target.clone()), answer))
            .collect();
        let mut file = File::options().create(true).append(true).open(&path)?;
        if !text.is_empty() && !text.ends_with('\n') {
            file.write_all(b"\n")?;
        }
        Ok(Self { path, file, known })
    }

    /// Where they lie.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this was answered.
    pub(crate) fn has(&self, order: &OrderKey, target: &Target) -> bool {
        self.known.contains_key(&(order.to_string(), target.clone()))
    }

    /// Keeps an answer. Errors: the disk.
    pub(crate) fn keep(&mut self, answer: Answer) -> io::Result<()> {
        let mut line = serde_json::to_vec(&answer)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.known.insert((answer.order.clone(), answer.target.clone()), answer);
        Ok(())
    }

    /// How many say nothing of an end, and the lines of those that do, numbered in an order that does not depend on who
    /// was asked about first.
    pub(crate) fn told(self) -> (u64, Vec<BookLine>) {
        let mut answers: Vec<Answer> = self.known.into_values().collect();
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

    fn answer(order: &str, at: Time, lines: usize) -> Answer {
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
        Answer { order, target: None, at, lines: vec![line; lines], is_final: lines > 0 }
    }

    #[test]
    fn what_was_answered_is_not_asked_again_unless_it_was_cut_off_or_old() {
        let folder = tempfile::tempdir().unwrap();
        let now = Time::parse("2026-02-01T10:00:00Z").unwrap();
        let (partner, day) = (PartnerCode::parse("p").unwrap(), "2026-01-31".parse().unwrap());
        let open = || Answers::open(folder.path(), (&partner, day), now).unwrap();
        let mut answers = open();
        answers.keep(answer("b", now, 1)).unwrap();
        answers.keep(answer("pending", now, 0)).unwrap();
        answers.keep(answer("old", now.plus_ms(-KEPT_MS), 1)).unwrap();
        answers.keep(answer("a", now, 1)).unwrap();
        assert_eq!(answers.told().0, 1, "what is pending says nothing of an end");
        // Killed in the middle of a line.
        let path = open().path().to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let cut = serde_json::to_string(&answer("cut", now, 1)).unwrap();
        std::fs::write(&path, format!("{text}{}", &cut[..cut.len() / 2])).unwrap();
        let mut answers = open();
        let has = |answers: &Answers, order: &str| {
            answers.has(&OrderKey::parse(&format!("p/M/{order}")).unwrap(), &None)
        };
        let known = ["a", "b", "pending", "old", "cut"].map(|order| has(&answers, order));
        assert_eq!(known, [true, true, false, false, false]);
        answers.keep(answer("cut", now, 1)).unwrap();
        let answers = open();
        assert!(has(&answers, "cut"));
        let (silent, lines) = answers.told();
        let told: Vec<_> = lines
            .iter()
            .map(|line| (line.line, line.provider_ref.as_ref().unwrap().as_str()))
            .collect();
        assert_eq!((silent, told), (0, vec![(1, "a"), (2, "b"), (3, "cut")]));
    }
}
