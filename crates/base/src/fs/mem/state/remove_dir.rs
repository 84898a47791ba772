//! Removing directories from the memory file system.

use super::{MemPlace, State};
use std::io;

impl State {
    /// Removes the name of a directory that is empty.
    pub(in super::super) fn remove_dir(&mut self, place: MemPlace<'_>) -> io::Result<()> {
        let named = self.parent(place)?;
        let node = self.named(&named)?;
        if !self.directory(node)?.current.is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        self.change_one(named, None);
        Ok(())
    }
}
