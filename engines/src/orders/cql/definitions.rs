//! Owns the definitions of the store's tables.

/// The lowest replication with which the store survives the loss of one node: a quorum still
/// answers, and no acknowledged write is lost.
pub(super) const REPLICATION_MIN: usize = 3;

/// A column: its name and type.
pub(super) type Column = (&'static str, &'static str);

/// A table and its columns.
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) in_build: InBuild,
    pub(super) partition_key: &'static [Column],
    pub(super) clustering: &'static [Column],
    pub(super) regular: &'static [Column],
}

#[derive(PartialEq)]
pub(super) enum InBuild {
    Yes,
    No,
}

/// A time view: buckets of ten minutes, each spread over shards.
const BY_TIME: (&[Column], &[Column]) =
    (&[("bucket", "bigint"), ("shard", "tinyint")], &[("at", "bigint"), ("key", "text")]);

/// Every table of the store.
pub(super) static TABLES: [Table; 10] = [
    Table {
        in_build: InBuild::No,
        ..table("claims", (&[("key", "text")], &[]), &[("record", "blob")])
    },
    table("orders", (&[("key", "text")], &[]), &[("row", "blob")]),
    table("progress", (&[("topic", "text")], &[("partition", "bigint")]), &[("folded", "blob")]),
    table(
        "heads",
        (&[("partition", "bigint"), ("bucket", "bigint")], &[("at", "bigint")]),
        &[("head", "blob")],
    ),
    table("buckets", (&[("name", "text")], &[("bucket", "bigint")]), &[]),
    table("view_created", BY_TIME, &[]),
    table("view_deadline", BY_TIME, &[]),
    table(
        "view_reference",
        (&[("account", "text"), ("reference", "text")], &[("order_id", "text")]),
        &[],
    ),
    table(
        "view_provider_ref",
        (&[("account", "text"), ("provider_ref", "text")], &[("order_id", "text")]),
        &[],
    ),
    table(
        "view_nonce",
        (&[("account", "text"), ("nonce", "text")], &[("digest", "blob"), ("order_id", "text")]),
        &[],
    ),
];

const fn table(
    name: &'static str,
    (partition_key, clustering): (&'static [Column], &'static [Column]),
    regular: &'static [Column],
) -> Table {
    Table { name, in_build: InBuild::Yes, partition_key, clustering, regular }
}

/// Whether a keyspace or table exists in the database as the store needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It exists as it must be.
    Present,
    /// It doesn't exist; `apply` makes it.
    Missing,
    /// It exists and differs in this. `apply` does not change it.
    Differs(String),
}
