//! Records there and back, damaged at every byte, moved to other places, and found again by a scan.

use super::*;
use crate::{compress::Compressor, options::Compression};
use siltdb_base::fs::{Fs, LogFile, LogFileOptions, LogIo, mem::MemFs};
use std::path::Path;

const UID: BlobUid = BlobUid(0x1122_3344_5566_7788);

struct World {
    fs: MemFs,
    file: Arc<dyn LogFile>,
    end: u64,
}

impl World {
    fn new() -> Self {
        let fs = MemFs::new();
        let options = LogFileOptions { capacity: 1 << 30, io: LogIo::Write };
        let file = fs.open_log(Path::new("b"), options).unwrap();
        file.fill(0, &[&encode_file_header(UID)]).unwrap();
        Self { fs, file, end: BLOB_FILE_HEADER_BYTES }
    }

    fn add(&mut self, key: u64, value: &[u8], compression: Compression) -> BlobPointer {
        let mut compressor = Compressor::new(compression);
        let (codec, stored) = compressor.compress(value);
        let offset = self.end;
        let checksum = crc32c_append(checksum_at(UID, offset + BLOB_HEADER_BYTES), stored);
        let header = BlobHeader {
            checksum,
            key_hash: key,
            family: FamilyId(3),
            length: value.len() as u32,
            stored_bytes: stored.len() as u32,
            codec: codec as u8,
        };
        self.file.fill(offset, &[&header.encode(UID, offset), stored]).unwrap();
        self.end += record_bytes(stored.len() as u32);
        header.pointer(FileNumber(9), offset, None)
    }

    fn open(&self) -> Arc<dyn File> {
        self.fs.open(Path::new("b")).unwrap()
    }

    fn flip(&self, offset: u64) {
        let mut byte = [0];
        self.open().read_exact_at(&mut byte, offset).unwrap();
        self.file.fill(offset, &[&[byte[0] ^ 0x10]]).unwrap();
    }

    /// The keys and the gaps that a scan finds.
    fn scan(&self) -> Vec<(u64, u64)> {
        let mut scan = BlobScan::new(self.open()).unwrap();
        let mut found = Vec::new();
        while let Some(blob) = scan.next_blob().unwrap() {
            found.push((blob.header.key_hash, blob.gap_bytes));
        }
        found
    }
}

fn values() -> Vec<Vec<u8>> {
    let noise: Vec<u8> =
        (0..70_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    vec![vec![], b"x".to_vec(), vec![7; 5000], noise[..333].to_vec(), noise]
}

#[test]
fn values_round_trip_raw_and_compressed_and_a_scan_finds_them_all() {
    for compression in [Compression::None, Compression::Lz4] {
        let mut world = World::new();
        let values = values();
        let added: Vec<_> =
            (0..).zip(&values).map(|(key, v)| world.add(key, v, compression)).collect();
        let file = world.open();
        for (pointer, value) in added.iter().zip(&values) {
            assert_eq!(read_value(&*file, UID, pointer).unwrap(), *value.as_slice());
            verify_stored(&*file, UID, pointer).unwrap();
        }
        let is_shorter = added[2].stored_bytes < added[2].length;
        assert_eq!(is_shorter, compression == Compression::Lz4);
        assert_eq!(
            added[3].stored_bytes, added[3].length,
            "what saves less than an eighth stays raw"
        );
        let keys: Vec<_> = (0..values.len() as u64).map(|key| (key, 0)).collect();
        assert_eq!(world.scan(), keys);
    }
}

#[test]
fn a_flipped_byte_anywhere_in_the_payload_is_damage_with_its_offset() {
    let mut world = World::new();
    let pointer = world.add(1, &vec![7; 300], Compression::None);
    for byte in 0..u64::from(pointer.stored_bytes) {
        world.flip(pointer.offset + byte);
        let file = world.open();
        let error = read_value(&*file, UID, &pointer).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert_eq!(error.offset(), Some(pointer.offset));
        assert!(verify_stored(&*file, UID, &pointer).is_err());
        world.flip(pointer.offset + byte);
    }
    assert!(read_value(&*world.open(), UID, &pointer).is_ok());
}

#[test]
fn a_value_is_wrong_in_another_file_and_at_another_offset() {
    let mut world = World::new();
    let pointer = world.add(1, &[7; 300], Compression::None);
    let file = world.open();
    assert!(read_value(&*file, BlobUid(UID.0 + 1), &pointer).is_err());
    let mut bytes = vec![0; 300];
    file.read_exact_at(&mut bytes, pointer.offset).unwrap();
    world.file.fill(4096, &[&bytes]).unwrap();
    let moved = BlobPointer { offset: 4096, ..pointer };
    assert!(read_value(&*world.open(), UID, &moved).is_err());
}

#[test]
fn a_scan_passes_gaps_and_damaged_headers() {
    let mut world = World::new();
    world.add(1, &[1; 100], Compression::None);
    let second = world.add(2, &[2; 200_000], Compression::None);
    // A commit that never wrote its value.
    world.end += record_bytes(150_000);
    world.add(3, &[3; 10], Compression::None);
    assert_eq!(world.scan(), [(1, 0), (2, 0), (3, record_bytes(150_000))]);
    for byte in 0..BLOB_HEADER_BYTES {
        world.flip(second.offset - BLOB_HEADER_BYTES + byte);
        let gap = record_bytes(200_000) + record_bytes(150_000);
        assert_eq!(world.scan(), [(1, 0), (3, gap)], "byte {byte} of a header");
        world.flip(second.offset - BLOB_HEADER_BYTES + byte);
    }
    // A record whose end is cut off is none.
    world.file.shorten(second.offset + 5).unwrap();
    assert_eq!(world.scan(), [(1, 0)]);
}

#[test]
fn every_flipped_byte_and_every_cut_of_the_file_header_is_refused() {
    let world = World::new();
    for byte in 0..BLOB_FILE_HEADER_BYTES {
        world.flip(byte);
        assert!(read_file_header(&*world.open()).is_err(), "byte {byte}");
        world.flip(byte);
    }
    assert_eq!(read_file_header(&*world.open()).unwrap(), UID);
    for end in (0..BLOB_FILE_HEADER_BYTES).rev() {
        world.file.shorten(end).unwrap();
        assert_eq!(read_file_header(&*world.open()).unwrap_err().kind(), ErrorKind::Corruption);
    }
}

#[test]
fn a_pointer_to_more_than_the_file_has_reads_nothing() {
    let mut world = World::new();
    let pointer = world.add(1, &[7; 300], Compression::None);
    let file = world.open();
    for bad in [
        BlobPointer { length: u32::MAX, ..pointer },
        BlobPointer { length: 299, ..pointer },
        BlobPointer { offset: u64::MAX, ..pointer },
        BlobPointer { codec: 77, ..pointer },
    ] {
        assert!(read_value(&*file, UID, &bad).is_err(), "{bad:?}");
    }
}

#[test]
fn references_count_values_and_round_trip() {
    let mut references = BlobReferences::default();
    let mut world = World::new();
    let small = world.add(1, &[1; 100], Compression::None);
    let large = BlobPointer { file: FileNumber(2), ..world.add(2, &[2; 1001], Compression::None) };
    for pointer in [small, large, small] {
        references.note(&pointer);
    }
    let expected = [
        BlobReference { file: FileNumber(2), count: 1, bytes: 1040 },
        BlobReference { file: FileNumber(9), count: 2, bytes: 272 },
    ];
    assert_eq!(references.files(), expected);
    assert!(references.has(FileNumber(9)) && !references.has(FileNumber(3)));
    let mut bytes = Vec::new();
    references.encode(&mut bytes);
    assert_eq!(BlobReferences::decode(&mut ByteReader::new(&bytes)).unwrap(), references);
    let half = bytes.len() / 2;
    let (first, second) = bytes.split_at(half);
    let swapped = [second, first].concat();
    assert!(BlobReferences::decode(&mut ByteReader::new(&swapped)).is_err());
    assert!(BlobReferences::decode(&mut ByteReader::new(&bytes[..bytes.len() - 1])).is_err());
}
