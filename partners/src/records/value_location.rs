//! Owns the location of a value in a row.

/// The location of a value in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ValueLocation {
    /// The column of this name.
    Named(String),
    /// The column of this number, from 0.
    Numbered(usize),
    /// The member of an object at this path.
    Path(Vec<String>),
}

impl ValueLocation {
    /// The name of the location in messages; columns are counted from 1.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Named(name) => name.clone(),
            Self::Numbered(column) => format!("column {}", column + 1),
            Self::Path(path) => path.join("."),
        }
    }
}
