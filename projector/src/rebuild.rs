//! Owns the rebuild beside live traffic: which generations are folded here, how two of them are compared, and what people
//! ask for. What is decided stands in the journal (`payfold_engines::generations`); this folder does it.
//!
//! | File | Owns |
//! |---|---|
//! | `crew` | one projector for each generation there is, and what is decided and not done yet |
//! | `desk` | what people ask for: decided, or refused |
//! | `difference` | in what two rows of an order differ, and why |
//! | `join` | reading two generations side by side |
//! | `renumber` | the number a restored log is told under |
//! | `standing` | how far each generation is |

pub mod crew;
pub mod desk;
pub mod difference;
pub mod join;
pub mod renumber;
pub mod standing;
#[cfg(test)]
mod tests;
