//! Owns the version of the tables' layout.

/// The version of the tables' layout, which is part of their names (`orders_g1`). It is not the
/// number of a projection build: in SQLite each build is a file.
pub(super) const LAYOUT: u32 = 1;
