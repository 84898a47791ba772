//! Recognises the databases of other engines, so that they are refused by name instead of being
//! called damaged, or taken for an empty directory.
//!
//! It reads names and the first bytes of files, and changes nothing. Some engines use file names
//! that are also ours, such as `CURRENT` and `000003.log`.
//!
//! ```text
//! engine    file or directory
//! SQLite    "SQLite format 3\0" at 0
//! redb      "redb", 1a 0a a9 0d 0a at 0
//! LMDB      u32 0xbeefc0de at 16, at 12 with addresses of 32 bits; in a directory: data.mdb
//! libmdbx   55 bits 0x59659dbdef4c11 at 21; in a directory: mdbx.dat
//! bbolt     u32 0xed0cdaed at 16
//! RocksDB   a directory with MANIFEST-n and OPTIONS-n, and CURRENT that begins with "MANIFEST-"
//! LevelDB   the same without OPTIONS-n
//! Pebble    a directory with marker.manifest.n.MANIFEST-n
//! sled      a directory with the files conf and db, and the directory blobs
//! fjall     a directory with the file version that begins with "FJL"
//! ```

use siltdb_base::{
    error::{Error, ErrorKind, Result},
    fs::{DirEntry, FileKind, Fs, Metadata},
    seeded_fault,
};
use siltdb_disk::file_name::FileName;
use std::path::Path;

/// Bytes at the beginning of a file that tell its engine.
const HEAD_BYTES: usize = 32;

/// Files of a directory that are examined at most. A database has few kinds of files, and a
/// directory of other things need not be read.
const FILES_EXAMINED_MAX: usize = 16;

/// Checks that `path`, a file or a directory, is not the database of another engine.
///
/// # Errors
/// `Unsupported`, with the name of the engine.
pub fn check_not_foreign(fs: &dyn Fs, path: &Path) -> Result<()> {
    let found = match fs.metadata(path)? {
        Some(Metadata::File { .. }) => engine_of_file(fs, path),
        Some(Metadata::Directory) => engine_of_directory(fs, path)?,
        _ => None,
    };
    let Some(engine) = found.filter(|_| !seeded_fault!("foreign_database_not_recognised")) else {
        return Ok(());
    };
    let message = format!("this is a database of {engine}, not of SiltDB");
    Err(Error::new(ErrorKind::Unsupported, message)
        .with_file(&fs.full_path(path))
        .with_hint("nothing was changed; export it with its own tools, and import the result"))
}

/// The engine that wrote the file; `None` if it is not known, or cannot be read.
fn engine_of_file(fs: &dyn Fs, path: &Path) -> Option<&'static str> {
    let mut head = [0; HEAD_BYTES];
    let file = fs.open(path).ok()?;
    let bytes = file.len().min(HEAD_BYTES as u64) as usize;
    file.read_exact_at(&mut head[..bytes], 0).ok()?;
    engine_of_head(&head)
}

fn engine_of_head(head: &[u8; HEAD_BYTES]) -> Option<&'static str> {
    let has = |offset: usize, magic: &[u8]| head[offset..].starts_with(magic);
    // These two are written in the byte order of the machine.
    let has_word = |offset: usize, word: u32| {
        has(offset, &word.to_le_bytes()) || has(offset, &word.to_be_bytes())
    };
    match () {
        () if has(0, b"SQLite format 3\0") => Some("SQLite"),
        () if has(0, b"redb\x1a\x0a\xa9\x0d\x0a") => Some("redb"),
        () if has_word(16, 0xbeef_c0de) || has_word(12, 0xbeef_c0de) => Some("LMDB"),
        () if has_word(16, 0xed0c_daed) => Some("bbolt"),
        () if has(21, &[0x11, 0x4c, 0xef, 0xbd, 0x9d, 0x65, 0x59]) => Some("libmdbx"),
        () => None,
    }
}

/// The engine whose database lies in the directory.
fn engine_of_directory(fs: &dyn Fs, dir: &Path) -> Result<Option<&'static str>> {
    let entries = fs.list(dir)?;
    let is_file = |entry: &&DirEntry| entry.kind == FileKind::File;
    let files: Vec<&str> = entries.iter().filter(is_file).map(|entry| &*entry.name).collect();
    let has_prefix = |prefix: &str| files.iter().any(|name| name.starts_with(prefix));
    let has_current = files.contains(&"CURRENT");
    // No file of a database of ours is opened here, because its directory is not locked yet.
    if has_prefix("MANIFEST-")
        && (!has_current || begins_with(fs, &dir.join("CURRENT"), b"MANIFEST-"))
    {
        return Ok(Some(if has_prefix("OPTIONS-") { "RocksDB" } else { "LevelDB" }));
    }
    if has_current {
        return Ok(None);
    }
    if has_prefix("marker.manifest.") {
        return Ok(Some("Pebble"));
    }
    let is_ours = |name: &FileName| {
        matches!(name, FileName::Table(_) | FileName::Manifest(_) | FileName::Blob(_))
    };
    if files.iter().filter_map(|name| FileName::parse(name)).any(|name| is_ours(&name)) {
        return Ok(None);
    }
    let has_blobs =
        entries.iter().any(|entry| entry.name == "blobs" && entry.kind == FileKind::Directory);
    if has_blobs && files.contains(&"conf") && files.contains(&"db") {
        return Ok(Some("sled"));
    }
    if files.contains(&"version") && begins_with(fs, &dir.join("version"), b"FJL") {
        return Ok(Some("fjall"));
    }
    let examined = files.iter().filter(|name| FileName::parse(name).is_none());
    Ok(examined.take(FILES_EXAMINED_MAX).find_map(|name| engine_of_file(fs, &dir.join(name))))
}

fn begins_with(fs: &dyn Fs, path: &Path, prefix: &[u8]) -> bool {
    let mut head = vec![0; prefix.len()];
    let read = fs.open(path).and_then(|file| file.read_exact_at(&mut head, 0));
    read.is_ok() && head == prefix
}

#[cfg(test)]
mod tests;
