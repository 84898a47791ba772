//! What an opening takes out of a database and keeps in the directory `lost` of the database
//! instead of removing it.
//!
//! Nothing of it is a part of the database any more, and no file there is read again. Log files
//! are copied, because a cut goes through the first of them. Tables are moved; those of a cold
//! directory are copied. A file is written under another name, synced and renamed, so that a crash
//! leaves none that only looks whole. An opening that was killed finds what it has copied.
//!
//! A name that is taken by another content is passed over for the next number.

use crate::reports::kept::KeptFiles;
use siltdb_base::{
    error::{Error, Result},
    fs::{File, Fs, Metadata},
    id::{FileNumber, SequenceNumber},
    seeded_fault,
};
use siltdb_disk::{
    file_name::FileName,
    log::recover::{Cut, CutKind},
    table::table_witness,
};
use siltdb_tree::files::table_store::TableStore;
use std::path::{Path, PathBuf};

/// The size of one piece of a copy, in bytes.
const COPIED_BYTES: usize = 1 << 20;

/// Copies the log files that a cut takes durable records from. `slots` are those of the files that
/// recovery was given. Durable on return.
///
/// # Errors
/// `NoSpace` and the system's; the database is as before.
pub fn keep_cut(directory: &dyn Fs, slots: &[u64], cut: &Cut) -> Result<KeptFiles> {
    if cut.kind != CutKind::Damage || seeded_fault!("cut_records_not_kept") {
        return Ok(KeptFiles::default());
    }
    begin(directory)?;
    for &file_index in &cut.files {
        let slot = slots[file_index];
        let file = directory.open(&FileName::Segment(slot).to_path())?;
        copy(directory, &*file, slot, &FileName::Segment)?;
    }
    directory.sync_dir(&FileName::Lost.to_path())?;
    let log_files = cut.files.len() as u64;
    Ok(KeptFiles { log_files, log_records: cut.records, log_bytes: cut.bytes, tables: 0 })
}

/// Whether the table file `name` of `directory` has entries beyond `last`, the last sequence number
/// that manifest and log know. An incomplete file has none.
#[must_use]
pub fn is_beyond(directory: &dyn Fs, number: FileNumber, last: SequenceNumber) -> bool {
    let name = FileName::Table(number).to_path();
    let Ok(file) = directory.open(&name) else { return false };
    let witness = table_witness(file, &directory.full_path(&name));
    witness.is_some_and(|witness| witness.newest > last) && !seeded_fault!("unknown_tables_removed")
}

/// Moves a table or blob file. It is in one of the two directories after a crash.
///
/// # Errors
/// The system's.
pub fn move_file(directory: &dyn Fs, name: FileName) -> Result<()> {
    begin(directory)?;
    let mut to = name;
    while directory.metadata(&in_lost(to))?.is_some() {
        to = match to {
            FileName::Table(number) => FileName::Table(FileNumber(number.0 + 1)),
            FileName::Blob(number) => FileName::Blob(FileNumber(number.0 + 1)),
            _ => return Err(Error::invalid("only tables and blob files are moved to `lost`")),
        };
    }
    directory.rename(&name.to_path(), &in_lost(to))?;
    directory.sync_dir(&FileName::Lost.to_path())
}

/// Moves a table file of another directory. Durable on return.
///
/// # Errors
/// `NoSpace` and the system's; the file is where it was.
pub fn move_cold_table(directory: &dyn Fs, cold: &TableStore, number: FileNumber) -> Result<()> {
    begin(directory)?;
    let name = |number| FileName::Table(FileNumber(number));
    copy(directory, &*cold.open(number)?, number.0, &name)?;
    directory.sync_dir(&FileName::Lost.to_path())?;
    cold.delete(number)
}

/// Makes the directory `lost`, durably.
fn begin(directory: &dyn Fs) -> Result<()> {
    directory.create_dir_all(&FileName::Lost.to_path())?;
    directory.sync_dir(Path::new(""))
}

fn in_lost(name: FileName) -> PathBuf {
    FileName::Lost.to_path().join(name.to_path())
}

/// Copies `file` to the first name from `number` on that is free or has the same content.
fn copy(
    directory: &dyn Fs,
    file: &dyn File,
    number: u64,
    name: &dyn Fn(u64) -> FileName,
) -> Result<()> {
    let mut number = number;
    while let Some(metadata) = directory.metadata(&in_lost(name(number)))? {
        let is_as_long = metadata == Metadata::File { len: file.len() };
        if is_as_long && is_same(file, &*directory.open(&in_lost(name(number)))?)? {
            return Ok(());
        }
        number += 1;
    }
    let unfinished = in_lost(FileName::Temporary(FileNumber(number)));
    // A killed opening has left it.
    if directory.metadata(&unfinished)?.is_some() {
        directory.remove(&unfinished)?;
    }
    let mut to = directory.create(&unfinished)?;
    each_piece(file, &mut |piece, _| to.append(piece).map(|()| Piece::Wanted))?;
    let (copied, bytes) = (to.len(), file.len());
    assert!(copied == bytes, "{copied} of {bytes} bytes would be kept of file {number}");
    to.sync()?;
    drop(to);
    directory.rename(&unfinished, &in_lost(name(number)))
}

/// What the reader of a piece says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    /// The next one is wanted.
    Wanted,
    /// No further one is.
    Last,
}

/// Passes the bytes of `file` to `on_piece`, with the offset of each piece.
fn each_piece(
    file: &dyn File,
    on_piece: &mut dyn FnMut(&[u8], u64) -> Result<Piece>,
) -> Result<()> {
    let mut bytes = vec![0; file.len().min(COPIED_BYTES as u64) as usize];
    let mut offset = 0;
    while offset < file.len() {
        let count = (file.len() - offset).min(bytes.len() as u64) as usize;
        file.read_exact_at(&mut bytes[..count], offset)?;
        if on_piece(&bytes[..count], offset)? == Piece::Last {
            break;
        }
        offset += count as u64;
    }
    Ok(())
}

/// Whether two files of one length have the same bytes.
fn is_same(one: &dyn File, other: &dyn File) -> Result<bool> {
    let (mut is_same, mut bytes) = (true, Vec::new());
    each_piece(one, &mut |piece, offset| {
        bytes.resize(piece.len(), 0);
        other.read_exact_at(&mut bytes, offset)?;
        is_same = bytes == piece;
        Ok(if is_same { Piece::Wanted } else { Piece::Last })
    })?;
    Ok(is_same)
}
