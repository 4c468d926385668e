//! The checkout role over HTTP, against real engines on disk and a partner that misbehaves on purpose.
//! `cfg(test)` tells clippy that helpers are tests too.

#[cfg(test)]
mod by_hand;
#[cfg(test)]
mod creates;
#[cfg(test)]
mod hung;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod lines;
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
