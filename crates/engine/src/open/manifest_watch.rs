//! The manifest of a database that another process may have open: read as a whole when it has
//! changed.
//!
//! It takes no lock and keeps no edit.

use crate::{
    catalog::manifest::{ManifestEnd, open_manifest, read_current},
    open::directory::no_database,
};
use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::{File, Fs},
    id::FileNumber,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// Attempts to read a manifest while another process appends to it or replaces it.
const ATTEMPTS_MAX: usize = 20;

/// What makes something of a manifest: its path, and the file.
pub type ReadManifest<'a, T> = dyn FnMut(PathBuf, Arc<dyn File>) -> Result<(T, ManifestEnd)> + 'a;

/// The manifest that `CURRENT` names, and its end when it was read last.
#[derive(Debug)]
pub struct ManifestWatch {
    directory: Arc<dyn Fs>,
    seen: Option<(FileNumber, ManifestEnd)>,
}

impl ManifestWatch {
    /// The manifest of the database in `directory`, not read yet.
    #[must_use]
    pub fn new(directory: Arc<dyn Fs>) -> Self {
        Self { directory, seen: None }
    }

    /// What `read` makes of the manifest; `None` if the manifest is as it was at the last call.
    ///
    /// A manifest that another process appends to or replaces can look damaged, but not twice at
    /// the same place. So damage is an error if the next attempt finds it again.
    ///
    /// # Errors
    /// `NotFound` without a database; `Corruption`, with file and offset; `Busy`, if each attempt
    /// has failed otherwise; the errors of `read`; the system's.
    pub fn refresh<T>(&mut self, read: &mut ReadManifest<'_, T>) -> Result<Option<T>> {
        let mut failed: Option<Error> = None;
        for _ in 0..ATTEMPTS_MAX {
            let Some(number) = read_current(&*self.directory)? else {
                return Err(no_database(&self.directory.full_path(Path::new(""))));
            };
            match self.try_refresh(number, read) {
                Ok(result) => return Ok(result),
                Err(error) if error.kind() == ErrorKind::Corruption => {
                    let is_lasting = failed.replace(error.duplicate()).is_some_and(|before| {
                        (before.file(), before.offset()) == (error.file(), error.offset())
                    });
                    if is_lasting {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        let failed = failed.expect("each attempt but a successful one leaves its error");
        Err(Error::new(ErrorKind::Busy, "the manifest changes while it is read")
            .with_source(failed))
    }

    fn try_refresh<T>(
        &mut self,
        number: FileNumber,
        read: &mut ReadManifest<'_, T>,
    ) -> Result<Option<T>> {
        let (path, file) = open_manifest(&*self.directory, number)?;
        if let Some((seen, end)) = &self.seen
            && *seen == number
            && end.is_end_of(&*file, &path).map_err(|error| error.or_file(&path))?
        {
            return Ok(None);
        }
        let copy = CopiedFile::of(&*file).map_err(|error| error.or_file(&path))?;
        let (result, end) = read(path, Arc::new(copy))?;
        let found = Some((number, end));
        // An edit that was torn by a crash, or is being appended, has been read again in vain.
        if self.seen == found {
            return Ok(None);
        }
        self.seen = found;
        Ok(Some(result))
    }
}

/// A copy of a file as it was at nearly one moment. If a growing file were read piece by piece, its
/// beginning would be older than its end. The two would hardly ever fit together.
#[derive(Debug)]
struct CopiedFile(Vec<u8>);

impl CopiedFile {
    fn of(file: &dyn File) -> Result<Self> {
        let len = usize::try_from(file.len())
            .map_err(|_| Error::corruption("the manifest exceeds memory"))?;
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(len)
            .map_err(|_| Error::corruption("the manifest exceeds memory"))?;
        bytes.resize(len, 0);
        file.read_exact_at(&mut bytes, 0)?;
        Ok(Self(bytes))
    }
}

impl File for CopiedFile {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let start = usize::try_from(offset).ok();
        let bytes = start.and_then(|start| self.0.get(start..)?.get(..buffer.len()));
        let bytes =
            bytes.ok_or_else(|| Error::corruption("file ends early").with_offset(offset))?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}
