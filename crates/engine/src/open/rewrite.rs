//! Makes durable what an earlier process has written.
//!
//! It does not say what may not be durable.

use siltdb_base::{
    error::{ErrorKind, Result},
    fs::{File, Fs, LogFile, LogFileOptions, LogIo},
    id::FileNumber,
    seeded_fault,
};
use siltdb_disk::file_name::FileName;
use std::{ops::Range, path::Path, sync::Arc};

/// The size of one rewrite, in bytes.
const REWRITE_BYTES: usize = 1 << 20;

/// The copy of a file until it is whole and synced.
const UNFINISHED: FileName = FileName::Temporary(FileNumber(0));

/// A file of which a part was written again.
#[must_use = "nothing of it is durable before it is synced"]
pub struct Rewritten {
    file: Arc<dyn LogFile>,
    /// Where the part ends.
    end: u64,
}

impl Rewritten {
    /// Makes the part durable.
    ///
    /// # Errors
    /// The system's.
    pub fn sync(self) -> Result<()> {
        self.file.sync(self.end)
    }
}

/// Writes again what an earlier process wrote to a part of a file and may not have synced. It is
/// durable once the result is synced, or at once if there is none. Files that are written one after
/// the other, and then synced, reach the device side by side.
///
/// A sync alone is not enough. If a sync of that process failed, the system may mark the pages
/// clean although they never reached the medium. Only bytes that are written again are safe.
///
/// A file with a second name belongs to a copy of the database as well. It is not written to: a
/// copy of it takes its name.
///
/// # Errors
/// `NoSpace` and the system's.
pub fn write_again(
    directory: &dyn Fs,
    name: FileName,
    part: Range<u64>,
) -> Result<Option<Rewritten>> {
    let file = directory.open(&name.to_path())?;
    let is_linked = directory.inode(&name.to_path())?.links > 1;
    if is_linked && !seeded_fault!("linked_files_written") {
        return replace_by_copy(directory, &*file, name).map(|()| None);
    }
    let options = LogFileOptions { capacity: part.end, io: LogIo::Write };
    let log_file = directory.open_log(&name.to_path(), options)?;
    let mut bytes = vec![0; REWRITE_BYTES.min((part.end - part.start) as usize)];
    let mut offset = part.start;
    while offset < part.end {
        let piece = &mut bytes[..REWRITE_BYTES.min((part.end - offset) as usize)];
        file.read_exact_at(piece, offset)?;
        log_file.fill(offset, &[piece])?;
        let end = offset + piece.len() as u64;
        log_file.begin_sync(offset..end);
        offset = end;
    }
    Ok(Some(Rewritten { file: log_file, end: part.end }))
}

/// Gives a file of its own, with the same bytes, the name of a file that another directory has as
/// well. Durable on return.
fn replace_by_copy(directory: &dyn Fs, file: &dyn File, name: FileName) -> Result<()> {
    let unfinished = UNFINISHED.to_path();
    match directory.remove(&unfinished) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut copy = directory.create(&unfinished)?;
    let mut bytes = vec![0; REWRITE_BYTES];
    while copy.len() < file.len() {
        let left = usize::try_from(file.len() - copy.len()).unwrap_or(REWRITE_BYTES);
        let piece = &mut bytes[..left.min(REWRITE_BYTES)];
        file.read_exact_at(piece, copy.len())?;
        copy.append(piece)?;
    }
    copy.sync()?;
    drop(copy);
    directory.rename(&unfinished, &name.to_path())?;
    directory.sync_dir(Path::new(""))
}
