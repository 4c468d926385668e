//! Owns the row as a walk yields it, and the order of walks.
//! Invariant: rows of two generations compare the same way, so that two walks can be read side by side.

use std::cmp::Ordering;

use payfold_schemas::order::Order;

use super::{Cursor, row};
use crate::EngineError;

const VIEW: &str = "rows";

/// A row as it is stored. Equal bytes are equal orders, so most need not be decoded to be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walked {
    /// What the engine orders by before the key: a token; 0 where it orders by the key alone.
    pub place: i64,
    /// The order's key.
    pub key: String,
    /// The stored bytes.
    pub row: Vec<u8>,
}

impl Walked {
    /// The order. Errors: `Corrupt`.
    pub fn order(&self) -> Result<Order, EngineError> {
        row::decode(&self.key, &self.row)
    }

    /// Where the walk goes on after this row, in every generation.
    pub fn cursor(&self) -> Cursor {
        Cursor(format!("{VIEW}/{}/{}", self.place, self.key))
    }

    /// Which of two rows a walk comes to first.
    pub fn compare_place(&self, other: &Self) -> Ordering {
        (self.place, &self.key).cmp(&(other.place, &other.key))
    }
}

/// The place and key a walk goes on after. Errors: `Invalid` for the cursor of something else.
pub(super) fn after(cursor: &Cursor) -> Result<(i64, &str), EngineError> {
    let mut parts = cursor.0.splitn(3, '/');
    let read = (parts.next(), parts.next().and_then(|place| place.parse().ok()), parts.next());
    match read {
        (Some(VIEW), Some(place), Some(key)) => Ok((place, key)),
        _ => Err(EngineError::Invalid(format!(
            "{:?} is no cursor of this listing: start it again without one",
            cursor.0
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_names_its_row_and_is_of_walks_only() {
        let row = |place, key: &str| Walked { place, key: key.to_owned(), row: Vec::new() };
        let one = row(-5, "p/M/a");
        assert_eq!(after(&one.cursor()), Ok((-5, "p/M/a")));
        assert_eq!(one.compare_place(&row(-4, "p/M/A")), Ordering::Less);
        assert_eq!(one.compare_place(&row(-5, "p/M/b")), Ordering::Less);
        for other in ["created/1/p/M/a", "rows/x/p/M/a", "rows/1", ""] {
            assert!(after(&Cursor(other.to_owned())).is_err(), "{other}");
        }
    }
}
