//! Owns the check of `records.file`, the name of a day's file in a watched folder.

use chrono::NaiveDate;
use chrono::format::{Item, StrftimeItems};

use crate::scheme::compile::compiler::ProfileCompiler;
use crate::scheme::file::tables::SpannedText;

impl ProfileCompiler {
    /// Checks that a pattern names each day differently and stays inside its folder.
    pub(super) fn compile_file_name(&mut self, file: &SpannedText) -> Option<String> {
        let pattern = file.get_ref();
        let problem = match names(pattern) {
            None => {
                "records.file is a name with the day in it, as chrono's strftime writes it, such \
                 as \"settlement-%Y%m%d.csv\""
            }
            Some([one, ..]) if one.contains(['/', '\\', '\0']) || one.starts_with('.') => {
                "records.file is a name, without a folder and not hidden"
            }
            Some([one, two, three]) if one == two || one == three || two == three => {
                "records.file is the same name on several days; write year, month and day into it"
            }
            Some(_) => return Some(pattern.clone()),
        };
        self.report(file.span(), problem);
        None
    }
}

/// The names of three dates that differ in day and year. `None` if chrono can't write a date with
/// the pattern, or if the pattern has no month.
fn names(pattern: &str) -> Option<[String; 3]> {
    let items: Vec<_> = StrftimeItems::new(pattern).collect();
    if pattern.is_empty() || items.iter().any(|item| matches!(item, Item::Error)) {
        return None;
    }
    let name = |year, month, day| {
        let date = NaiveDate::from_ymd_opt(year, month, day)?;
        let mut name = String::new();
        // Formatting a date with a time of day in the pattern fails.
        std::fmt::write(&mut name, format_args!("{}", date.format_with_items(items.iter())))
            .ok()?;
        Some(name)
    };
    let days = [name(2026, 1, 30)?, name(2026, 1, 31)?, name(2027, 1, 30)?];
    (name(2026, 2, 28)? != name(2026, 1, 28)?).then_some(days)
}
