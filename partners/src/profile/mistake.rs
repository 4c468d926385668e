//! Owns a mistake in a profile's file, with its place.

use std::ops::Range;

use crate::profile::bounds::Bounds;
use crate::profile::spanned::Spanned;

/// A mistake, and the range of bytes at fault.
#[derive(Clone, Debug)]
pub(crate) struct ProfileMistake {
    pub(crate) span: Range<usize>,
    pub(crate) problem: String,
}

pub(crate) fn wrong<T>(
    span: Range<usize>,
    problem: impl Into<String>,
) -> Result<T, ProfileMistake> {
    Err(ProfileMistake { span, problem: problem.into() })
}

/// Checks that a number is within its bounds.
pub(crate) fn within<T: Copy + TryInto<usize>>(
    name: &str,
    value: &Spanned<T>,
    bounds: Bounds,
) -> Result<T, ProfileMistake> {
    let found = *value.get_ref();
    if bounds.contain(found) {
        Ok(found)
    } else {
        wrong(value.span(), format!("{name} must be {bounds}"))
    }
}
