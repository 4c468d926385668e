//! Owns the watch on a vault: some `stat` calls a poll, and a reload when a file is another.
//! A change that can't be loaded is tried again at every poll; the caller keeps what it has meanwhile.
//! Invariant: what is loaded is one state of the vault. A swapped `..data` link is one change; files that are written
//! in place are read when nothing has moved between two polls.

use super::dir::{self, Seen};
use super::stamp::FileStamp;
use super::{VaultError, VaultPlace};
use crate::document::VaultDocument;

/// Tells when a vault is another, and reads it.
#[derive(Debug)]
pub struct VaultWatch {
    place: VaultPlace,
    /// None if what was loaded last could not be used.
    loaded: Option<State>,
    /// A change that was seen and may not be complete.
    unsettled: Option<State>,
}

/// What tells a vault from the one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    File([Option<FileStamp>; 2]),
    Dir(Option<Seen>),
}

impl VaultWatch {
    /// Opens a vault and watches it from then on. Errors: every `VaultError` but those of saving.
    pub fn open(place: VaultPlace) -> Result<(Self, VaultDocument), VaultError> {
        let mut watch = Self { place, loaded: None, unsettled: None };
        let (state, document) = watch.read()?;
        watch.loaded = Some(state);
        Ok((watch, document))
    }

    /// Whether something is another than what was loaded.
    pub fn changed(&self) -> bool {
        Some(State::of(&self.place)) != self.loaded
    }

    /// Reads the vault again if it changed and the change is complete. Errors: those of `open`; keep the old one.
    pub fn reload_if_changed(&mut self) -> Result<Option<VaultDocument>, VaultError> {
        let state = State::of(&self.place);
        if self.loaded.as_ref() == Some(&state) {
            self.unsettled = None;
            return Ok(None);
        }
        if state.may_be_half_written() && self.unsettled.as_ref() != Some(&state) {
            self.unsettled = Some(state);
            return Ok(None);
        }
        let (read, document) = self.read()?;
        if read.may_be_half_written() && read != state {
            // It has moved since the look.
            self.unsettled = Some(read);
            return Ok(None);
        }
        (self.loaded, self.unsettled) = (Some(read), None);
        Ok(Some(document))
    }

    /// What was read last could not be used: it is read again at the next poll.
    pub fn forget(&mut self) {
        self.loaded = None;
    }

    fn read(&self) -> Result<(State, VaultDocument), VaultError> {
        match &self.place {
            VaultPlace::File { .. } => {
                // Before reading: a change in between is then seen at the next poll.
                let state = State::of(&self.place);
                Ok((state, self.place.read()?))
            }
            VaultPlace::Dir(dir) => {
                let (seen, document) = dir::read_settled(dir)?;
                Ok((State::Dir(Some(seen)), document))
            }
        }
    }
}

impl State {
    fn of(place: &VaultPlace) -> Self {
        match place {
            VaultPlace::File { vault, identity } => {
                Self::File([vault, identity].map(|path| FileStamp::of(path)))
            }
            VaultPlace::Dir(dir) => Self::Dir(Seen::of(dir).ok()),
        }
    }

    /// Whether files of it may have been written and others not yet.
    fn may_be_half_written(&self) -> bool {
        matches!(self, Self::Dir(Some(seen)) if !seen.is_swapped_whole())
    }
}
