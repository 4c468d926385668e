//! The checkout role over HTTP, with real engines on disk and a partner that misbehaves on purpose.
//! `cfg(test)` lets clippy treat the helpers as tests, too.

#[cfg(test)]
mod creates;
#[cfg(test)]
mod hanging_store;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod log_lines;
#[cfg(test)]
mod manual_fold;
#[cfg(test)]
mod partner;
#[cfg(test)]
mod reads;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod surface;
#[cfg(test)]
mod topics;
#[cfg(test)]
mod troubles;
#[cfg(test)]
mod world;
