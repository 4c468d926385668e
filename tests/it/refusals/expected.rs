//! Owns what a case of a table expects, how it is written, and how an answer is compared with it.

use crate::support::wire::Answer;

/// Where the bytes of a case are found afterwards (the letters of the table of refusals).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kept {
    /// In the intake log.
    Log,
    /// In quarantine, with the code.
    Quarantine,
    /// Nowhere: it was counted.
    Nowhere,
}

/// `STATUS CODE KEPT DETAIL…`: `-` is no code or no detail; the detail must hold the words.
#[derive(Debug)]
pub struct Expected {
    pub status: u16,
    pub code: String,
    pub kept: Kept,
    pub detail: Option<String>,
}

impl Expected {
    /// Reads the part of a case before its `|`.
    pub fn parse(text: &str) -> Self {
        let mut words = text.split_whitespace();
        let mut word = || words.next().unwrap_or_else(|| panic!("a word is missing in {text:?}"));
        let status = word().parse().expect("a status");
        let code = Some(word()).filter(|word| *word != "-").unwrap_or_default().to_owned();
        let kept = match word() {
            "L" => Kept::Log,
            "Q" => Kept::Quarantine,
            "R" => Kept::Nowhere,
            other => panic!("L, Q or R, not {other}"),
        };
        let detail = words.collect::<Vec<_>>().join(" ");
        let detail = Some(detail).filter(|words| !words.is_empty() && words != "-");
        Self { status, code, kept, detail }
    }

    /// What is wrong with an answer; nothing if it is as expected.
    pub fn judge(&self, answer: &Answer) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut hold = |is: bool, what: &str| {
            if !is {
                wrong.push(what.to_owned());
            }
        };
        hold(answer.status == self.status, "status");
        if self.code.is_empty() {
            hold(answer.body.is_empty(), "a body where there is none");
            return wrong;
        }
        let problem = answer.json();
        let kind = answer.header("content-type");
        hold(kind == Some("application/problem+json"), "content type");
        hold(problem["code"] == self.code.as_str(), "code");
        hold(problem["type"] == format!("urn:payfold:problem:{}", self.code).as_str(), "type");
        hold(problem["status"] == self.status, "status in the body");
        hold(problem["title"].as_str().is_some_and(|title| !title.is_empty()), "title");
        let id = problem["requestId"].as_str().unwrap_or_default();
        hold(id.len() == 36 && id.as_bytes()[14] == b'7', "requestId");
        let detail = problem["detail"].as_str().unwrap_or_default();
        hold(self.detail.as_deref().is_none_or(|words| detail.contains(words)), "detail");
        wrong
    }
}

/// What came of a case: what failed, and the bodies that were sent, by where they should be.
#[derive(Default)]
pub struct Outcome {
    pub failure: Option<String>,
    pub sent: Vec<(Kept, String, Vec<u8>)>,
}

impl Outcome {
    pub fn note(&mut self, kept: Kept, code: &str, body: &[u8]) {
        self.sent.push((kept, code.to_owned(), body.to_vec()));
    }
}

/// Cases that are waited for at once: many end with a connection that closes after a second.
const AT_ONCE: usize = 16;

/// Tries every case of a table.
pub fn try_all(
    table: &'static str,
    attempt: impl Fn(usize, &str) -> Outcome + Sync,
) -> Vec<Outcome> {
    let cases: Vec<_> = cases(table).enumerate().collect();
    let attempt = &attempt;
    std::thread::scope(|scope| {
        let share = |first| {
            let mine: Vec<_> = cases.iter().skip(first).step_by(AT_ONCE).collect();
            scope.spawn(move || mine.iter().map(|(n, line)| attempt(*n, line)).collect::<Vec<_>>())
        };
        let threads: Vec<_> = (0..AT_ONCE).map(share).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no case panics")).collect()
    })
}

/// The cases of a table: lines that are not blank and no comments.
fn cases(table: &'static str) -> impl Iterator<Item = &'static str> {
    table.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}
