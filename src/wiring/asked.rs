//! Owns what is asked of the distributed engines beside opening them, in words that name no engine: `topics apply`,
//! `schema apply` and `check --connect` are built whether the program has those engines or not.

/// Whether what is missing is made or only told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Told; nothing is changed.
    Tell,
    /// Made.
    Make,
}

/// Something that was made, would be made, or is left alone although it is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// For people.
    pub line: String,
    /// Whether it is left to a person.
    pub left: bool,
}

/// How topics or tables were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// As they must be.
    Good {
        /// What was looked at.
        detail: String,
    },
    /// Not as they should be, and nothing is lost by it.
    Doubtful {
        /// What is wrong.
        detail: String,
        /// How it is mended.
        fix: String,
    },
    /// Not as they must be.
    Bad {
        /// What is wrong.
        detail: String,
        /// How it is mended.
        fix: String,
    },
}

/// What a look at the cluster found.
#[derive(Debug)]
pub struct ClusterLook {
    /// The topics: one entry for each that is not right, or that all are.
    pub topics: Vec<Found>,
    /// The tables.
    pub tables: Found,
}
