//! Files of results: read plain or compressed; opened before a run and replaced whole after it.
//!
//! It does not know the form of a report.

use crate::result::Results;
use flate2::{Compression, read::MultiGzDecoder, write::GzEncoder};
use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

/// The first bytes of a compressed file, whatever its name.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The extension of a file to be compressed.
const GZIP_EXTENSION: &str = "gz";
/// The largest results file that is read, in bytes. A run of all rows writes a thousandth of it,
/// and a damaged file of this size still fits in memory.
const RESULTS_BYTES_MAX: u64 = 1 << 30;
/// The suffix of a file that is not complete yet.
const PART: &str = ".part";

/// Reads a results file, which may be compressed by gzip.
///
/// # Errors
/// A message that names the file, if it cannot be read, unpacked or understood.
pub fn read(path: &Path) -> Result<Results, String> {
    let unreadable = |error: io::Error| format!("cannot read {}: {error}", path.display());
    let bytes = fs::read(path).map_err(unreadable)?;
    let bytes =
        if bytes.starts_with(&GZIP) { unpacked(&bytes).map_err(unreadable)? } else { bytes };
    let text = String::from_utf8(bytes)
        .map_err(|_| format!("{}: not a results file of silt-bench: not text", path.display()))?;
    Results::from_json(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn unpacked(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    MultiGzDecoder::new(bytes).take(RESULTS_BYTES_MAX + 1).read_to_end(&mut all)?;
    if all.len() as u64 > RESULTS_BYTES_MAX {
        let message = format!("it unpacks to more than {RESULTS_BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(all)
}

/// An output file that was writable when it was opened.
///
/// A regular file is written beside its place and then renamed, so that the previous one survives a
/// run that ends early. Other files, such as a pipe, are written directly.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    target: Target,
}

#[derive(Debug)]
enum Target {
    /// The file that is renamed to the final one.
    Part(PathBuf),
    Direct(File),
}

impl Output {
    /// Checks that `path` can be written. An existing file is unchanged until [`Output::write`].
    ///
    /// # Errors
    /// A message that names the file.
    pub fn open(path: &Path) -> Result<Self, String> {
        Self::prepare(path).map_err(|error| unwritable(path, &error))
    }

    fn prepare(path: &Path) -> io::Result<Self> {
        // A symbolic link stays, and its target is written.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let is_there = match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(metadata) if !metadata.is_file() => {
                let target = Target::Direct(OpenOptions::new().write(true).open(&path)?);
                return Ok(Self { path, target });
            }
            found => found.is_ok(),
        };
        if is_there {
            OpenOptions::new().write(true).open(&path)?;
        }
        let mut name = OsString::from(path.file_name().ok_or(io::ErrorKind::InvalidFilename)?);
        name.push(PART);
        let part = path.with_file_name(name);
        File::create(&part)?;
        Ok(Self { path, target: Target::Part(part) })
    }

    /// Replaces the contents by `text`, compressed with gzip if the name ends with `.gz`.
    ///
    /// # Errors
    /// A message that names the file.
    pub fn write(&self, text: &str) -> Result<(), String> {
        self.replace(text).map_err(|error| unwritable(&self.path, &error))
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let is_packed = self.path.extension().is_some_and(|extension| extension == GZIP_EXTENSION);
        let bytes = if is_packed { packed(text)? } else { text.as_bytes().to_vec() };
        match &self.target {
            Target::Direct(file) => (&mut &*file).write_all(&bytes),
            Target::Part(part) => {
                fs::write(part, bytes)?;
                fs::rename(part, &self.path)
            }
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Target::Part(part) = &self.target {
            // The file still exists only if no write was completed.
            let _ = fs::remove_file(part);
        }
    }
}

fn packed(text: &str) -> io::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(text.as_bytes())?;
    packer.finish()
}

fn unwritable(path: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}", path.display())
}

#[cfg(test)]
mod tests;
