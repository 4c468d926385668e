//! `payfold init`: prints a commented payfold.toml.

use crate::{output, settings};

/// Prints it.
pub fn run() {
    output::line(settings::TEMPLATE.trim_end());
}
