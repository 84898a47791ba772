//! The file that a table is appended to, and how far the table reaches in it.
//!
//! It knows nothing of frames. Their checksums and the index of a table are bound to the places
//! that it tells.

use siltdb_base::{error::Result, fs::WriteFile};

/// A file whose end grows by one table.
pub(super) struct PlacedFile<'f> {
    file: Box<dyn WriteFile + 'f>,
    /// Where in the file the table begins, in bytes.
    start: u64,
    /// Bytes of the table so far.
    written: u64,
}

impl<'f> PlacedFile<'f> {
    /// A table without bytes at the end of `file`.
    pub(super) fn new(file: Box<dyn WriteFile + 'f>) -> Self {
        Self { start: file.len(), file, written: 0 }
    }

    /// Bytes of the table so far: the offset in it of what is appended next.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Appends bytes of the table.
    ///
    /// # Errors
    /// What writing fails with.
    ///
    /// # Panics
    /// If the file ends elsewhere: no reader would find the bytes.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let (end, written) = (self.file.len(), self.written);
        assert!(end == self.start + written, "{written} bytes of a table end at {end}");
        self.file.append(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// The file, with the table at its end.
    ///
    /// # Panics
    /// If the file ends elsewhere.
    pub(super) fn into_file(self) -> Box<dyn WriteFile + 'f> {
        let (end, written) = (self.file.len(), self.written);
        assert!(end == self.start + written, "a table of {written} bytes ends at {end}");
        self.file
    }
}
