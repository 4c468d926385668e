//! Owns the vault: the document of accounts in an age-encrypted file (contract 2.5), or read from a
//! directory of key files. The file is replaced whole and under a lock, so that a reader sees the
//! old file or the new one. A save is refused if the file has changed since it was read, so that
//! no key is lost.

mod age_file;
mod dir;
mod encryption;
mod error;
mod file;
mod place;
mod rotation;
pub mod signer;
mod stamp;
mod watch;

pub use self::age_file::{IDENTITY_FILE, VAULT_FILE, Vault};
pub use self::encryption::{RANDOM_SECRET_BYTES, random_secret};
pub use self::error::VaultError;
pub use self::place::VaultPlace;
pub use self::rotation::{RotatedIdentity, rotate_identity};
pub use self::watch::VaultWatch;
pub use crate::vault::dir::problem::{FileProblem, PLAIN_FILE};
