//! Owns compiling the formats of times that are read from a notice or written into a call.

use chrono::format::{Fixed, Item, Numeric, StrftimeItems};

use crate::scheme::clock::{TimeFormat, ZoneRule, is_pattern};
use crate::scheme::compile::compiler::ProfileCompiler;
use crate::scheme::compile::lint_mode::LintMode;
use crate::scheme::file::tables::SpannedText;

/// What a format of times is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeWork {
    Read,
    Write,
}

impl ProfileCompiler {
    /// Parses a time format: `rfc3339`, `unix_s`, `unix_ms`, or a pattern and its zone.
    pub(super) fn parse_time_format(
        &mut self,
        at: &SpannedText,
        (format, zone): (&Option<SpannedText>, &Option<SpannedText>),
        work: TimeWork,
    ) -> Option<TimeFormat> {
        let Some(written) = format else {
            self.report(
                at.span(),
                "a time needs a format: rfc3339, unix_s, unix_ms or a pattern such as %Y%m%d%H%M%S",
            );
            return None;
        };
        let simple = match written.get_ref().as_str() {
            "rfc3339" => Some(TimeFormat::Rfc3339),
            "unix_s" => Some(TimeFormat::UnixSeconds),
            "unix_ms" => Some(TimeFormat::UnixMilliseconds),
            _ => None,
        };
        if let (Some(_), Some(zone)) = (&simple, zone) {
            self.report(zone.span(), "a zone is for patterns; remove it");
        }
        if simple.is_some() {
            return simple;
        }
        let pattern = written.get_ref().clone();
        if let Some(mistake) = self.find_pattern_mistake(&pattern, work) {
            self.report(written.span(), mistake);
            return None;
        }
        let has_offset = has_offset(&pattern);
        // To write a time, the zone gives the hour and %z only shows it. A recorded profile was
        // taken as it is by the program that admitted notices under it.
        let may_have_zone =
            !has_offset || work == TimeWork::Write || self.lint == LintMode::Skipped;
        let zone = match zone {
            None if has_offset => ZoneRule::InText,
            Some(zone) if may_have_zone => match ZoneRule::parse(zone.get_ref()) {
                Some(zone) => zone,
                None => {
                    self.report(
                        zone.span(),
                        "a zone is an offset such as +07:00 or a name such as Asia/Ho_Chi_Minh",
                    );
                    return None;
                }
            },
            None | Some(_) => {
                self.report(
                    written.span(),
                    "a pattern needs a zone beside it, or %z in it, not both",
                );
                return None;
            }
        };
        Some(TimeFormat::Pattern(pattern, zone))
    }

    /// Parses the format of a time that says date and time of day.
    pub(super) fn parse_moment_format(
        &mut self,
        at: &SpannedText,
        (format, zone): (&Option<SpannedText>, &Option<SpannedText>),
    ) -> Option<TimeFormat> {
        let parsed = self.parse_time_format(at, (format, zone), TimeWork::Read)?;
        if self.lint == LintMode::Checked && !parsed.reads() {
            let span = format.as_ref().map_or_else(|| at.span(), SpannedText::span);
            self.report(
                span,
                "no time can be read by this pattern: it must say year, month, day, hours and \
                 minutes, as %Y%m%d%H%M%S does",
            );
            return None;
        }
        Some(parsed)
    }

    /// What is wrong with a pattern of times. `None` if nothing is.
    fn find_pattern_mistake(&self, pattern: &str, work: TimeWork) -> Option<&'static str> {
        if !is_pattern(pattern) {
            return Some("a format is rfc3339, unix_s, unix_ms or a pattern such as %Y%m%d%H%M%S");
        }
        if work == TimeWork::Write || self.lint == LintMode::Skipped {
            return None;
        }
        let mut items = StrftimeItems::new(pattern);
        if items.clone().any(|item| item == Item::Fixed(Fixed::TimezoneName)) {
            return Some(
                "%Z is skipped when a time is read, since an abbreviation such as IST has several \
                 offsets: the hours would be wrong; cut it off, as in {f.t|first:19}, and name the \
                 zone beside the pattern",
            );
        }
        let counts_seconds = items.any(|item| matches!(item, Item::Numeric(Numeric::Timestamp, _)));
        counts_seconds.then_some("%s counts seconds in UTC; write unix_s without a zone")
    }
}

/// Whether a pattern has the offset from UTC in it.
pub(super) fn has_offset(pattern: &str) -> bool {
    // chrono has no item for `%#z`.
    pattern.contains("%#z") || StrftimeItems::new(pattern).any(is_offset)
}

fn is_offset(item: Item<'_>) -> bool {
    matches!(
        item,
        Item::Fixed(
            Fixed::TimezoneOffset
                | Fixed::TimezoneOffsetColon
                | Fixed::TimezoneOffsetDoubleColon
                | Fixed::TimezoneOffsetTripleColon
                | Fixed::TimezoneOffsetColonZ
                | Fixed::TimezoneOffsetZ
                | Fixed::RFC2822
                | Fixed::RFC3339
        )
    )
}
