//! Tables that are mapped: they answer as those that are read, and take less of the cache.

use super::*;
use siltdb_base::error::ErrorKind;

fn written(compression: Compression, entries: &[Owned]) -> (Bytes, TableMeta) {
    let mut file = Bytes::default();
    let meta = write(&mut file, &options(compression), 7, entries, &[]);
    (file, meta)
}

/// Looks up every entry, and walks over all; each answer that comes must be right.
fn read_blocks(table: &Arc<Table>, entries: &[Owned]) -> Result<()> {
    let gets = entries.iter().try_for_each(|owned| check_get(table, entries, &owned.0, owned.1));
    let mut cursor = table.cursor();
    cursor.seek_to_first()?;
    for owned in entries {
        assert_eq!(cursor.entry(), Some(entry(owned)));
        cursor.next()?;
    }
    assert!(cursor.entry().is_none());
    gets
}

#[test]
pub(super) fn every_damaged_byte_of_a_block_is_noticed_each_time() {
    let entries = many(60);
    for compression in [Compression::Lz4, Compression::None, Compression::Snappy] {
        let (file, meta) = written(compression, &entries);
        let info_end = |table: &Table| {
            let last = table.block_info(table.block_count() - 1);
            (last.offset + last.bytes) as usize
        };
        let whole = open_by(ReadIo::Map, &file.0, Some(&meta), &new_cache(0)).unwrap();
        read_blocks(&whole, &entries).unwrap();
        for at in 0..info_end(&whole) {
            let mut bytes = file.0.clone();
            bytes[at] ^= 0x10;
            for capacity in [0, 1 << 20] {
                let cache = new_cache(capacity);
                let table = open_by(ReadIo::Map, &bytes, Some(&meta), &cache).unwrap();
                for _ in 0..2 {
                    let error = read_blocks(&table, &entries).expect_err("a byte was changed");
                    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                    assert_eq!(error.file(), Some("t.table"));
                    assert!(error.offset().is_some_and(|offset| offset <= at as u64), "{error}");
                }
            }
        }
    }
}

#[test]
fn of_a_mapped_block_the_cache_holds_only_what_was_derived() {
    let entries = many(2_000);
    let (file, meta) = written(Compression::None, &entries);
    let cached = |read_io: ReadIo| {
        let cache = new_cache(16 << 20);
        let table = open_by(read_io, &file.0, Some(&meta), &cache).unwrap();
        for owned in &entries {
            check_get(&table, &entries, &owned.0, owned.1).unwrap();
        }
        let stats = cache.stats();
        assert_eq!(stats.misses, table.block_count() as u64, "each block was looked for once");
        assert_eq!(stats.insertions, table.block_count() as u64);
        stats.bytes
    };
    let (read, mapped) = (cached(ReadIo::Read), cached(ReadIo::Map));
    assert!(mapped < read / 2, "{mapped} of {read} bytes");
}

#[test]
pub(super) fn values_of_a_mapped_block_stay_when_the_table_is_closed() {
    let entries = many(50);
    let (file, meta) = written(Compression::None, &entries);
    let table = open_by(ReadIo::Map, &file.0, Some(&meta), &new_cache(0)).unwrap();
    let values: Vec<Slice> = entries
        .iter()
        .map(|owned| {
            let (key, visible) = (LookupKey::new(&owned.0), SequenceNumber(owned.1));
            table.get(key, visible, |found| found.value.pin()).unwrap().unwrap()
        })
        .collect();
    drop((table, file));
    for (value, owned) in values.iter().zip(&entries) {
        assert_eq!(value, &owned.3[..]);
    }
}

/// A file that is read as it was written, and mapped otherwise: a device that rots under a mapping.
#[derive(Debug)]
struct Rotten {
    file: Bytes,
    mapped: Vec<u8>,
}

impl File for Rotten {
    fn len(&self) -> u64 {
        File::len(&self.file)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn map(&self, _offset: u64, _bytes: u64) -> Result<bytes::Bytes> {
        Ok(self.mapped.clone().into())
    }
}

#[test]
fn jobs_read_past_the_mapping() {
    let entries = many(300);
    for compression in [Compression::None, Compression::Lz4, Compression::Snappy] {
        let (file, meta) = written(compression, &entries);
        // Only the first block can be looked at where it is mapped.
        let whole = open(&file.0, Some(&meta), &new_cache(0)).unwrap();
        let mut mapped = file.0.clone();
        mapped[whole.block_info(0).bytes as usize..].fill(0xee);
        let (file, length) = (Arc::new(Rotten { file, mapped }), meta.file_bytes);
        let (path, cache) = (Path::new("t"), new_cache(1 << 20));
        let open = Table::open(
            TableLocation::new(file, path, 0, length),
            Some(&meta),
            ReadIo::Map,
            &cache,
        );
        let table = open.unwrap();
        check_get(&table, &entries, &entries[0].0, entries[0].1).unwrap();
        assert_eq!(cache.stats().insertions, 1);
        verify(&table).unwrap();
        assert!(scan(&table).unwrap() == entries, "a scan");
        assert_eq!(cache.stats().hits, 0, "and is not shown what others have looked at");
        let last = &entries[entries.len() - 1];
        check_get(&table, &entries, &last.0, last.1).unwrap_err();
        let mut cursor = table.cursor();
        cursor.seek_to_first().unwrap();
        assert_eq!(cursor.entry(), Some(entry(&entries[0])));
        cursor.seek_to_last().unwrap_err();
    }
}

#[test]
fn what_was_verified_is_kept_unless_it_lies_mapped() {
    let entries = many(300);
    for (compression, kept) in [(Compression::None, false), (Compression::Lz4, true)] {
        let (file, meta) = written(compression, &entries);
        let cache = new_cache(1 << 20);
        let table = open_by(ReadIo::Map, &file.0, Some(&meta), &cache).unwrap();
        verify_and_keep(&table);
        let blocks = table.block_count() as u64;
        assert_eq!(cache.stats().insertions, if kept { blocks } else { 0 });
        read_blocks(&table, &entries).unwrap();
    }
}

/// A file that cannot be mapped.
#[derive(Debug)]
struct Unmappable(Bytes);

impl File for Unmappable {
    fn len(&self) -> u64 {
        File::len(&self.0)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn map(&self, _offset: u64, _bytes: u64) -> Result<bytes::Bytes> {
        Err(Error::new(ErrorKind::Io, "no mapping to be had"))
    }
}

#[test]
pub(super) fn a_table_that_cannot_be_mapped_is_read() {
    let entries = many(300);
    let (file, meta) = written(Compression::None, &entries);
    let (file, length) = (Arc::new(Unmappable(file)), meta.file_bytes);
    let (path, cache) = (Path::new("t"), new_cache(1 << 20));
    let table =
        Table::open(TableLocation::new(file, path, 0, length), Some(&meta), ReadIo::Map, &cache)
            .unwrap();
    read_blocks(&table, &entries).unwrap();
    let whole_blocks = table.block_info(0).bytes as usize * table.block_count() / 2;
    assert!(cache.stats().bytes > whole_blocks, "what is read is kept whole");
}
