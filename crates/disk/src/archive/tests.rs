//! Archives there and back, read from any place, damaged in each byte and cut at each length.

use super::{
    cursor::ArchiveCursor,
    directory::{ARCHIVE_SEQUENCE, ArchiveDirectory},
    envelope::{ARCHIVE_FOOTER_BYTES, ARCHIVE_HEADER_BYTES, ArchiveFooter, encode_header},
    name::ArchiveFileName,
    reader::ArchiveFile,
    writer::{ArchiveFacts, ArchiveSource, ArchiveWriter, ArchivedPut, FamilyFacts},
};
use crate::options::{Compression, TableOptions};
use siltdb_base::{
    checksum::crc32c,
    cursor::ForwardCursor,
    error::{Error, ErrorKind, Result},
    fs::{Fs, mem::MemFs},
    id::{SequenceNumber, TableUid},
    key::{EntryKind, split_expiring},
    limits::FAMILY_NAME_BYTES_MAX,
};
use std::{path::Path, sync::Arc};

const PATH: &str = "a.siltar";

type Put = (Vec<u8>, EntryKind, Vec<u8>);

/// Puts in a list, and how many were taken.
struct List<'a>(&'a [Put]);

impl ArchiveSource for List<'_> {
    fn put(&self) -> Result<Option<ArchivedPut<'_>>> {
        let Some((key, kind, payload)) = self.0.first() else { return Ok(None) };
        let (expiry_ms, value) = match kind {
            EntryKind::PutExpiring => {
                let (expiry_ms, value) = split_expiring(payload)?;
                (Some(expiry_ms), value)
            }
            _ => (None, &payload[..]),
        };
        Ok(Some(ArchivedPut { key, value, expiry_ms }))
    }

    fn advance(&mut self) -> Result<()> {
        self.0 = self.0.get(1..).unwrap_or_default();
        Ok(())
    }
}

fn facts(name: &str, table_bytes: u64) -> FamilyFacts {
    FamilyFacts {
        name: name.to_owned(),
        options: name.as_bytes().to_vec(),
        merge_operator: (name == "b").then(|| "sum".to_owned()),
        table: TableOptions { block_bytes: 1024, ..TableOptions::default() },
        table_bytes,
    }
}

fn puts(count: u32) -> Vec<Put> {
    let put = |number: u32| {
        let key = format!("key {number:05}").into_bytes();
        let value = crc32c(&key).to_le_bytes().repeat(1 + number as usize % 9);
        match number % 5 {
            0 => (
                key,
                EntryKind::PutExpiring,
                [&(u64::from(number) + 9).to_le_bytes(), &value[..]].concat(),
            ),
            _ => (key, EntryKind::Put, value),
        }
    };
    (0..count).map(put).collect()
}

/// Writes an archive of these families to [`PATH`].
fn written(families: &[(&str, Vec<Put>)], table_bytes: u64) -> MemFs {
    let fs = MemFs::new();
    try_write(&fs, families, table_bytes, &mut |_| Ok(())).unwrap();
    fs
}

fn try_write(
    fs: &MemFs,
    families: &[(&str, Vec<Put>)],
    table_bytes: u64,
    on_bytes: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let facts_of_all = ArchiveFacts {
        id: 0x0123_4567_89ab_cdef,
        sequence: SequenceNumber(77),
        created_ms: 1_700_000_000_000,
        source: "data/ä".to_owned(),
    };
    let mut writer = ArchiveWriter::new(fs.create(Path::new(PATH))?, facts_of_all)?;
    let mut uid = 0_u64;
    for (name, puts) in families {
        let mut uids = || {
            uid += 1;
            TableUid(uid.wrapping_mul(0x9e37_79b9_7f4a_7c15))
        };
        writer.add_family(facts(name, table_bytes), &mut List(puts), &mut uids, on_bytes)?;
    }
    writer.finish()?.sync()
}

fn open(fs: &MemFs) -> Result<Arc<ArchiveFile>> {
    ArchiveFile::open(fs.open(Path::new(PATH))?, Path::new(PATH))
}

fn verify(fs: &MemFs) -> Result<()> {
    open(fs)?.verify(&mut |_| Ok(()))
}

fn all(mut cursor: ArchiveCursor) -> Result<Vec<Put>> {
    cursor.seek_to_first()?;
    let mut puts = Vec::new();
    while let Some(entry) = cursor.entry() {
        assert_eq!(entry.sequence, ARCHIVE_SEQUENCE);
        puts.push((entry.key.to_vec(), entry.kind, entry.value.to_vec()));
        cursor.next()?;
    }
    Ok(puts)
}

/// Everything that an archive shows; the first error ends it.
fn shown(fs: &MemFs) -> Result<Vec<(String, Vec<Put>)>> {
    let archive = open(fs)?;
    let names = archive.directory().families.iter().map(|family| family.name.clone());
    names.map(|name| Ok((name.clone(), all(archive.cursor(&name)?)?))).collect()
}

fn owned(families: &[(&str, Vec<Put>)]) -> Vec<(String, Vec<Put>)> {
    families.iter().map(|(name, puts)| ((*name).to_owned(), puts.clone())).collect()
}

#[test]
fn an_archive_is_read_as_it_was_written() {
    let families = [("a", puts(3000)), ("b", puts(1)), ("empty", Vec::new()), ("z", puts(200))];
    for table_bytes in [2 << 10, 1 << 30] {
        let fs = written(&families, table_bytes);
        verify(&fs).unwrap();
        assert_eq!(shown(&fs).unwrap(), owned(&families));
        let archive = open(&fs).unwrap();
        let ArchiveDirectory { families, sequence, created_ms, source, .. } = archive.directory();
        assert_eq!((sequence.0, *created_ms, &source[..]), (77, 1_700_000_000_000, "data/ä"));
        assert_eq!(archive.id(), 0x0123_4567_89ab_cdef);
        assert_eq!(archive.bytes(), fs.read_all(Path::new(PATH)).unwrap().len() as u64);
        let entries: Vec<u64> = families.iter().map(|family| family.entries()).collect();
        assert_eq!(entries, [3000, 1, 0, 200]);
        let tables: Vec<usize> = families.iter().map(|family| family.tables.len()).collect();
        assert!(tables[0] == 1 || table_bytes < 1 << 20 && tables[0] > 10, "{tables:?}");
        assert_eq!((tables[1], tables[2]), (1, 0));
        assert_eq!(families[0].expiry_min_ms(), Some(9));
        assert_eq!((families[2].expiry_min_ms(), families[2].logical_bytes()), (None, 0));
        assert_eq!(families[1].merge_operator.as_deref(), Some("sum"));
        assert_eq!((&families[3].options[..], &families[3].merge_operator), (&b"z"[..], &None));
    }
}

#[test]
fn a_cursor_goes_to_each_key_and_between_them() {
    let families = [("a", puts(900)), ("b", puts(2))];
    let fs = written(&families, 2 << 10);
    let archive = open(&fs).unwrap();
    assert!(archive.directory().families[0].tables.len() > 5);
    let keys: Vec<&[u8]> = families[0].1.iter().map(|(key, ..)| &key[..]).collect();
    let mut cursor = archive.cursor("a").unwrap();
    let at = |cursor: &ArchiveCursor| cursor.entry().map(|entry| entry.key.to_vec());
    let key_at = |index: usize| keys.get(index).map(|key| key.to_vec());
    for index in (0..keys.len()).rev().step_by(7) {
        let between = [keys[index], b"\0"].concat();
        cursor.seek(keys[index]).unwrap();
        assert_eq!(at(&cursor), key_at(index));
        cursor.next().unwrap();
        assert_eq!(at(&cursor), key_at(index + 1));
        cursor.seek(&between).unwrap();
        assert_eq!(at(&cursor), key_at(index + 1));
    }
    cursor.seek(b"z").unwrap();
    assert_eq!(at(&cursor), None);
    cursor.next().unwrap();
    assert_eq!(at(&cursor), None);
    assert_eq!(archive.cursor("c").unwrap_err().kind(), ErrorKind::NotFound);
}

/// A flipped byte is found by the verification. Readers that do not verify see an error, or what
/// was written.
#[test]
fn each_byte_that_is_flipped_is_found() {
    let families = [("a", puts(60)), ("b", puts(3)), ("c", Vec::new())];
    let ready = written(&families, 1 << 10);
    let (bytes, expected) = (ready.read_all(Path::new(PATH)).unwrap(), owned(&families));
    let mut silent = 0;
    for at in 0..bytes.len() {
        for mask in [0x01, 0x80] {
            let fs = MemFs::new();
            let mut damaged = bytes.clone();
            damaged[at] ^= mask;
            fs.write_all(Path::new(PATH), &damaged).unwrap();
            let error = verify(&fs).expect_err("a flipped byte is not found");
            let kind = error.kind();
            assert!(
                kind == ErrorKind::Corruption || kind == ErrorKind::InvalidArgument && at < 8,
                "byte {at}: {error}"
            );
            assert_eq!(error.file(), Some(PATH), "byte {at}: {error}");
            match shown(&fs) {
                Ok(found) => {
                    assert_eq!(found, expected, "byte {at}");
                    silent += 1;
                }
                Err(error) => assert_ne!(error.kind(), ErrorKind::Io, "byte {at}: {error}"),
            }
        }
    }
    // Filters are not read, and the checksum of the whole only by a verification.
    assert!(silent > 0 && silent < bytes.len(), "{silent} of {}", bytes.len());
}

#[test]
fn an_archive_that_is_cut_or_continued_is_refused() {
    let ready = written(&[("a", puts(60)), ("b", puts(3))], 1 << 10);
    let bytes = ready.read_all(Path::new(PATH)).unwrap();
    for length in 0..bytes.len() {
        let fs = MemFs::new();
        fs.write_all(Path::new(PATH), &bytes[..length]).unwrap();
        let error = open(&fs).expect_err("an archive that is cut short opens");
        let expected = match length < ARCHIVE_HEADER_BYTES {
            true => ErrorKind::InvalidArgument,
            false => ErrorKind::Corruption,
        };
        assert_eq!(error.kind(), expected, "{length} bytes: {error}");
    }
    for more in [&[0][..], &[0; 100][..], &bytes[..]] {
        let fs = MemFs::new();
        fs.write_all(Path::new(PATH), &[&bytes[..], more].concat()).unwrap();
        assert_eq!(open(&fs).unwrap_err().kind(), ErrorKind::Corruption, "{}", more.len());
    }
}

#[test]
fn other_files_are_no_archives() {
    for bytes in [&b""[..], b"siltdb", &[0; 4096], b"PK\x03\x04 some other kind of archive, longer"]
    {
        let fs = MemFs::new();
        fs.write_all(Path::new(PATH), bytes).unwrap();
        let error = open(&fs).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.message().starts_with("not an archive"), "{error}");
    }
}

/// An archive with other contents in its directory and footer, whose checksums are right.
fn forged(change: impl FnOnce(&mut ArchiveDirectory, &mut ArchiveFooter)) -> Error {
    let ready = written(&[("a", puts(60)), ("b", puts(3))], 1 << 10);
    let bytes = ready.read_all(Path::new(PATH)).unwrap();
    let archive = open(&ready).unwrap();
    let mut directory = archive.directory().clone();
    let end = bytes.len() - ARCHIVE_FOOTER_BYTES;
    let footer = ArchiveFooter::decode(bytes[end..].first_chunk().unwrap()).unwrap();
    let begin = end - footer.directory_bytes as usize;
    let mut footer = ArchiveFooter { directory_bytes: 0, ..footer };
    change(&mut directory, &mut footer);
    let mut encoded = Vec::new();
    directory.encode(&mut encoded);
    footer.directory_bytes += encoded.len() as u64;
    footer.directory_checksum = crc32c(&encoded);
    let fs = MemFs::new();
    let forged = [&bytes[..begin], &encoded[..], &footer.encode()[..]].concat();
    fs.write_all(Path::new(PATH), &forged).unwrap();
    open(&fs).expect_err("it contradicts itself")
}

#[test]
fn an_archive_that_contradicts_itself_is_refused() {
    let corruption = |error: Error, message: &str| {
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(error.message().contains(message), "{error}");
    };
    corruption(forged(|_, footer| footer.id += 1), "another one");
    corruption(
        forged(|_, footer| footer.directory_bytes = u64::MAX / 2),
        "longer than its archive",
    );
    corruption(forged(|directory, _| directory.families.reverse()), "out of order");
    let swap = |directory: &mut ArchiveDirectory| directory.families[0].tables.reverse();
    corruption(forged(|directory, _| swap(directory)), "out of order");
    corruption(forged(|directory, _| drop(directory.families.pop())), "do not end");
    let longer = |directory: &mut ArchiveDirectory| {
        directory.families[1].tables[0].meta.file_bytes = 1 << 48;
    };
    corruption(forged(|directory, _| longer(directory)), "longer than any file");
    corruption(
        forged(|directory, _| directory.families[0].tables[0].meta.point_tombstones = 1),
        "more than values",
    );
    let newer = |directory: &mut ArchiveDirectory| {
        directory.families[0].tables[0].meta.sequence_max = SequenceNumber(1);
    };
    corruption(forged(|directory, _| newer(directory)), "more than values");
    corruption(forged(|directory, _| directory.families[0].name.clear()), "length of its name");
    let long = "n".repeat(FAMILY_NAME_BYTES_MAX + 1);
    corruption(forged(|directory, _| directory.families[1].name = long), "length of its name");
    let beyond = |directory: &mut ArchiveDirectory| directory.sequence = SequenceNumber(1 << 56);
    corruption(forged(|directory, _| beyond(directory)), "56 bits");
}

#[test]
fn a_later_version_is_refused_by_name() {
    let ready = written(&[("a", puts(3))], 1 << 10);
    let bytes = ready.read_all(Path::new(PATH)).unwrap();
    let end = bytes.len() - ARCHIVE_FOOTER_BYTES;
    let mut header = encode_header(0x0123_4567_89ab_cdef);
    header[8] = 2;
    let checksum = crc32c(&header[..20]);
    header[20..].copy_from_slice(&checksum.to_le_bytes());
    let mut footer: [u8; ARCHIVE_FOOTER_BYTES] = *bytes[end..].first_chunk().unwrap();
    footer[24] = 2;
    let checksum = crc32c(&footer[..28]);
    footer[28..32].copy_from_slice(&checksum.to_le_bytes());
    for forged in [
        [&header[..], &bytes[ARCHIVE_HEADER_BYTES..]].concat(),
        [&bytes[..end], &footer[..]].concat(),
    ] {
        let fs = MemFs::new();
        fs.write_all(Path::new(PATH), &forged).unwrap();
        let error = open(&fs).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
}

#[test]
fn reports_add_up_and_their_error_ends_the_archive() {
    let families = [("a", puts(9000)), ("b", puts(9000))];
    let mut told = Vec::new();
    let fs = MemFs::new();
    let mut note = |bytes| {
        told.push(bytes);
        Ok(())
    };
    try_write(&fs, &families, 100 << 10, &mut note).unwrap();
    let archive = open(&fs).unwrap();
    let tables = archive.directory().families.iter().flat_map(|family| &family.tables);
    let written: u64 = tables.map(|table| table.meta.file_bytes).sum();
    let sum: u64 = told.iter().sum();
    // An estimate may be ahead of the file when a table ends.
    assert!(sum >= written && sum < written + written / 4, "{sum} of {written}");
    assert!(told.len() > 3, "{told:?}");
    let mut read = 0;
    archive
        .verify(&mut |bytes| {
            read += bytes;
            Ok(())
        })
        .unwrap();
    let end = archive.bytes() - ARCHIVE_FOOTER_BYTES as u64;
    assert_eq!(read, end + written);
    let cancelled = || Error::new(ErrorKind::Cancelled, "enough");
    let error = try_write(&MemFs::new(), &families, 100 << 10, &mut |_| Err(cancelled()));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Cancelled);
    let error = archive.verify(&mut |_| Err(cancelled())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

#[test]
#[should_panic = "families out of order"]
fn families_come_in_the_order_of_their_names() {
    written(&[("b", puts(1)), ("a", puts(1))], 1 << 10);
}

#[test]
fn values_of_any_length_and_options_of_any_kind_are_kept() {
    let long = vec![7; 300 << 10];
    let puts = vec![
        (Vec::new(), EntryKind::Put, Vec::new()),
        (vec![0; 100], EntryKind::Put, long.clone()),
        (vec![0xff; 200], EntryKind::PutExpiring, [&[1; 8], &long[..]].concat()),
    ];
    for compression in [Compression::None, Compression::Lz4] {
        let fs = MemFs::new();
        let facts_of_all = ArchiveFacts {
            id: 0,
            sequence: SequenceNumber::ZERO,
            created_ms: 0,
            source: String::new(),
        };
        let mut writer =
            ArchiveWriter::new(fs.create(Path::new(PATH)).unwrap(), facts_of_all).unwrap();
        let table = TableOptions { compression, filter_bits_per_key: 0, ..TableOptions::default() };
        let facts = FamilyFacts { table, ..facts("a", 1) };
        let mut uid = 0;
        let mut uids = || {
            uid += 1;
            TableUid(uid)
        };
        writer.add_family(facts, &mut List(&puts), &mut uids, &mut |_| Ok(())).unwrap();
        writer.finish().unwrap().sync().unwrap();
        verify(&fs).unwrap();
        assert_eq!(shown(&fs).unwrap(), [("a".to_owned(), puts.clone())]);
        assert_eq!(open(&fs).unwrap().directory().families[0].tables.len(), 3);
    }
}

#[test]
fn names_are_parsed_as_they_are_written() {
    let of = |name: &str| name.to_owned();
    for (text, name) in [
        ("users.siltar", ArchiveFileName::Archive(of("users"))),
        ("a.siltar.siltar", ArchiveFileName::Archive(of("a.siltar"))),
        ("users.siltar.partial", ArchiveFileName::Partial(of("users"))),
        ("siltar.lock", ArchiveFileName::Lock),
    ] {
        assert_eq!(ArchiveFileName::parse(text), Some(name.clone()));
        assert_eq!(name.to_path(), Path::new(text));
    }
    for text in ["", ".siltar", ".siltar.partial", "users", "users.partial", "a.siltar2", "LOCK"] {
        assert_eq!(ArchiveFileName::parse(text), None, "{text}");
    }
}
