//! Values that are too long to be copied into a block.

use super::*;
use std::ops::Range;

/// The bound of the writer in these tests.
const COPIED_BYTES_MAX: usize = 100 << 10;

/// A file that counts the bytes it was handed from some memory, where they lie there.
#[derive(Debug, Default)]
struct Noting {
    file: Bytes,
    memory: Range<usize>,
    from_there: usize,
}

impl WriteFile for Noting {
    fn len(&self) -> u64 {
        WriteFile::len(&self.file)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if self.memory.contains(&bytes.as_ptr().addr()) {
            self.from_there += bytes.len();
        }
        self.file.append(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
}

#[test]
pub(super) fn long_values_are_written_from_where_they_lie_and_read_as_any() {
    for compression in [Compression::Lz4, Compression::None, Compression::Snappy] {
        let long = vec![7; COPIED_BYTES_MAX + 1];
        let entries = [
            put("a", 9, "short"),
            put("b", 8, &long[..COPIED_BYTES_MAX]),
            put("c", 7, &long),
            (b"c".to_vec(), 6, EntryKind::Merge, long.clone()),
            put("c", 5, "short"),
            put("d", 4, &long),
        ];
        for (index, taken) in [(1, 0), (2, long.len()), (3, long.len()), (5, long.len())] {
            let start = entries[index].3.as_ptr().addr();
            let memory = start..start + long.len();
            let mut file = Noting { memory, ..Noting::default() };
            let mut writer = TableWriter::new(&mut file, &options(compression), TableUid(3));
            entries.iter().for_each(|owned| writer.add(entry(owned)).unwrap());
            writer.finish().unwrap();
            assert_eq!(file.from_there, taken, "value {index}");
        }
        for read_io in [ReadIo::Read, ReadIo::Map] {
            // It is verified, too.
            let table = table_by(read_io, &options(compression), &entries, &[]);
            assert_eq!(scan(&table).unwrap(), entries);
            assert_eq!(table.meta().merge_operands, 1);
            let mut file = Bytes::default();
            let mut copy = TableWriter::new(&mut file, &options(compression), TableUid(4));
            for index in 0..table.block_count() {
                copy.add_sealed(&table.read_sealed(index).unwrap()).unwrap();
            }
            let meta = copy.finish().unwrap();
            let copy = open(&file.0, Some(&meta), &new_cache(1 << 20)).unwrap();
            verify(&copy).unwrap();
            assert_eq!(scan(&copy).unwrap(), entries);
        }
    }
}

#[test]
pub(super) fn damage_to_a_long_value_is_noticed() {
    let mut file = Bytes::default();
    let entries = [put("a", 1, vec![7; COPIED_BYTES_MAX + 1]), put("b", 2, "short")];
    let meta = write(&mut file, &options(Compression::Lz4), 5, &entries, &[]);
    for offset in [0, 1, 5, 20, 50_000, COPIED_BYTES_MAX, COPIED_BYTES_MAX + 20] {
        let mut damaged = file.0.clone();
        damaged[offset] ^= 1;
        let table = open(&damaged, Some(&meta), &new_cache(1 << 20)).unwrap();
        assert_eq!(verify(&table).unwrap_err().kind(), siltdb_base::error::ErrorKind::Corruption);
        assert!(table.read_sealed(0).is_err() && scan(&table).is_err());
    }
}
