//! Owns the watch on a vault: a few `stat` calls at each poll, and a reload when a file has
//! changed. A change that can't be loaded is tried again at every poll; meanwhile the caller keeps
//! the old document. Invariant: a loaded document is one state of the vault. A swapped `..data`
//! link is one change. Files that are written in place are read once they are the same at two
//! polls.

use super::dir::{self, DirSnapshot};
use super::place::VaultPlace;
use super::stamp::FileStamp;
use crate::document::VaultDocument;
use crate::vault::error::VaultError;

/// Watches a vault and reads it after a change.
#[derive(Debug)]
pub struct VaultWatch {
    place: VaultPlace,
    /// The state that was loaded last; `None` if its document could not be used.
    loaded: Option<VaultState>,
    /// A changed state that may not be complete yet.
    unsettled: Option<VaultState>,
}

/// The stamps of a vault's files, by which a change is recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
enum VaultState {
    File([Option<FileStamp>; 2]),
    Dir(Option<DirSnapshot>),
}

impl VaultWatch {
    /// Opens a vault and begins to watch it. Errors: every `VaultError` except those of saving.
    pub fn open(place: VaultPlace) -> Result<(Self, VaultDocument), VaultError> {
        let mut watch = Self { place, loaded: None, unsettled: None };
        let (state, document) = watch.read()?;
        watch.loaded = Some(state);
        Ok((watch, document))
    }

    /// Whether the vault has changed since it was loaded.
    pub fn changed(&self) -> bool {
        Some(VaultState::of(&self.place)) != self.loaded
    }

    /// Reads the vault if it has changed and the change is complete. Errors: those of `open`; the
    /// caller then keeps the old document.
    pub fn reload_if_changed(&mut self) -> Result<Option<VaultDocument>, VaultError> {
        let state = VaultState::of(&self.place);
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
            // Files have changed between the check and the reading.
            self.unsettled = Some(read);
            return Ok(None);
        }
        (self.loaded, self.unsettled) = (Some(read), None);
        Ok(Some(document))
    }

    /// Makes the next poll read the vault again, because the document could not be used.
    pub fn forget(&mut self) {
        // What was read was complete, so the next poll need not wait for a second look.
        self.unsettled = self.loaded.take();
    }

    fn read(&self) -> Result<(VaultState, VaultDocument), VaultError> {
        match &self.place {
            VaultPlace::File { .. } => {
                // The state is taken before reading, so that a change in between is seen at the
                // next poll.
                let state = VaultState::of(&self.place);
                Ok((state, self.place.read()?))
            }
            VaultPlace::Dir(dir) => {
                let (seen, document) = dir::read_settled(dir)?;
                Ok((VaultState::Dir(Some(seen)), document))
            }
        }
    }
}

impl VaultState {
    fn of(place: &VaultPlace) -> Self {
        match place {
            VaultPlace::File { vault, identity } => {
                Self::File([vault, identity].map(|path| FileStamp::of(path)))
            }
            VaultPlace::Dir(dir) => Self::Dir(DirSnapshot::of(dir).ok()),
        }
    }

    /// Whether some of its files may have been written and others not yet.
    fn may_be_half_written(&self) -> bool {
        matches!(self, Self::Dir(Some(seen)) if !seen.is_swapped_whole())
    }
}
