//! A file to write whose name is given only to what is complete.
//!
//! It does not know what is written.
//!
//! 1. A new file beside the one that is asked for, with its permissions, takes the bytes.
//! 2. It is synced.
//! 3. It is renamed, and the directory is synced.
//!
//! Before the third step the old file is as it was; a failure removes the new one, and a kill
//! leaves it as `NAME.1.tmp`. What is no regular file, a pipe or a device, is written directly.

use crate::failure::{Failure, Result};
use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

#[cfg(test)]
mod tests;

/// Unfinished files beside one name at most: as many as were killed, and those that run.
const UNFINISHED_MAX: u32 = 100;

/// Links that are followed to a file that is not there, as many as Linux follows.
const LINKS_MAX: u32 = 40;

/// Bytes held back before they are handed to the system.
const BUFFER_BYTES: usize = 256 << 10;

/// Names of what is open already: whoever opened it goes on writing to that file.
const OPEN_ALREADY: [&str; 4] = ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"];

/// A file that is being written; dropped before it is finished, it is as if it had never been.
pub struct Destination {
    out: BufWriter<File>,
    replacement: Option<Replacement>,
}

/// A file that will take the place of another.
struct Replacement {
    unfinished: PathBuf,
    target: PathBuf,
    is_finished: bool,
}

impl Destination {
    /// Begins to write what the file at `path` will be; a link is followed.
    ///
    /// # Errors
    /// The system's; `AlreadyExists` if too many unfinished files lie beside it.
    pub fn create(path: &Path) -> io::Result<Self> {
        let (file, replacement) = match target(path)? {
            None => (File::create(path)?, None),
            Some(target) => {
                let old = permissions(&target)?;
                let (file, unfinished) = create_beside(&target)?;
                let replacement = Replacement { unfinished, target, is_finished: false };
                if let Some(old) = old {
                    file.set_permissions(old)?;
                }
                (file, Some(replacement))
            }
        };
        Ok(Self { out: BufWriter::with_capacity(BUFFER_BYTES, file), replacement })
    }

    /// Gives the file its name. On return it is on the device, if it is a regular file.
    ///
    /// # Errors
    /// The system's; before the renaming the old file is as it was.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()?;
        let file = self.out.get_ref();
        if file.metadata()?.is_file() {
            file.sync_all()?;
        }
        let Some(replacement) = &mut self.replacement else { return Ok(()) };
        fs::rename(&replacement.unfinished, &replacement.target)?;
        replacement.is_finished = true;
        sync_directory(&replacement.target)
    }
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.is_finished {
            // Whatever went wrong is told already.
            let _ = fs::remove_file(&self.unfinished);
        }
    }
}

/// Passes unless writing to `path` would make or change a file in the directory `db`.
///
/// # Errors
/// [`Failure::Usage`] if it would.
pub fn refuse_inside(path: &Path, db: &Path) -> Result<()> {
    let (Some(place), Ok(db)) = (resolved(path), fs::canonicalize(db)) else { return Ok(()) };
    if place.starts_with(&db) {
        let message = format!("{} is in the directory of the database", path.display());
        return Err(Failure::Usage(format!("{message}; give a file elsewhere")));
    }
    Ok(())
}

/// Where `path` leads, through links; the file need not be there. None if that cannot be told.
fn resolved(path: &Path) -> Option<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        if let Ok(place) = fs::canonicalize(&path) {
            return Some(place);
        }
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        // A link that leads to nothing makes a file where it leads.
        match fs::read_link(&path) {
            Ok(target) => path = directory.join(target),
            Err(_) => return Some(fs::canonicalize(directory).ok()?.join(path.file_name()?)),
        }
    }
    None
}

/// The regular file, there or not, that `path` leads to; none if it is to be written directly.
fn target(path: &Path) -> io::Result<Option<PathBuf>> {
    if OPEN_ALREADY.iter().any(|open| path.starts_with(open)) {
        return Ok(None);
    }
    match fs::canonicalize(path) {
        Ok(target) => Ok(fs::metadata(&target)?.is_file().then_some(target)),
        // What a link leads to may be made by writing to it, not by replacing the link.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {
            Ok(Some(path.to_owned()))
        }
        Err(_) => Ok(None),
    }
}

/// The permissions of the file at `path`; none if there is none. One that may not be written is not
/// replaced either.
fn permissions(path: &Path) -> io::Result<Option<Permissions>> {
    match File::options().write(true).open(path) {
        Ok(file) => Ok(Some(file.metadata()?.permissions())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A new file in the directory of `target`, and its path.
fn create_beside(target: &Path) -> io::Result<(File, PathBuf)> {
    let Some(name) = target.file_name() else {
        return Err(io::ErrorKind::IsADirectory.into());
    };
    for number in 1..=UNFINISHED_MAX {
        let mut unfinished = OsString::from(name);
        unfinished.push(format!(".{number}.tmp"));
        let path = target.with_file_name(unfinished);
        match File::create_new(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|file| (file, path)),
        }
    }
    let message = format!("{UNFINISHED_MAX} unfinished files, NAME.1.tmp and so on, lie beside it");
    Err(io::Error::new(io::ErrorKind::AlreadyExists, message))
}

/// Makes the name of `file` durable.
fn sync_directory(file: &Path) -> io::Result<()> {
    let directory = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    match File::open(directory)?.sync_all() {
        // Some file systems of other machines have no such call.
        Err(error) if is_unsupported(error.kind()) => Ok(()),
        synced => synced,
    }
}

fn is_unsupported(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported)
}
