//! Separates values at their commit or ingest: a long value goes to a blob file, and the batch that
//! the log stores, or the table, gets a pointer to it.
//!
//! It neither reserves a place in the order nor fills the log. A commit that fails later leaves
//! bytes in the blob file that nothing refers to.
//!
//! 1. The value is compressed, and gets a place in the current blob file: one short lock. If there
//!    is none or it is full, a new one is created, and named by the manifest.
//! 2. The value is written there, in parallel with other commits.
//! 3. The commit goes on with the pointer. It holds the blob file until it is published.

use crate::{
    blobs::{BlobPlace, blob_file::BlobFile},
    catalog::family::FamilyData,
    database::Database,
    database::installer::Installer,
    install::install,
    memory::Memory,
    options::FROZEN_MAX,
};
use siltdb_base::{
    checksum::{crc32c_append, xxh3},
    error::{Error, ErrorKind, Result},
    id::{BlobUid, FamilyId, SegmentId},
    key::{BlobPointer, EntryKind, split_expiring},
    limits::VALUE_BYTES_MAX,
    seeded_fault,
    sync::lock,
};
use siltdb_disk::{
    batch::{BatchBytes, BatchOperation},
    blob::{BLOB_HEADER_BYTES, BlobHeader, checksum_at},
    compress::Codec,
    edit::Change,
    file_name::FileName,
};
use siltdb_tree::options::TreeOptions;
use std::{io::Read, sync::Arc};

/// The size of one piece of a value that is written as a stream, in bytes.
const STREAM_BYTES: usize = 256 << 10;

/// The places of the values that a commit or an ingest has separated: the last one in each file.
#[derive(Debug, Default)]
pub struct Separated {
    places: Vec<BlobPlace>,
}

impl Separated {
    /// Notes that the record of the commit is one of `segment`. To be called before it is
    /// published.
    pub fn note(&self, segment: SegmentId) {
        self.places.iter().for_each(|place| place.note(segment));
    }

    /// Adds a place. It holds its file instead of the one before it there: no place is given in a
    /// file after one in the next.
    fn hold(&mut self, place: BlobPlace) {
        match self.places.last_mut() {
            Some(held) if held.file().number() == place.file().number() => *held = place,
            held => {
                let (before, number) =
                    (held.map(|held| held.file().number()), place.file().number());
                let ascends = before.is_none_or(|before| before < number);
                assert!(ascends, "a value would go to blob file {number} after {before:?}");
                self.places.push(place);
            }
        }
    }
}

/// The value that an operation puts, and its expiry, if it is one that `options` separate.
fn long_value<'a>(
    kind: EntryKind,
    payload: &'a [u8],
    options: &TreeOptions,
) -> Result<Option<(&'a [u8], Option<u64>)>> {
    let (value, expiry_ms) = match kind {
        EntryKind::Put => (payload, None),
        EntryKind::PutExpiring => match split_expiring(payload)? {
            // A pointer says by 0 that it never expires.
            (0, _) => return Ok(None),
            (expiry_ms, value) => (value, Some(expiry_ms)),
        },
        _ => return Ok(None),
    };
    let is_long = value.len() as u64 >= options.separated_from() && value.len() <= VALUE_BYTES_MAX;
    Ok(is_long.then_some((value, expiry_ms)))
}

/// Separates the value of one operation on `family`. Returns the payload of a pointer, if it is
/// long enough.
///
/// # Errors
/// `NoSpace` and the system's; nothing has changed.
#[cold]
pub(crate) fn separate_one(
    memory: &Memory,
    installer: &Installer<'_>,
    family: &FamilyData,
    operation: &BatchOperation<'_>,
) -> Result<Option<(Vec<u8>, Separated)>> {
    let mut separated = Separated::default();
    let options = family.tree.options();
    let payload = separate_into(memory, installer, &options, operation, &mut separated)?;
    Ok(payload.map(|payload| (payload, separated)))
}

/// Separates the value of one operation on a family with these options, if it is long enough, and
/// adds its place to `separated`. Returns the payload of a pointer.
///
/// # Errors
/// `NoSpace` and the system's; nothing refers to what was written.
pub(crate) fn separate_into(
    memory: &Memory,
    installer: &Installer<'_>,
    options: &TreeOptions,
    operation: &BatchOperation<'_>,
    separated: &mut Separated,
) -> Result<Option<Vec<u8>>> {
    let Some((value, expiry_ms)) = long_value(operation.kind, operation.payload, options)? else {
        return Ok(None);
    };
    let pointer = write(memory, installer, options, operation, value, expiry_ms, separated)?;
    let mut payload = Vec::new();
    pointer.encode(&mut payload);
    Ok(Some(payload))
}

/// Separates the long values of a batch that writes to these families. Returns the batch with
/// pointers; `None` if no value is long.
///
/// Cost for families that separate nothing: a look at each family.
///
/// # Errors
/// `NoSpace` and the system's; nothing has changed.
pub(crate) fn separate_batch(
    database: &Database,
    batch: &BatchBytes,
    families: &[(FamilyId, Arc<FamilyData>)],
) -> Result<Option<(BatchBytes, Separated)>> {
    if families.iter().all(|(_, family)| family.tree.separated_from() == u64::MAX) {
        return Ok(None);
    }
    let options: Vec<_> =
        families.iter().map(|(id, family)| (*id, family.tree.options())).collect();
    let options = |id: FamilyId| options.iter().find(|(known, _)| *known == id).map(|(_, o)| o);
    let is_long = |operation: Result<BatchOperation<'_>>| -> Result<bool> {
        let BatchOperation { family, kind, payload, .. } = operation?;
        let Some(options) = options(family) else { return Ok(false) };
        Ok(long_value(kind, payload, options)?.is_some())
    };
    let mut has_long = false;
    for operation in batch.operations() {
        has_long |= is_long(operation)?;
    }
    if !has_long {
        return Ok(None);
    }
    let (mut pointers, mut separated) = (BatchBytes::new(), Separated::default());
    for operation in batch.operations() {
        let operation = operation?;
        let payload = match options(operation.family) {
            Some(options) => separate_into(
                &database.memory,
                &database.installer(),
                options,
                &operation,
                &mut separated,
            )?,
            None => None,
        };
        match payload {
            None => pointers.push(&operation)?,
            Some(payload) => {
                let (kind, payload) = (EntryKind::BlobPointer, &payload[..]);
                pointers.push(&BatchOperation { kind, payload, ..operation })?;
            }
        }
    }
    Ok(Some((pointers, separated)))
}

/// The batch that the log stores, and the places of its values.
#[must_use]
pub fn stored_batch<'b>(
    batch: &'b BatchBytes,
    separated: Option<&'b (BatchBytes, Separated)>,
) -> (&'b BatchBytes, &'b Separated) {
    static NONE: Separated = Separated { places: Vec::new() };
    separated.map_or((batch, &NONE), |(batch, separated)| (batch, separated))
}

/// Writes the value of `operation` to a blob file.
fn write(
    memory: &Memory,
    installer: &Installer<'_>,
    options: &TreeOptions,
    operation: &BatchOperation<'_>,
    value: &[u8],
    expiry_ms: Option<u64>,
    separated: &mut Separated,
) -> Result<BlobPointer> {
    let turns = &memory.compression_turns;
    let mut turn = turns.begin(options.table.compression, value.len());
    let (codec, stored) = turn.compress(value);
    let lengths = (value.len() as u32, stored.len() as u32);
    let place = reserve(installer, lengths.1, options.blob_file_bytes)?;
    let (uid, number) = (place.file().uid(), place.file().number());
    let header = BlobHeader {
        checksum: crc32c_append(checksum_at(uid, place.offset + BLOB_HEADER_BYTES), stored),
        key_hash: xxh3(operation.key),
        family: operation.family,
        length: lengths.0,
        stored_bytes: lengths.1,
        codec: codec as u8,
    };
    place.file().write(place.offset, &[&header.encode(uid, place.offset), stored])?;
    let pointer = header.pointer(number, place.offset, expiry_ms);
    separated.hold(place);
    Ok(pointer)
}

/// Writes a value of `bytes` bytes that a stream gives, raw, in pieces.
///
/// # Errors
/// `InvalidArgument`, if the value is too long, or the stream ends before or goes on; `Io`, if
/// reading it fails; `NoSpace` and the system's. Nothing refers to what was written.
pub fn write_stream(
    installer: &Installer<'_>,
    family: &FamilyData,
    key: &[u8],
    bytes: u64,
    expiry_ms: Option<u64>,
    value: &mut dyn Read,
) -> Result<(BlobPointer, Separated)> {
    // A copy may put it back into an entry, behind its expiry.
    let length_max = VALUE_BYTES_MAX - expiry_ms.map_or(0, |_| size_of::<u64>());
    let length = u32::try_from(bytes).ok().filter(|length| *length as usize <= length_max);
    let length = length.ok_or_else(|| {
        let error = Error::invalid("value is too long");
        error.with_mismatch(format_args!("at most {length_max}"), bytes)
    })?;
    let place = reserve(installer, length, family.tree.options().blob_file_bytes)?;
    let (uid, start) = (place.file().uid(), place.offset + BLOB_HEADER_BYTES);
    let mut checksum = checksum_at(uid, start);
    let mut piece = vec![0; STREAM_BYTES.min(length.max(1) as usize)];
    let mut done = 0;
    loop {
        // One byte more tells whether the stream goes on.
        let wanted = piece.len().min((bytes - done).max(1) as usize);
        let read = read_some(value, &mut piece[..wanted])?;
        if read == 0 || done == bytes {
            if done < bytes || read > 0 {
                let found = if read > 0 { "more".to_owned() } else { done.to_string() };
                return Err(Error::invalid("a value has another length than was said")
                    .with_mismatch(bytes, found));
            }
            break;
        }
        place.file().write(start + done, &[&piece[..read]])?;
        checksum = crc32c_append(checksum, &piece[..read]);
        done += read as u64;
    }
    assert!(done == bytes, "a value of {bytes} bytes would be named, and {done} were written");
    let header = BlobHeader {
        checksum,
        key_hash: xxh3(key),
        family: family.id,
        length,
        stored_bytes: length,
        codec: Codec::Raw as u8,
    };
    place.file().write(place.offset, &[&header.encode(uid, place.offset)])?;
    let pointer = header.pointer(place.file().number(), place.offset, expiry_ms);
    Ok((pointer, Separated { places: vec![place] }))
}

fn read_some(value: &mut dyn Read, buffer: &mut [u8]) -> Result<usize> {
    loop {
        match value.read(buffer) {
            Ok(read) => return Ok(read),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => {
                let message = "reading the stream of a value failed";
                return Err(Error::new(ErrorKind::Io, message).with_source(error));
            }
        }
    }
}

/// Moves the value that `pointer` leads to, which is one of this key, to the current blob file.
/// `stored` is the value as the old file has it.
///
/// # Errors
/// Corruption, if it is damaged; `NoSpace`; the system's.
pub fn relocate(
    installer: &Installer<'_>,
    options: &TreeOptions,
    family: FamilyId,
    key: &[u8],
    pointer: &BlobPointer,
    stored: &[u8],
) -> Result<BlobPointer> {
    let (bytes, found) = (pointer.stored_bytes, stored.len());
    assert!(found == bytes as usize, "{found} bytes would move to a place for {bytes}");
    let place = reserve(installer, bytes, options.blob_file_bytes)?;
    let (uid, number) = (place.file().uid(), place.file().number());
    let header = BlobHeader {
        checksum: crc32c_append(checksum_at(uid, place.offset + BLOB_HEADER_BYTES), stored),
        key_hash: xxh3(key),
        family,
        length: pointer.length,
        stored_bytes: pointer.stored_bytes,
        codec: pointer.codec,
    };
    place.file().write(place.offset, &[&header.encode(uid, place.offset), stored])?;
    Ok(header.pointer(number, place.offset, pointer.expiry_ms))
}

/// A place in the current blob file. If that is full, a new one is created.
fn reserve(installer: &Installer<'_>, stored_bytes: u32, file_bytes: u64) -> Result<BlobPlace> {
    loop {
        if let Some(place) = installer.blobs.reserve(stored_bytes, file_bytes) {
            return Ok(place);
        }
        installer.at_work(|| create_file(installer, file_bytes))?;
    }
}

#[cold]
fn create_file(installer: &Installer<'_>, file_bytes: u64) -> Result<()> {
    let creating = lock(&installer.blobs.creating_io);
    // The previous holder of the lock may have created one.
    if installer.blobs.has_room(file_bytes) {
        return Ok(());
    }
    installer.health.check()?;
    installer.catalog.ids.check_files_left()?;
    let number = installer.catalog.ids.file();
    let uid = BlobUid(installer.catalog.ids.table_uid().0);
    let file = BlobFile::create(installer.blobs.directory(), number, uid)?;
    let file = Arc::new(file);
    // Before the edit: what reads the manifest next, as a checkpoint, finds the file.
    if !seeded_fault!("blob_file_set_after_the_manifest") {
        installer.blobs.add(&file);
    }
    let change = Change::BlobFile { file: number, uid };
    if let Err(error) = install(installer, vec![change], None) {
        installer.blobs.withdraw(number);
        if installer.health.check_log().is_ok() {
            // The next opening removes it otherwise.
            let _ = installer.blobs.directory().remove(&FileName::Blob(number).to_path());
        }
        return Err(error);
    }
    let is_next = installer.blobs.begin(file);
    drop(creating);
    if is_next {
        freeze(installer);
    }
    Ok(())
}

/// Freezes the active generation, so that the log refers to few blob files: an opening after a
/// crash verifies what it refers to.
fn freeze(installer: &Installer<'_>) {
    let mut sequencer = lock(&installer.log.sequencer);
    let frozen_count = lock(&installer.log.frozen).len();
    // Writers must not wait for flushes because of this.
    if frozen_count + 1 < FROZEN_MAX
        && let Some(frozen) = sequencer.freeze()
    {
        installer.freeze(frozen);
    }
}
