//! Owns the rebuild beside live traffic: which builds are folded here, how two of them are
//! compared, and what people ask for. The journal (`crate::journal`) holds what is decided; this
//! folder carries it out.
//!
//! | File | Owns |
//! |---|---|
//! | `build_join` | reading two builds side by side |
//! | `difference` | in what two rows of an order differ, and why |
//! | `projector_parts` | what the projectors of a process work with |
//! | `restored_epoch` | the publication epoch after a restore of the log |
//! | `service` | what people ask for: decided, or refused |
//! | `status` | how far each build is |
//! | `supervisor` | one projector for each build, and carrying out what is decided |

pub mod build_join;
pub mod difference;
pub mod projector_parts;
pub mod restored_epoch;
pub mod service;
pub mod status;
pub mod supervisor;
#[cfg(test)]
mod tests;
