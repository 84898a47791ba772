//! What the tests of this floor share: references to tables that are not there, and seeds.

pub mod model;
pub mod simulation;
pub mod world;

use crate::{
    files::open_files::{OpenFiles, OpenReference},
    files::version::Version,
};
use siltdb_base::{
    budget::Budget,
    checksum::xxh3,
    codec::ByteReader,
    fs::{Fs, ReadIo, mem::MemFs},
    id::{FamilyId, FileNumber, SequenceNumber, TableUid},
    slice::Slice,
};
use siltdb_disk::{
    cache::{Cache, TableMemory},
    edit::{Change, TableReference},
    fields::UnknownFields,
    filter_keys::FilterKeys,
    garbage::Garbage,
    key_sketch::{KeySketch, SketchBuilder},
    options::TableKind,
    table_meta::{KeySpan, RangeEnd, TableMeta},
};
use std::{path::Path, sync::Arc};

/// The family that all tests work on.
pub const FAMILY: FamilyId = FamilyId(1);

/// A database directory in memory.
pub fn open_files(fs: &Arc<MemFs>) -> Arc<OpenFiles> {
    open_files_with(fs, &new_cache())
}

/// As [`open_files`], keeping blocks in `cache`.
pub fn open_files_with(fs: &Arc<MemFs>, cache: &Arc<Cache>) -> Arc<OpenFiles> {
    let dir = Path::new("/db");
    fs.create_dir_all(dir).unwrap();
    let directory = fs.open_dir(dir).unwrap();
    OpenFiles::new(directory, ReadIo::Read, cache.clone())
}

/// A cache of a MiB.
pub fn new_cache() -> Arc<Cache> {
    Cache::new(Arc::new(Budget::new(1 << 30)), 1 << 20, TableMemory::Beside)
}

/// A range of keys, both ends included.
pub fn range(first: &[u8], last: &[u8]) -> KeySpan {
    KeySpan {
        first: Slice::copy_from(first),
        last: Slice::copy_from(last),
        end: RangeEnd::Inclusive,
    }
}

/// A reference to a table that is not there: shapes are decided without reading.
pub fn reference(
    file: u64,
    keys: (&[u8], &[u8]),
    sequences: (u64, u64),
    bytes: u64,
) -> TableReference {
    let meta = TableMeta {
        uid: TableUid(file),
        range: range(keys.0, keys.1),
        entries: 100,
        point_tombstones: 0,
        range_tombstones: 0,
        merge_operands: 0,
        sequence_min: SequenceNumber(sequences.0),
        sequence_max: SequenceNumber(sequences.1),
        expiry_min_ms: None,
        logical_bytes: bytes,
        file_bytes: bytes,
        key_sketch: KeySketch::default(),
        kind: TableKind::Block,
        filter_keys: FilterKeys::default(),
        created_ms: 0,
        garbage: Garbage::default(),
        blobs: Default::default(),
        unknown: UnknownFields::default(),
    };
    TableReference::whole(FileNumber(file), 0, meta)
}

/// The sample of a table of these keys, as versions drew it that did not note what they take.
pub fn sample(keys: impl IntoIterator<Item = impl AsRef<[u8]>>) -> KeySketch {
    let (mut sample, mut bytes) = (SketchBuilder::default(), Vec::new());
    keys.into_iter().for_each(|key| sample.add(xxh3(key.as_ref()), || 0));
    sample.finish().encode(&mut bytes);
    KeySketch::decode(&mut ByteReader::new(&bytes)).unwrap()
}

/// The sample of a table of these keys, which take so many bytes each.
pub fn sample_of(keys: impl IntoIterator<Item = (impl AsRef<[u8]>, u64)>) -> KeySketch {
    let mut sample = SketchBuilder::default();
    keys.into_iter().for_each(|(key, bytes)| sample.add(xxh3(key.as_ref()), || bytes));
    sample.finish()
}

/// The addition of a table.
pub fn add(level: u8, table: impl Into<Arc<TableReference>>) -> Change {
    Change::AddTable { family: FAMILY, level, table: table.into() }
}

/// A version of these tables.
pub fn version(files: &Arc<OpenFiles>, tables: &[(u8, TableReference)]) -> Version {
    let changes: Vec<_> = tables.iter().map(|(level, table)| add(*level, table.clone())).collect();
    Version::empty().apply(files, FAMILY, &changes).unwrap()
}

/// The file numbers of tables.
pub fn numbers<'a>(tables: impl IntoIterator<Item = &'a Arc<OpenReference>>) -> Vec<u64> {
    tables.into_iter().map(|table| table.id().file.0).collect()
}

/// A small generator of numbers that look random, from a seed that every test prints.
pub struct TestRandom(u64);

impl TestRandom {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        println!("seed {seed}");
        Self(seed)
    }

    /// The next number (splitmix64; Steele, Lea and Flood, 2014).
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Bytes that do not compress.
    pub fn bytes(&mut self, count: u64) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
