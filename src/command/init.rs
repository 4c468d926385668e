//! `payfold init`: prints a payfold.toml that explains every setting.

use crate::{output, settings};

/// Prints the template.
pub(crate) fn run() {
    output::line(settings::TEMPLATE.trim_end());
}
