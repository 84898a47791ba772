//! Edits of the manifest: the only way in which the set of files and families changes.
//!
//! It says what changes, and neither applies a change nor asks whether it makes sense.
//!
//! A manifest is a record log of one segment. The payload of each record is an edit. The first is a
//! snapshot: it begins with [`Change::Format`] and leads from nothing to the whole state.
//!
//! An edit is its changes one after the other. A change has the form of a [field](crate::fields),
//! but tags come in any order and as often as wanted:
//!
//! ```text
//! | tag varint | length varint | value | ...
//! ```
//!
//! Numbers of a value are varints unless a width is given, names and options are a varint length
//! and bytes. Behind what is shown, a value may have fields that later versions define.
//!
//! ```text
//! tag  value
//!   1  Format        | version | features |
//!   2  CreateFamily  | family | name | options |
//!   3  DropFamily    | family |
//!   4  RenameFamily  | family | name |
//!   5  FamilyOptions | family | options |
//!   6  AddTable      | family | level u8 | file | offset | length | fields of the reference |
//!   7  RemoveTable   | family | level u8 | file | offset |
//!   8  LogStart      | segment |
//!   9  LogCut        | segment | offset | next segment | bytes |
//!  10  NextFile      | file |
//!  11  NextFamily    | family |
//!  12  LastSequence  | sequence |
//!  13  LogSynced     | segment | offset | slot | fields of the [synced log](synced) |
//!  14  LatestTime    | ms | jump ms |
//!  15  BlobFile      | file | state u8: 1 added, 2 removed | if added: uid u64 le |
//!  16  Branch        | kind u8 | of a [branch](crate::branch_record) |
//!  17  Prepared      | number | state u8: 1 undecided, 2 decided | if undecided: bytes |
//!  18  FamiliesLogged | segment | offset |
//!  19  RetentionFloor | sequence + 1; 0: there is none |
//!  20  ColdDirectory  | id u64 le | path | fields: 1 owner u64 le |
//!  21  Identity       | id u128 le |
//!  22  BackedUp       | directory u64 le | mark u64 le | after u64 le |
//!  23  ColdDirectoryLeft |
//! ```

pub mod current;
pub mod identity;
pub mod synced;
pub mod tier;
mod reference;
mod values;

pub use reference::TableReference;
pub use values::NEXT_FILE_MAX;

use crate::{
    branch_record::BranchChange,
    edit::{
        identity::BackupMark,
        reference::{KnownReferences, sequence},
        synced::SyncedLog,
        tier::ColdPlace,
        values::{
            family, level, name, new_family, next_family, next_file, position, put_numbers,
            put_position, retention_floor, segments_end,
        },
    },
    fields::{FieldList, OPTIONAL, StoredField, read_fields},
    log::record::LogPosition,
    prepared::PreparedBatch,
};
use siltdb_base::{
    clock::StoredTime,
    codec::{ByteReader, put_bytes, put_varint},
    error::{Error, ErrorKind, Result},
    id::{BlobUid, DatabaseId, FamilyId, FileNumber, SegmentId, SequenceNumber},
};
use std::sync::Arc;

/// The version of the files of a database that this build writes and reads.
pub const FORMAT_VERSION: u32 = 2;

/// The features of a database, one bit each, that this build knows.
pub const FEATURES_KNOWN: u64 = 0;

/// The state of a prepared transaction in a change: it waits for its decision.
const UNDECIDED: u8 = 1;

/// It waits no more.
const DECIDED: u8 = 2;

/// The state of a blob file in a change: it belongs to the database.
const ADDED: u8 = 1;

/// It belongs to it no more.
const REMOVED: u8 = 2;

/// Changes have the tags of fields, and so the same rule for those that are not known.
const CHANGES: FieldList = FieldList { of: "manifest", reserved: &[] };

/// What later versions say in a change that this one knows.
const CHANGE_FIELDS: FieldList = FieldList { of: "change in the manifest", reserved: &[] };

/// One change of the set of files and families.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The first change of a manifest: what is needed to read the database.
    Format {
        /// [`FORMAT_VERSION`] of the writer.
        version: u32,
        /// The features in use, one bit each.
        features: u64,
    },
    /// There is a new family.
    CreateFamily {
        /// Its id, never used before.
        id: FamilyId,
        /// The name that callers open it by.
        name: String,
        /// Its options, encoded by the floors that know them.
        options: Vec<u8>,
    },
    /// A family is gone, and all its tables with it.
    DropFamily {
        /// The family that is changed.
        id: FamilyId,
    },
    /// A family has a new name.
    RenameFamily {
        /// The family that is changed.
        id: FamilyId,
        /// The new name.
        name: String,
    },
    /// A family has new options.
    FamilyOptions {
        /// The family that is changed.
        id: FamilyId,
        /// All of them, encoded by the floors that know them.
        options: Vec<u8>,
    },
    /// A table joins a level.
    AddTable {
        /// The family that the table belongs to.
        family: FamilyId,
        /// The level, below [`LEVELS`](siltdb_base::limits::LEVELS).
        level: u8,
        /// The table, and where it lies. Families that share a table share this.
        table: Arc<TableReference>,
    },
    /// A table leaves a level.
    RemoveTable {
        /// The family that the table belongs to.
        family: FamilyId,
        /// The level, below [`LEVELS`](siltdb_base::limits::LEVELS).
        level: u8,
        /// The table's file.
        file: FileNumber,
        /// Where in the file it begins, in bytes.
        offset: u64,
    },
    /// Recovery begins with this segment; earlier ones are retired.
    LogStart {
        /// The segment that the change names.
        segment: SegmentId,
    },
    /// A recovery cut the log; see [`KnownCut`](crate::log::recover::KnownCut).
    LogCut {
        /// Where the log ends.
        position: LogPosition,
        /// Segments between that of the position and this one are cut off as well.
        next: SegmentId,
        /// The bytes that were lost.
        bytes: u64,
    },
    /// Files get numbers from this one on.
    NextFile(FileNumber),
    /// Families get ids from this one on.
    NextFamily(FamilyId),
    /// Every sequence number up to this one is taken.
    LastSequence(SequenceNumber),
    /// The log up to this position is durable, whatever the log itself says.
    LogSynced(SyncedLog),
    /// Expiry was decided by this time: no earlier settled one is used again.
    LatestTime(StoredTime),
    /// The changes of families that log records before this position bring are in the manifest.
    FamiliesLogged {
        /// The position in the log.
        position: LogPosition,
    },
    /// From this sequence number on every version is kept; `None`: there is no retention floor.
    RetentionFloor(Option<SequenceNumber>),
    /// A blob file, durable with its name, belongs to the database.
    BlobFile {
        /// The file.
        file: FileNumber,
        /// The uid that its header has.
        uid: BlobUid,
    },
    /// Nothing refers to a blob file any more.
    BlobFileRemoved {
        /// The file.
        file: FileNumber,
    },
    /// The branches change.
    Branch(BranchChange),
    /// This is the cold directory, whether or not a table lies there.
    ColdDirectory(ColdPlace),
    /// There is no cold directory any more.
    ColdDirectoryLeft,
    /// The identity of the database.
    Identity(DatabaseId),
    /// A backup of what is here went to a directory of backups.
    BackedUp(BackupMark),
    /// A prepared transaction waits for its decision.
    Prepared {
        /// The sequence number of its Prepare record, which the log need not have any more.
        number: SequenceNumber,
        /// All of it.
        transaction: Arc<PreparedBatch>,
    },
    /// A prepared transaction was decided, as the log says or as the tables show.
    PreparedDecided {
        /// Its number.
        number: SequenceNumber,
    },
    /// An optional change of a later version, which is passed over.
    Unknown {
        /// The tag, unknown to this build.
        tag: u64,
        /// The bytes of the change, kept unchanged.
        value: Vec<u8>,
    },
}

impl Change {
    fn tag(&self) -> u64 {
        match self {
            Self::Format { .. } => 1,
            Self::CreateFamily { .. } => 2,
            Self::DropFamily { .. } => 3,
            Self::RenameFamily { .. } => 4,
            Self::FamilyOptions { .. } => 5,
            Self::AddTable { .. } => 6,
            Self::RemoveTable { .. } => 7,
            Self::LogStart { .. } => 8,
            Self::LogCut { .. } => 9,
            Self::NextFile(_) => 10,
            Self::NextFamily(_) => 11,
            Self::LastSequence(_) => 12,
            Self::LogSynced(_) => 13,
            Self::LatestTime(_) => 14,
            Self::BlobFile { .. } | Self::BlobFileRemoved { .. } => 15,
            Self::Branch(_) => 16,
            Self::Prepared { .. } | Self::PreparedDecided { .. } => 17,
            Self::FamiliesLogged { .. } => 18,
            Self::RetentionFloor(_) => 19,
            Self::ColdDirectory(_) => 20,
            Self::Identity(_) => 21,
            Self::BackedUp(_) => 22,
            Self::ColdDirectoryLeft => 23,
            Self::Unknown { tag, .. } => *tag,
        }
    }

    fn encode_value(&self, out: &mut Vec<u8>) {
        match self {
            Self::Format { version, features } => {
                put_numbers(out, &[u64::from(*version), *features]);
            }
            Self::CreateFamily { id, name, options } => {
                put_numbers(out, &[u64::from(id.0)]);
                put_bytes(out, name.as_bytes());
                put_bytes(out, options);
            }
            Self::RenameFamily { id, name } => {
                put_numbers(out, &[u64::from(id.0)]);
                put_bytes(out, name.as_bytes());
            }
            Self::FamilyOptions { id, options } => {
                put_numbers(out, &[u64::from(id.0)]);
                put_bytes(out, options);
            }
            Self::AddTable { family, level, table } => {
                put_numbers(out, &[u64::from(family.0)]);
                out.push(*level);
                table.encode(out);
            }
            Self::RemoveTable { family, level, file, offset } => {
                put_numbers(out, &[u64::from(family.0)]);
                out.push(*level);
                put_numbers(out, &[file.0, *offset]);
            }
            Self::LogStart { segment } => put_numbers(out, &[segment.0]),
            Self::LogCut { position, next, bytes } => {
                put_numbers(out, &[position.segment.0, position.offset, next.0, *bytes]);
            }
            Self::NextFile(file) => put_numbers(out, &[file.0]),
            Self::DropFamily { id } | Self::NextFamily(id) => put_numbers(out, &[u64::from(id.0)]),
            Self::LastSequence(sequence) => put_numbers(out, &[sequence.0]),
            Self::LogSynced(synced) => synced.encode(out),
            Self::LatestTime(time) => put_numbers(out, &[time.latest_ms, time.jump_ms]),
            Self::FamiliesLogged { position } => put_position(out, *position),
            Self::RetentionFloor(floor) => put_numbers(out, &[floor.map_or(0, |at| at.0 + 1)]),
            Self::BlobFile { file, uid } => {
                put_numbers(out, &[file.0]);
                out.push(ADDED);
                out.extend_from_slice(&uid.0.to_le_bytes());
            }
            Self::BlobFileRemoved { file } => {
                put_numbers(out, &[file.0]);
                out.push(REMOVED);
            }
            Self::Branch(change) => change.encode(out),
            Self::ColdDirectory(place) => place.encode(out),
            Self::Identity(id) => out.extend_from_slice(&id.0.to_le_bytes()),
            Self::BackedUp(mark) => mark.encode(out),
            Self::ColdDirectoryLeft => {}
            Self::Prepared { number, transaction } => {
                put_numbers(out, &[number.0]);
                out.push(UNDECIDED);
                let mut bytes = Vec::new();
                transaction.encode(&mut bytes);
                put_bytes(out, &bytes);
            }
            Self::PreparedDecided { number } => {
                put_numbers(out, &[number.0]);
                out.push(DECIDED);
            }
            Self::Unknown { value, .. } => out.extend_from_slice(value),
        }
    }

    fn decode<'a>(tag: u64, value: &'a [u8], tables: &mut KnownReferences<'a>) -> Result<Self> {
        let reader = &mut ByteReader::new(value);
        let change = match tag {
            1 => format(reader)?,
            2 => Self::CreateFamily {
                id: new_family(reader)?,
                name: name(reader)?,
                options: reader.bytes()?.to_vec(),
            },
            3 => Self::DropFamily { id: family(reader)? },
            4 => Self::RenameFamily { id: family(reader)?, name: name(reader)? },
            5 => Self::FamilyOptions { id: family(reader)?, options: reader.bytes()?.to_vec() },
            6 => Self::AddTable {
                family: family(reader)?,
                level: level(reader)?,
                table: tables.decode(reader)?,
            },
            7 => Self::RemoveTable {
                family: family(reader)?,
                level: level(reader)?,
                file: FileNumber(reader.varint()?),
                offset: reader.varint()?,
            },
            8 => Self::LogStart { segment: segments_end(reader)? },
            9 => Self::LogCut {
                position: position(reader)?,
                next: segments_end(reader)?,
                bytes: reader.varint()?,
            },
            10 => Self::NextFile(next_file(reader)?),
            11 => Self::NextFamily(next_family(reader)?),
            12 => Self::LastSequence(sequence(reader)?),
            13 => Self::LogSynced(SyncedLog::decode(position(reader)?, reader)?),
            14 => Self::LatestTime(StoredTime {
                latest_ms: reader.varint()?,
                jump_ms: reader.varint()?,
            }),
            15 => blob_file(reader)?,
            16 => Self::Branch(BranchChange::decode(reader)?),
            17 => prepared(reader)?,
            18 => Self::FamiliesLogged { position: position(reader)? },
            19 => Self::RetentionFloor(retention_floor(reader)?),
            20 => Self::ColdDirectory(ColdPlace::decode(reader)?),
            21 => Self::Identity(identity::decode(reader)?),
            22 => Self::BackedUp(BackupMark::decode(reader)?),
            23 => Self::ColdDirectoryLeft,
            0 => return Err(Error::corruption("no change in the manifest has the tag 0")),
            _ if tag & OPTIONAL == 0 => return Err(CHANGES.unsupported(tag)),
            _ => return Ok(Self::Unknown { tag, value: value.to_vec() }),
        };
        read_fields(&CHANGE_FIELDS, reader.rest(), |_, _| Ok(StoredField::Unknown))?;
        Ok(change)
    }
}

fn format(reader: &mut ByteReader<'_>) -> Result<Change> {
    // Only those of this version are known to stand behind it.
    let version = reader.varint_u32()?;
    if version != FORMAT_VERSION {
        let hint = if version < FORMAT_VERSION {
            "made before the first release: export it with the build that made it, then import"
        } else {
            "made by a later version: open it with that"
        };
        return Err(Error::new(ErrorKind::Unsupported, "unknown format version of a database")
            .with_mismatch(FORMAT_VERSION, version)
            .with_hint(hint));
    }
    let features = reader.varint()?;
    let unknown = features & !FEATURES_KNOWN;
    if unknown != 0 {
        return Err(Error::new(ErrorKind::Unsupported, "database uses unknown features")
            .with_mismatch(
                format_args!("bits within {FEATURES_KNOWN:#x}"),
                format_args!("{unknown:#x}"),
            )
            .with_hint("used by a later version: open it with that"));
    }
    Ok(Change::Format { version, features })
}

fn blob_file(reader: &mut ByteReader<'_>) -> Result<Change> {
    let file = FileNumber(reader.varint()?);
    match reader.u8()? {
        ADDED => Ok(Change::BlobFile { file, uid: BlobUid(reader.u64()?) }),
        REMOVED => Ok(Change::BlobFileRemoved { file }),
        state => {
            Err(Error::corruption("a blob file has an unknown state")
                .with_mismatch("1 or 2", state))
        }
    }
}

fn prepared(reader: &mut ByteReader<'_>) -> Result<Change> {
    let number = sequence(reader)?;
    match reader.u8()? {
        UNDECIDED => {
            let transaction = Arc::new(PreparedBatch::decode(reader.bytes()?)?);
            Ok(Change::Prepared { number, transaction })
        }
        DECIDED => Ok(Change::PreparedDecided { number }),
        state => Err(Error::corruption("a prepared transaction has an unknown state")
            .with_mismatch("1 or 2", state)),
    }
}

/// Changes that become durable and visible together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// The changes, in the order in which they apply.
    pub changes: Vec<Change>,
}

impl Edit {
    /// Appends the encoding to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut value = Vec::new();
        for change in &self.changes {
            value.clear();
            change.encode_value(&mut value);
            put_varint(out, change.tag());
            put_bytes(out, &value);
        }
    }

    /// Reads an encoding that fills all of `bytes`; allocates in proportion to them. Equal
    /// references to tables, as clones and branches have, are decoded once.
    ///
    /// # Errors
    /// `Unsupported`, if a change, the format version or a feature is not known; `Corruption`, if
    /// the bytes are no edit.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = ByteReader::new(bytes);
        // Damaged bytes may seem to be many small changes.
        let most = bytes.len() / size_of::<Change>();
        let mut changes = Vec::with_capacity(count_changes(bytes).min(most));
        let mut tables = KnownReferences::default();
        while !reader.is_empty() {
            changes.push(Change::decode(reader.varint()?, reader.bytes()?, &mut tables)?);
        }
        Ok(Self { changes })
    }

    /// The identity that it gives the database, if any.
    #[must_use]
    pub fn identity(&self) -> Option<DatabaseId> {
        self.changes.iter().rev().find_map(|change| match change {
            Change::Identity(id) => Some(*id),
            _ => None,
        })
    }

    /// Reads the first edit of a manifest, which must begin with [`Change::Format`].
    ///
    /// # Errors
    /// As [`Edit::decode`]; `Corruption`, if it begins otherwise.
    pub fn decode_snapshot(bytes: &[u8]) -> Result<Self> {
        let edit = Self::decode(bytes)?;
        match edit.changes.first() {
            Some(Change::Format { .. }) => Ok(edit),
            _ => Err(Error::corruption("manifest does not begin with its format")),
        }
    }
}

/// The number of changes in an encoding, as far as it can be read.
fn count_changes(bytes: &[u8]) -> usize {
    let mut reader = ByteReader::new(bytes);
    let mut next = || (!reader.is_empty()).then(|| reader.varint().and_then(|_| reader.bytes()));
    std::iter::from_fn(|| next()?.ok()).count()
}

#[cfg(test)]
mod tests;
