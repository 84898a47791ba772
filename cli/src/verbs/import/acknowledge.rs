//! The file to which an import appends how many records are committed.
//!
//! It does not sync the file: after a power cut the database may have more than the file says.

use crate::destination;
use crate::failure::{Failure, Result};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// The file of acknowledgements, or none.
pub struct Acknowledge(Option<(File, String)>);

impl Acknowledge {
    /// Acknowledges nothing.
    pub const NONE: Self = Self(None);

    /// Opens the file at `path`. `db` is the directory of the database.
    ///
    /// # Errors
    /// [`Failure::File`] if it cannot be opened; [`Failure::Usage`] if it is in `db`.
    pub fn open(path: Option<&Path>, db: &Path) -> Result<Self> {
        let Some(path) = path else { return Ok(Self(None)) };
        destination::refuse_inside(path, db)?;
        let name = path.display().to_string();
        let file = File::options().create(true).append(true).open(path);
        let file = file.map_err(|error| Failure::file("open", &name, error))?;
        Ok(Self(Some((file, name))))
    }

    /// Appends one write for each commit, unbuffered: a kill leaves no partial line.
    ///
    /// # Errors
    /// [`Failure::File`] if the file cannot be written.
    pub fn append(&mut self, done: u64) -> Result<()> {
        let Some((file, name)) = &mut self.0 else { return Ok(()) };
        let line = format!("{done}\n");
        file.write_all(line.as_bytes())
            .and_then(|()| file.flush())
            .map_err(|error| Failure::file("write", name.clone(), error))
    }
}
