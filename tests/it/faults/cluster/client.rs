//! Owns the checks of every answer: its status, and the time it took. Invariant: a broken
//! connection or a late answer is a violation, unless its pod was killed meanwhile.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::support::wire::{Answer, Connection};

use super::pods::{Pod, is_down};

/// More of them only fill the screen.
const VIOLATIONS_MAX: usize = 20;

/// What is asked of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asked {
    Notice,
    Create,
}

impl Asked {
    fn expected(self) -> &'static [u16] {
        match self {
            Self::Notice => &[200, 503],
            Self::Create => &[201, 202, 409, 502, 503],
        }
    }

    fn served(self) -> &'static [u16] {
        match self {
            Self::Notice => &[200],
            Self::Create => &[201, 202],
        }
    }

    /// How long an answer may take: for a notice the time of an append
    /// (`kafka.delivery_timeout_ms`) and two seconds, for a payment the time after which nothing
    /// may hang.
    fn time_max(self) -> Duration {
        match self {
            Self::Notice => Duration::from_secs(6),
            Self::Create => Duration::from_secs(10),
        }
    }
}

/// Every answer of a run.
#[derive(Default)]
pub struct Answers(Mutex<Noted>);

#[derive(Default)]
struct Noted {
    /// How often each came, and the longest it took.
    came: BTreeMap<(Asked, u16), (u64, Duration)>,
    /// Requests cut off because their pod was killed.
    cut_off: u64,
    violations: Vec<String>,
}

impl Answers {
    /// What must not have been.
    pub fn violations(&self) -> Vec<String> {
        self.noted().violations.clone()
    }

    /// How often an answer came.
    pub fn count(&self, asked: Asked, status: u16) -> u64 {
        self.noted().came.get(&(asked, status)).map_or(0, |(count, _)| *count)
    }

    fn note(&self, asked: Asked, status: u16, took: Duration) {
        let mut noted = self.noted();
        let (count, longest) = noted.came.entry((asked, status)).or_default();
        (*count, *longest) = (*count + 1, took.max(*longest));
    }

    fn violated(&self, what: String) {
        let mut noted = self.noted();
        if noted.violations.len() < VIOLATIONS_MAX {
            noted.violations.push(what);
        }
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noted = self.noted();
        for ((asked, status), (count, longest)) in &noted.came {
            write!(
                f,
                "{asked:?} {status} {count} times, at most {:.1} s; ",
                longest.as_secs_f64()
            )?;
        }
        write!(f, "{} cut off by kills", noted.cut_off)
    }
}

/// One keep-alive connection to a pod, opened again when it broke.
pub struct Client {
    pod: Arc<Pod>,
    answers: Arc<Answers>,
    /// The pod's life it was opened in.
    open: Option<(u64, Connection)>,
}

impl Client {
    pub fn new(pod: &Arc<Pod>, answers: &Arc<Answers>) -> Self {
        Self { pod: Arc::clone(pod), answers: Arc::clone(answers), open: None }
    }

    /// Sends a request; none if no answer came.
    pub fn ask(&mut self, asked: Asked, request: &[u8]) -> Option<Answer> {
        let life = self.pod.life();
        let begun = Instant::now();
        let result = self.connection(life).and_then(|open| open.try_exchange(request));
        let took = begun.elapsed();
        let (name, excused) = (&self.pod.name, is_down(life) || self.pod.life() != life);
        match result {
            Ok(answer) => {
                self.answers.note(asked, answer.status, took);
                // 502 is definite: nothing was sent to the partner, and nothing will be.
                let unsent = answer.status != 502 || answer.text().contains("\"not_called\"");
                if !asked.expected().contains(&answer.status) || !unsent {
                    self.answers.violated(format!("{name}: {asked:?} answered {answer:?}"));
                } else if took > asked.time_max() {
                    let status = answer.status;
                    self.answers.violated(format!("{name}: {asked:?} {status} after {took:?}"));
                }
                if asked.served().contains(&answer.status) {
                    self.pod.has_served();
                }
                Some(answer)
            }
            Err(error) => {
                self.open = None;
                if excused {
                    self.answers.noted().cut_off += 1;
                } else {
                    let what = format!("{name}: {asked:?} broke after {took:?}: {error}");
                    self.answers.violated(what);
                }
                None
            }
        }
    }

    fn connection(&mut self, life: u64) -> io::Result<&mut Connection> {
        if self.open.as_ref().is_none_or(|(opened, _)| *opened != life) {
            self.open = Some((life, Connection::try_open(&self.pod.address)?));
        }
        Ok(&mut self.open.as_mut().expect("it was just opened").1)
    }
}
