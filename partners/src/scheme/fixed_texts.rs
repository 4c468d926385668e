//! Owns the texts of a profile between the values of a signed text. In nearly every notice they
//! show, without a search through all readings, that the text has one reading only.

use memchr::memmem::{Finder, FinderRev};

/// The fixed texts around the values of a signed text.
#[derive(Clone, Debug)]
pub(super) struct FixedTexts {
    before: String,
    /// Between each value and the next; not empty.
    between: Vec<Mark>,
    after: String,
}

/// A fixed text that ends a value.
#[derive(Clone, Debug)]
struct Mark {
    first: Finder<'static>,
    last: FinderRev<'static>,
}

impl FixedTexts {
    /// Takes the text before each value and the text after the last one. `None` if there are none,
    /// or if two values follow each other without a text between them.
    pub(super) fn new(mut texts: Vec<String>) -> Option<Self> {
        let after = texts.pop()?;
        let mut texts = texts.into_iter();
        let before = texts.next()?;
        let mark = |text: String| {
            let (first, last) = (Finder::new(&text).into_owned(), FinderRev::new(&text));
            (!text.is_empty()).then(|| Mark { first, last: last.into_owned() })
        };
        let between = texts.map(mark).collect::<Option<_>>()?;
        Some(Self { before, between, after })
    }

    /// Whether `text` consists of these values and the fixed texts, and each mark stands nowhere
    /// but behind its value. Then no other values give this text: in every reading a mark stands
    /// between the first and the last place that it can have, and these are the same.
    pub(super) fn separate(&self, text: &str, values: &[String]) -> bool {
        let Some((last, ended)) = values.split_last() else { return false };
        let inside = text.strip_prefix(&*self.before).and_then(|t| t.strip_suffix(&*self.after));
        let Some(inside) = inside.map(str::as_bytes) else { return false };
        if ended.len() != self.between.len() {
            return false;
        }
        let mut rest = inside;
        for (value, mark) in ended.iter().zip(&self.between) {
            let Some(at) = mark.first.find(rest) else { return false };
            if rest[..at] != *value.as_bytes() {
                return false;
            }
            rest = &rest[at + mark.first.needle().len()..];
        }
        if rest != last.as_bytes() {
            return false;
        }
        let (mut end, mut value_start) = (inside.len(), inside.len() - last.len());
        for (value, mark) in ended.iter().zip(&self.between).rev() {
            let mark_start = value_start - mark.last.needle().len();
            if mark.last.rfind(&inside[..end]) != Some(mark_start) {
                return false;
            }
            (end, value_start) = (mark_start, mark_start - value.len());
        }
        true
    }
}
