//! Backup lists: what one backup holds, and the names of the files in a directory of backups.
//!
//! It neither copies files nor says which backups there are.
//!
//! A list is one file, sealed by its checksum. It is written last: with it the backup exists.
//!
//! ```text
//! | magic 8 bytes | version u32 le | body length u64 le | body | checksum u32 le |
//! ```
//!
//! The checksum is the CRC-32C of everything before it. The body is [fields](crate::fields);
//! numbers of a value are varints unless a width is given:
//!
//! ```text
//! tag  value
//!   1  number
//!   2  sequence
//!   3  number of the manifest that a restore writes
//!   4  the edit with which that manifest begins
//!   5  files: | file | uid u64 le | checksum u32 le | bytes | ...    files ascend strictly
//!   7  blob files, as 5
//!   9  1: another process may have written to the blob files while they were copied; absent: none
//!  64  time of creation, in ms since 1970
//!  65  directory of the database, UTF-8
//!  66  mark: | directory u64 le | mark u64 le | after u64 le |
//! ```

use crate::{
    edit::{Change, Edit, TableReference, identity::BackupMark},
    fields::{FieldList, FieldsWriter, StoredField, UnknownFields, read_fields},
    file_name::{DIGITS_MIN, FileName, parse_number},
};
use siltdb_base::{
    checksum::{bad_checksum, crc32c},
    codec::{ByteReader, put_varint},
    error::{Error, ErrorKind, Result},
    id::{BlobUid, DatabaseId, FileNumber, SequenceNumber, TableUid},
    limits::{FILE_NUMBER_MAX, TABLE_END_MAX},
};
use std::{fmt, path::PathBuf};

/// The version of backup lists that this build writes and reads.
pub const BACKUP_LIST_VERSION: u32 = 1;

/// The first bytes of a list.
const MAGIC: [u8; 8] = *b"siltback";

/// Magic, version and length.
pub const LIST_HEAD_BYTES: usize = 8 + 4 + 8;

/// The checksum at the end.
const SEAL_BYTES: usize = 4;

/// Hexadecimal digits of a uid in a name.
const UID_DIGITS: usize = 16;

/// Hexadecimal digits of a checksum in a name.
const CHECKSUM_DIGITS: usize = 8;

/// The extension of a file that is being written.
const PARTIAL: &str = ".partial";

const FIELDS: FieldList = FieldList { of: "list of a backup", reserved: &[(6, "log segments")] };

/// What a file in a directory of backups holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// Tables.
    Tables,
    /// Separated values: it is a blob file.
    Blobs,
}

impl ObjectKind {
    /// The name of the file with this number in a database.
    #[must_use]
    pub fn file_name(self, number: FileNumber) -> FileName {
        match self {
            Self::Tables => FileName::Table(number),
            Self::Blobs => FileName::Blob(number),
        }
    }
}

/// The name of a file of tables or blobs in a directory of backups. A file is immutable and its
/// name says what it holds, so backups share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    /// What the file holds.
    pub kind: ObjectKind,
    /// The uid of the blob file, or of a table in the file: the first one that the backup refers to
    /// which copied it.
    pub uid: TableUid,
    /// The CRC-32C of the whole file.
    pub checksum: u32,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let extension = match self.kind {
            ObjectKind::Tables => "table",
            ObjectKind::Blobs => "blob",
        };
        write!(f, "{:016x}-{:08x}.{extension}", self.uid.0, self.checksum)
    }
}

/// The name of a file in a directory of backups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BackupFileName {
    /// `000012.backup`: the list of a backup.
    List(u64),
    /// `UID-CHECKSUM.table`: a file of tables. `UID-CHECKSUM.blob`: a blob file.
    Object(ObjectName),
    /// `000012.backup.partial`: a list that is being written.
    PartialList(u64),
    /// `UID.partial`: a file of tables that is being copied.
    PartialObject(TableUid),
    /// `000012.made`: empty; the list of this number was durable once.
    Made(u64),
    /// `LOCK`: held by the one that writes.
    Lock,
}

impl BackupFileName {
    /// The file of this name; `None` if the name is not one of ours.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        if name == "LOCK" {
            return Some(Self::Lock);
        }
        if let Some(digits) = name.strip_suffix(".made") {
            return parse_number(digits).map(Self::Made);
        }
        if let Some(name) = name.strip_suffix(PARTIAL) {
            return match name.strip_suffix(".backup") {
                Some(digits) => parse_number(digits).map(Self::PartialList),
                None => parse_hex(name, UID_DIGITS).map(|uid| Self::PartialObject(TableUid(uid))),
            };
        }
        if let Some(digits) = name.strip_suffix(".backup") {
            return parse_number(digits).map(Self::List);
        }
        let (name, kind) = match name.strip_suffix(".blob") {
            Some(name) => (name, ObjectKind::Blobs),
            None => (name.strip_suffix(".table")?, ObjectKind::Tables),
        };
        let (uid, checksum) = name.split_once('-')?;
        let uid = TableUid(parse_hex(uid, UID_DIGITS)?);
        let checksum = u32::try_from(parse_hex(checksum, CHECKSUM_DIGITS)?).ok()?;
        Some(Self::Object(ObjectName { kind, uid, checksum }))
    }

    /// The name as a path: relative to the directory of backups.
    #[must_use]
    pub fn to_path(self) -> PathBuf {
        self.to_string().into()
    }
}

/// The number that exactly `digits` lower-case hexadecimal digits write.
fn parse_hex(text: &str, digits: usize) -> Option<u64> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != digits || !text.bytes().all(is_digit) {
        return None;
    }
    u64::from_str_radix(text, 16).ok()
}

impl fmt::Display for BackupFileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(number) => write!(f, "{number:0DIGITS_MIN$}.backup"),
            Self::Object(name) => write!(f, "{name}"),
            Self::PartialList(number) => write!(f, "{number:0DIGITS_MIN$}.backup{PARTIAL}"),
            Self::PartialObject(uid) => write!(f, "{:016x}{PARTIAL}", uid.0),
            Self::Made(number) => write!(f, "{number:0DIGITS_MIN$}.made"),
            Self::Lock => f.write_str("LOCK"),
        }
    }
}

/// A file of tables that a backup needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupObject {
    /// The number of the file in the database.
    pub file: FileNumber,
    /// Its name in the directory of backups.
    pub name: ObjectName,
    /// Its length, in bytes.
    pub bytes: u64,
}

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupList {
    /// The number of the backup, from 1 on.
    pub number: u64,
    /// It holds every commit up to this sequence number, and none after it.
    pub sequence: SequenceNumber,
    /// The number of the manifest that a restore writes.
    pub manifest: FileNumber,
    /// The edit with which that manifest begins.
    pub state: Edit,
    /// The files that the edit names, ascending.
    pub objects: Vec<BackupObject>,
    /// The blob files that the edit names, ascending.
    pub blobs: Vec<BackupObject>,
    /// Whether they were copied while another process may have written to them. What the edit
    /// refers to is whole, but a later backup may need more of a file of the same length.
    pub may_blobs_grow: bool,
    /// When it was made, in ms since 1970.
    pub created_ms: u64,
    /// The directory of the database, for people.
    pub source: String,
    /// The mark that the database has since; `None` in a list of an older version.
    pub mark: Option<BackupMark>,
    /// What later versions say of it.
    pub unknown: UnknownFields,
}

impl BackupList {
    /// The bytes of the file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let mut fields = FieldsWriter::new(&mut body, &self.unknown);
        fields.put_number(1, self.number);
        fields.put_number(2, self.sequence.0);
        fields.put_number(3, self.manifest.0);
        fields.put(4, |value| self.state.encode(value));
        fields.put(5, |value| self.objects.iter().for_each(|object| object.encode(value)));
        if !self.blobs.is_empty() {
            fields.put(7, |value| self.blobs.iter().for_each(|object| object.encode(value)));
        }
        if self.may_blobs_grow {
            fields.put_number(9, 1);
        }
        fields.put_count(64, self.created_ms);
        fields.put(65, |value| value.extend_from_slice(self.source.as_bytes()));
        if let Some(mark) = self.mark {
            fields.put(66, |value| mark.encode(value));
        }
        fields.finish();
        let mut bytes = Vec::with_capacity(LIST_HEAD_BYTES + body.len() + SEAL_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&BACKUP_LIST_VERSION.to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&body);
        let checksum = crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// Corruption, if they are no list, or one that names files that it does not have;
    /// `Unsupported`, if a newer version wrote it.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let body = unsealed(bytes)?;
        let (mut number, mut sequence, mut manifest) = (None, None, None);
        let (mut state, mut objects, mut blobs) = (None, Vec::new(), Vec::new());
        let (mut created_ms, mut source, mut mark) = (0, String::new(), None);
        let mut may_blobs_grow = false;
        let unknown = read_fields(&FIELDS, body, |tag, value| {
            match tag {
                1 => number = Some(numbered(value.varint()?)?),
                2 => sequence = Some(value.varint()?),
                3 => manifest = Some(numbered(value.varint()?)?),
                4 => state = Some(Edit::decode_snapshot(value.take_all())?),
                5 => objects = decode_objects(value, ObjectKind::Tables)?,
                7 => blobs = decode_objects(value, ObjectKind::Blobs)?,
                9 => may_blobs_grow = value.varint()? != 0,
                64 => created_ms = value.varint()?,
                65 => source = String::from_utf8_lossy(value.take_all()).into_owned(),
                66 => mark = Some(BackupMark::decode(value)?),
                _ => return Ok(StoredField::Unknown),
            }
            Ok(StoredField::Known)
        })?;
        let missing = || Error::corruption("list of a backup: a field is missing");
        let sequence = sequence.ok_or_else(missing)?;
        if sequence > SequenceNumber::MAX.0 {
            return Err(Error::corruption("sequence number exceeds 56 bits"));
        }
        let list = Self {
            number: number.ok_or_else(missing)?,
            sequence: SequenceNumber(sequence),
            manifest: FileNumber(manifest.ok_or_else(missing)?),
            state: state.ok_or_else(missing)?,
            objects,
            blobs,
            may_blobs_grow,
            created_ms,
            source,
            mark,
            unknown,
        };
        list.check()?;
        Ok(list)
    }

    fn references(&self) -> impl Iterator<Item = &TableReference> {
        references(&self.state)
    }

    /// The identity of the database; `None` in a list of an older version.
    #[must_use]
    pub fn identity(&self) -> Option<DatabaseId> {
        self.state.identity()
    }

    /// The tables of the backup, as its edit refers to them, each with the file that it lies in.
    pub fn tables(&self) -> impl Iterator<Item = (&BackupObject, &TableReference)> {
        self.references().filter_map(|table| {
            let found = self.objects.binary_search_by_key(&table.file, |object| object.file);
            Some((&self.objects[found.ok()?], table))
        })
    }

    /// The bytes of all its files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.all_objects().map(|object| object.bytes).sum()
    }

    /// All its files.
    pub fn all_objects(&self) -> impl Iterator<Item = &BackupObject> {
        self.objects.iter().chain(&self.blobs)
    }

    /// Checks that the edit names just the files that there are, and nothing behind their ends.
    fn check(&self) -> Result<()> {
        let mut is_named = vec![false; self.objects.len()];
        for table in self.references() {
            let found = self.objects.binary_search_by_key(&table.file, |object| object.file);
            let Ok(index) = found else {
                return Err(Error::corruption("list of a backup: a file is not listed")
                    .with_mismatch("a listed file", table.file));
            };
            if table.offset + table.length > self.objects[index].bytes {
                return Err(Error::corruption("list of a backup: a table ends behind its file"));
            }
            is_named[index] = true;
        }
        if is_named.contains(&false) {
            return Err(Error::corruption("list of a backup: a file has no table"));
        }
        let mut named: Vec<(FileNumber, BlobUid)> = blob_files(&self.state).collect();
        named.sort_unstable();
        let listed = self.blobs.iter().map(|blob| (blob.file, BlobUid(blob.name.uid.0)));
        if !named.into_iter().eq(listed) {
            return Err(Error::corruption(
                "list of a backup: other blob files than the edit names",
            ));
        }
        Ok(())
    }
}

/// The tables that an edit adds.
pub fn references(edit: &Edit) -> impl Iterator<Item = &TableReference> {
    edit.changes.iter().filter_map(|change| match change {
        Change::AddTable { table, .. } => Some(&**table),
        _ => None,
    })
}

/// The blob files that an edit adds.
pub fn blob_files(edit: &Edit) -> impl Iterator<Item = (FileNumber, BlobUid)> {
    edit.changes.iter().filter_map(|change| match change {
        Change::BlobFile { file, uid } => Some((*file, *uid)),
        _ => None,
    })
}

impl BackupObject {
    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.file.0);
        out.extend_from_slice(&self.name.uid.0.to_le_bytes());
        out.extend_from_slice(&self.name.checksum.to_le_bytes());
        put_varint(out, self.bytes);
    }

    fn decode(reader: &mut ByteReader<'_>, kind: ObjectKind) -> Result<Self> {
        let file = FileNumber(numbered(reader.varint()?)?);
        let uid = TableUid(reader.u64()?);
        let name = ObjectName { kind, uid, checksum: reader.u32()? };
        let bytes = reader.varint()?;
        if bytes > TABLE_END_MAX {
            return Err(Error::corruption("list of a backup: a file is too long")
                .with_mismatch(format_args!("at most {TABLE_END_MAX}"), bytes));
        }
        Ok(Self { file, name, bytes })
    }
}

fn decode_objects(reader: &mut ByteReader<'_>, kind: ObjectKind) -> Result<Vec<BackupObject>> {
    let mut objects: Vec<BackupObject> = Vec::new();
    while !reader.is_empty() {
        let object = BackupObject::decode(reader, kind)?;
        if objects.last().is_some_and(|last| last.file >= object.file) {
            return Err(Error::corruption("list of a backup: files out of order"));
        }
        objects.push(object);
    }
    Ok(objects)
}

fn numbered(number: u64) -> Result<u64> {
    if number > FILE_NUMBER_MAX {
        return Err(Error::corruption("list of a backup: a number is too large")
            .with_mismatch(format_args!("at most {FILE_NUMBER_MAX}"), number));
    }
    Ok(number)
}

/// Checks that a file of `file_bytes` bytes can be a list that begins with `head`, before it is
/// read.
///
/// # Errors
/// Corruption.
pub fn check_list_head(head: &[u8; LIST_HEAD_BYTES], file_bytes: u64) -> Result<()> {
    let mut reader = ByteReader::new(head);
    if reader.take(MAGIC.len())? != MAGIC {
        return Err(Error::corruption("not the list of a backup").with_offset(0));
    }
    reader.u32()?;
    let expected = reader.u64()?.saturating_add((LIST_HEAD_BYTES + SEAL_BYTES) as u64);
    if expected == file_bytes {
        return Ok(());
    }
    Err(Error::corruption("list of a backup has another length")
        .with_mismatch(expected, file_bytes))
}

/// The body of a list whose head and seal are right.
fn unsealed(bytes: &[u8]) -> Result<&[u8]> {
    let mut reader = ByteReader::new(bytes);
    if reader.take(MAGIC.len())? != MAGIC {
        return Err(Error::corruption("not the list of a backup").with_offset(0));
    }
    let version = reader.u32()?;
    let body_bytes = reader.u64()?;
    let (sealed, seal) = bytes
        .split_last_chunk::<SEAL_BYTES>()
        .filter(|(sealed, _)| sealed.len() >= LIST_HEAD_BYTES)
        .ok_or_else(|| Error::corruption("list of a backup ends early"))?;
    let (expected, found) = (u32::from_le_bytes(*seal), crc32c(sealed));
    if expected != found {
        return Err(bad_checksum("bad checksum of the list of a backup", expected, found));
    }
    // Behind the checksum: what is damaged is not called newer.
    if version != BACKUP_LIST_VERSION {
        return Err(Error::new(ErrorKind::Unsupported, "list of a backup: a later version")
            .with_mismatch(BACKUP_LIST_VERSION, version));
    }
    let body = &sealed[LIST_HEAD_BYTES..];
    if body.len() as u64 != body_bytes {
        return Err(Error::corruption("list of a backup has another length")
            .with_mismatch(body_bytes, body.len()));
    }
    Ok(body)
}

#[cfg(test)]
mod tests;
