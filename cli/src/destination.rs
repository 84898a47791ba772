//! A file that replaces an old one only when it is complete.
//!
//! It does not know the format of the contents.
//!
//! 1. A new file beside the target, with its permissions, takes the bytes.
//! 2. It is synced.
//! 3. It is renamed, and the directory is synced.
//!
//! Before step 3 the old file is unchanged. A failure removes the new file; a kill leaves it as
//! `NAME.1.tmp`. A target that is no regular file, such as a pipe or a device, is written directly.

use crate::failure::{Failure, Result};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

#[cfg(test)]
mod tests;

/// Most unfinished files beside one target: those of killed processes and of running ones.
const UNFINISHED_MAX: u32 = 100;

/// Longest name after which the unfinished file is called, in bytes. File systems take names of 255
/// bytes, and some of 143.
const NAME_BYTES_MAX: usize = 120;

/// Begins the name of an unfinished file whose target has a longer name.
const LONG_NAME: &str = "silt-export";

/// Most links that are followed to a missing file, the same number as in Linux.
const LINKS_MAX: u32 = 40;

/// Size of the write buffer, in bytes.
const BUFFER_BYTES: usize = 256 << 10;

/// Files that each cold directory of a database has.
const COLD_MARKS: [&str; 2] = ["COLD", "LOCK"];

/// Paths of files that are open already; writes go on in the same file.
const OPEN_ALREADY: [&str; 4] = ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"];

/// A file that is being written. Dropped before [`Destination::finish`], it leaves no trace.
pub struct Destination {
    out: BufWriter<File>,
    replacement: Option<Replacement>,
}

/// A new file that will replace the target.
struct Replacement {
    unfinished: PathBuf,
    target: PathBuf,
    is_finished: bool,
}

impl Destination {
    /// Begins to write the file at `path`, following links.
    ///
    /// # Errors
    /// Errors of the system; `AlreadyExists` if too many unfinished files are beside it.
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

    /// Renames the new file to its target. On return a regular file is durable.
    ///
    /// # Errors
    /// Errors of the system. Before the rename the old file is unchanged.
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
            // The failure that led here is reported; this one adds nothing.
            let _ = fs::remove_file(&self.unfinished);
        }
    }
}

/// Checks that a write to `path` leaves the files of the database in `db` alone, and those of any
/// cold directory.
///
/// # Errors
/// [`Failure::Usage`] if it would change one.
pub fn refuse_inside(path: &Path, db: &Path) -> Result<()> {
    let (Some(place), Ok(db)) = (resolved(path), fs::canonicalize(db)) else { return Ok(()) };
    if place.starts_with(&db) {
        let message = format!("{} is in the directory of the database", path.display());
        return Err(Failure::Usage(format!("{message}; give a file elsewhere")));
    }
    let is_cold = |dir: &&Path| COLD_MARKS.iter().all(|mark| dir.join(mark).is_file());
    if let Some(cold) = place.ancestors().skip(1).find(is_cold) {
        let message = format!("{} is in the cold directory {}", path.display(), cold.display());
        return Err(Failure::Usage(format!("{message} of a database; give a file elsewhere")));
    }
    Ok(())
}

/// Resolves the links of `path`, whose file may be missing; `None` if that fails.
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
        // Writing through a dangling link creates the file that it names.
        match fs::read_link(&path) {
            Ok(target) => path = directory.join(target),
            Err(_) => return Some(fs::canonicalize(directory).ok()?.join(path.file_name()?)),
        }
    }
    None
}

/// Returns the regular file, existing or not, to which `path` leads; `None` if it is written
/// directly.
fn target(path: &Path) -> io::Result<Option<PathBuf>> {
    if OPEN_ALREADY.iter().any(|open| path.starts_with(open)) {
        return Ok(None);
    }
    match fs::canonicalize(path) {
        Ok(target) => Ok(fs::metadata(&target)?.is_file().then_some(target)),
        // A dangling link may work for a write, but must not be replaced.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {
            Ok(Some(path.to_owned()))
        }
        Err(_) => Ok(None),
    }
}

/// Returns the permissions of the file at `path`; `None` if it is missing. A file that may not be
/// written is not replaced, either.
fn permissions(path: &Path) -> io::Result<Option<Permissions>> {
    match File::options().write(true).open(path) {
        Ok(file) => Ok(Some(file.metadata()?.permissions())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Creates a new file in the directory of `target`, and returns it with its path.
fn create_beside(target: &Path) -> io::Result<(File, PathBuf)> {
    let Some(name) = target.file_name() else {
        return Err(io::ErrorKind::IsADirectory.into());
    };
    for number in 1..=UNFINISHED_MAX {
        // A long name leaves no room for what is added.
        let is_long = name.len() > NAME_BYTES_MAX;
        let mut unfinished = OsString::from(if is_long { OsStr::new(LONG_NAME) } else { name });
        unfinished.push(format!(".{number}.tmp"));
        let path = target.with_file_name(unfinished);
        match File::create_new(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|file| (file, path)),
        }
    }
    let message = format!("{UNFINISHED_MAX} unfinished files, NAME.1.tmp and so on, are beside it");
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
