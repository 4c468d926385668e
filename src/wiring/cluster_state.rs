//! Owns the results of `topics apply`, `schema apply` and `check --connect` on distributed engines,
//! in types that name no engine. The commands are compiled with or without those engines.

/// Whether missing topics or tables are created or only listed (`--dry-run`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApplyMode {
    /// They are listed; nothing is changed.
    Plan,
    /// They are created.
    Apply,
}

/// A topic or table that was created, would be created, or differs and is left unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApplyStep {
    /// Text for people.
    pub line: String,
    /// Whether a person must change it.
    pub left: bool,
}

/// The state of topics or tables.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "cluster"), expect(dead_code, reason = "there is nothing to check"))]
pub(crate) enum EngineState {
    /// Everything is right.
    Good {
        /// What was checked.
        detail: String,
    },
    /// Something should be changed, but nothing is lost.
    Doubtful {
        /// What is wrong.
        detail: String,
        /// How to fix it.
        fix: String,
    },
    /// Something is wrong, and a start is refused.
    Bad {
        /// What is wrong.
        detail: String,
        /// How to fix it.
        fix: String,
    },
}

/// The result of a check of topics and tables.
#[derive(Debug)]
pub(crate) struct ClusterCheck {
    /// One entry for each topic that is not right, or one `Good` entry if all are.
    pub topics: Vec<EngineState>,
    /// The tables.
    pub tables: EngineState,
}
