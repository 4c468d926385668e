//! Owns the values that people write into the fields of a filter.

use payfold_schemas::ids::PartnerCode;
use payfold_schemas::time::Time;

/// The text of a field, and what it is not.
#[derive(Debug, thiserror::Error)]
#[error("“{0}” is not {1}")]
pub(crate) struct UnfitField(pub(crate) String, pub(crate) &'static str);

/// The value of a field; `None` if it is empty.
pub(crate) fn given<T>(
    text: &str,
    parse: impl FnOnce(&str) -> Option<T>,
    what: &'static str,
) -> Result<Option<T>, UnfitField> {
    match text.trim() {
        "" => Ok(None),
        text => parse(text).map(Some).ok_or_else(|| UnfitField(text.to_owned(), what)),
    }
}

/// The text of a field; `None` if it is empty.
pub(crate) fn text_of(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

/// The lines of a field as they are counted: browsers send line breaks as two characters, and count
/// them as one.
pub(crate) fn lines_of(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// The time of a field: RFC 3339, or UTC as browsers and people write it.
pub(crate) fn time_of(text: &str) -> Option<Time> {
    let utc = text.replace(' ', "T");
    let zero = ["", "Z", ":00Z", "T00:00:00Z"];
    zero.into_iter().find_map(|rest| Time::parse(&format!("{utc}{rest}")).ok())
}

/// The day of a field, such as 2026-01-31.
pub(crate) fn day_of(text: &str) -> Option<String> {
    Time::parse(&format!("{text}T00:00:00Z")).ok().map(|_| text.to_owned())
}

/// The day of a field, if it is given. Errors: it is none.
pub(crate) fn day_given(text: &str) -> Result<Option<String>, UnfitField> {
    given(text, day_of, "a day, such as 2026-01-31")
}

/// The partner of a field. Errors: there is no such code.
pub(crate) fn partner_of(text: &str) -> Result<PartnerCode, UnfitField> {
    let unfit = |_| UnfitField(text.to_owned(), "the code of a partner");
    PartnerCode::parse(text.trim()).map_err(unfit)
}

/// The partner of a field, if it is given. Errors: there is no such code.
pub(crate) fn partner_given(text: &str) -> Result<Option<PartnerCode>, UnfitField> {
    given(text, |text| PartnerCode::parse(text).ok(), "a partner")
}
