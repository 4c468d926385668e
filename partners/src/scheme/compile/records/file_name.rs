//! Owns what a day's file in a watched folder may be called.

use chrono::NaiveDate;
use chrono::format::{Item, StrftimeItems};

use crate::scheme::compile::Compiler;
use crate::scheme::file::Text;

impl Compiler {
    /// A pattern that tells days apart and stays in its folder.
    pub(super) fn file_name(&mut self, file: &Text) -> Option<String> {
        let pattern = file.get_ref();
        let problem = match names(pattern) {
            None => {
                "records.file is a name with the day in it, as chrono's strftime writes it, such as \"settlement-%Y%m%d.csv\""
            }
            Some([one, ..]) if one.contains(['/', '\\', '\0']) || one.starts_with('.') => {
                "records.file is a name, without a folder and not hidden"
            }
            Some([one, two, three]) if one == two || one == three || two == three => {
                "records.file is the same name on several days; write year, month and day into it"
            }
            Some(_) => return Some(pattern.clone()),
        };
        self.wrong(file.span(), problem);
        None
    }
}

/// The names of three days that differ in day, month and year. `None`: it is no pattern for days.
fn names(pattern: &str) -> Option<[String; 3]> {
    let items: Vec<_> = StrftimeItems::new(pattern).collect();
    if pattern.is_empty() || items.iter().any(|item| matches!(item, Item::Error)) {
        return None;
    }
    let name = |year, month, day| {
        let date = NaiveDate::from_ymd_opt(year, month, day)?;
        let mut name = String::new();
        // A pattern with a time of day in it has no name for a day.
        std::fmt::write(&mut name, format_args!("{}", date.format_with_items(items.iter())))
            .ok()?;
        Some(name)
    };
    let days = [name(2026, 1, 30)?, name(2026, 1, 31)?, name(2027, 1, 30)?];
    (name(2026, 2, 28)? != name(2026, 1, 28)?).then_some(days)
}
