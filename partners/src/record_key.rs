//! Owns a role's record key as the vault holds it.

use payfold_schemas::record_mac::{RecordKey, RecordKeyId, Writer};
use payfold_schemas::time::Time;
use serde::{Deserialize, Serialize};

use crate::secret::Secret;

/// A record key of a role.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordKeyEntry {
    /// The role that writes with it.
    pub writer: Writer,
    /// The secret.
    pub secret: Secret,
    /// From when on the role writes with it.
    pub valid_from: Time,
}

impl RecordKeyEntry {
    /// Its id, as its messages name it.
    pub fn id(&self) -> RecordKeyId {
        self.key().id()
    }

    pub(crate) fn key(&self) -> RecordKey {
        RecordKey::new(self.writer, self.secret.expose())
    }
}
