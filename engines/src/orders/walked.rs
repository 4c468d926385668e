//! Owns the rows of a walk and their order. Invariant: rows of two builds compare the same way, so
//! that two walks can be merged.

use std::cmp::Ordering;

use payfold_schemas::order::Order;

use super::page_cursor::Cursor;
use super::row;
use crate::EngineError;

const VIEW: &str = "rows";

/// A row as it is stored. Equal bytes are equal orders, so most rows can be compared without
/// decoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walked {
    /// What the engine sorts by before the key: Cassandra's token; 0 where it sorts by key alone.
    pub place: i64,
    /// The order's key.
    pub key: String,
    /// The stored bytes.
    pub row: Vec<u8>,
}

impl Walked {
    /// Decodes the order. Errors: `Corrupt`.
    pub fn order(&self) -> Result<Order, EngineError> {
        row::decode(&self.key, &self.row)
    }

    /// The cursor to continue a walk after this row, in any build.
    pub fn cursor(&self) -> Cursor {
        Cursor(format!("{VIEW}/{}/{}", self.place, self.key))
    }

    /// Compares two rows by their order in a walk.
    pub fn compare_place(&self, other: &Self) -> Ordering {
        (self.place, &self.key).cmp(&(other.place, &other.key))
    }
}

/// The token and key that a walk continues after. Errors: `Invalid` for the cursor of another
/// listing.
pub(super) fn after(cursor: &Cursor) -> Result<(i64, &str), EngineError> {
    let mut parts = cursor.0.splitn(3, '/');
    let read = (parts.next(), parts.next().and_then(|place| place.parse().ok()), parts.next());
    match read {
        (Some(VIEW), Some(place), Some(key)) => Ok((place, key)),
        _ => Err(EngineError::Invalid(format!(
            "{:?} is not a cursor of this listing: start the listing again without a cursor",
            cursor.0
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_names_its_row_and_fits_walks_only() {
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
