//! Owns where the places of a profile stand in the columns of one file, and what is told of a file that has others.

use crate::records::plan::Place;
use crate::records::row::Columns;
use crate::records::{Fault, Unfit, shown};

impl Columns {
    /// Finds the column of every place. Errors: there is none, or there are two.
    pub(super) fn find(&mut self, places: &[Place], line: u64) -> Result<(), Unfit> {
        let found = places.iter().map(|place| self.column(place));
        self.of_places = found
            .collect::<Result<_, _>>()
            .map_err(|problem| Unfit { line: Some(line).filter(|line| *line > 0), problem })?;
        Ok(())
    }

    fn column(&self, place: &Place) -> Result<usize, String> {
        let name = match place {
            Place::Numbered(column) if *column < self.count => return Ok(*column),
            Place::Numbered(column) => {
                let (wanted, count) = (column + 1, self.count);
                return Err(format!("[records] reads column {wanted}, and there are {count}"));
            }
            Place::Named(name) => name,
            // Only in objects.
            Place::Path(path) => return Err(format!("{} is no column", path.join("."))),
        };
        let mut named = self.names.iter().enumerate().filter(|(_, other)| *other == name);
        match (named.next(), named.next()) {
            (Some((column, _)), None) => Ok(column),
            (Some((one, _)), Some((two, _))) => {
                let (one, two) = (one + 1, two + 1);
                Err(format!(
                    "the header has {} twice, in columns {one} and {two}; write {{n.{one}}} or {{n.{two}}} for the one that is meant",
                    shown(name)
                ))
            }
            (None, _) => {
                let known: Vec<_> = self.names.iter().take(32).map(|name| shown(name)).collect();
                Err(format!(
                    "the header has no column {}; it has {}: another delimiter, another file, or a new format",
                    shown(name),
                    known.join(", ")
                ))
            }
        }
    }

    /// Whether a row has as many columns as it must. Errors: how many it has.
    pub(super) fn check(&self, count: usize) -> Result<(), Fault> {
        let wanted = self.count;
        if count == wanted {
            return Ok(());
        }
        let hint =
            if count < wanted { "is it cut off?" } else { "a delimiter in a cell without quotes?" };
        let problem = format!("it has {count} columns, not {wanted}: {hint}");
        Err(Fault { column: None, problem })
    }
}
