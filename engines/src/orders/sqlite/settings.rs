//! Owns the settings of the SQLite order store.

/// Settings of a SQLite order store. No other memory of the store than these caches grows with use.
#[derive(Clone, Copy, Debug)]
pub struct SqliteOrdersSettings {
    /// Page cache of the writing connection, which also loads rows for its writer, KiB.
    pub writer_cache_kib: u32,
    /// Page cache of each reading connection, KiB.
    pub reader_cache_kib: u32,
}

impl Default for SqliteOrdersSettings {
    fn default() -> Self {
        Self { writer_cache_kib: 64 << 10, reader_cache_kib: 2 << 10 }
    }
}
