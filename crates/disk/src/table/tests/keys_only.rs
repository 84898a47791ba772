//! Walks over keys alone: the same keys, and no read for a value that has a block of its own.

use super::*;
use siltdb_base::cursor::Fetch;
use std::sync::atomic::{AtomicU64, Ordering};

/// A file that counts the bytes read from it.
#[derive(Debug)]
struct Counted {
    bytes: Bytes,
    read: AtomicU64,
}

impl File for Counted {
    fn len(&self) -> u64 {
        File::len(&self.bytes)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.read.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        self.bytes.read_exact_at(buffer, offset)
    }
}

/// Keys with long values, and stretches of what only the blocks themselves can tell.
fn mixed() -> Vec<Owned> {
    let mut entries = Vec::new();
    for number in 0..200_u64 {
        let key = format!("key:{number:04}");
        match number % 20 {
            3..=5 => entries.push(put(&key, 100 + number, b"short")),
            7 => entries.push((key.into_bytes(), 100 + number, EntryKind::Delete, Vec::new())),
            9 => {
                entries.push(put(&key, 900, vec![1; 3000]));
                entries.push(put(&key, 100, vec![2; 3000]));
            }
            11 => {
                let value = [&u64::MAX.to_le_bytes()[..], &[3; 2000]].concat();
                entries.push((key.into_bytes(), 100, EntryKind::PutExpiring, value));
            }
            13 => entries.push((key.into_bytes(), 100, EntryKind::Merge, vec![4; 2000])),
            _ => entries.push(put(&key, 100 + number, vec![number as u8; 4000])),
        }
    }
    sort(&mut entries);
    entries
}

fn counted(entries: &[Owned]) -> (Arc<Counted>, Arc<Table>) {
    let mut bytes = Bytes::default();
    let meta = write(&mut bytes, &options(Compression::None), 7, entries, &[]);
    let file = Arc::new(Counted { bytes, read: AtomicU64::new(0) });
    let (shared, length) = (Arc::clone(&file) as Arc<dyn File>, meta.file_bytes);
    let (path, cache) = (Path::new("t"), new_cache(0));
    let table =
        Table::open(TableLocation::new(shared, path, 0, length), Some(&meta), ReadIo::Read, &cache);
    file.read.store(0, Ordering::Relaxed);
    (file, table.unwrap())
}

/// Key, sequence number and kind of every entry, forward and then backward.
fn heads(table: &Arc<Table>, fetch: Fetch) -> Vec<(Vec<u8>, u64, EntryKind)> {
    let mut cursor = table.cursor_fetching(fetch);
    let mut heads = Vec::new();
    let mut note =
        |entry: Entry<'_>| heads.push((entry.key.to_vec(), entry.sequence.0, entry.kind));
    cursor.seek_to_first().unwrap();
    while let Some(entry) = cursor.entry() {
        note(entry);
        cursor.next().unwrap();
    }
    cursor.seek_to_last().unwrap();
    while let Some(entry) = cursor.entry() {
        note(entry);
        cursor.prev().unwrap();
    }
    heads
}

#[test]
pub(super) fn a_walk_over_keys_alone_shows_the_same_keys_and_reads_a_fraction() {
    let entries = mixed();
    let (file, table) = counted(&entries);
    let keys = heads(&table, Fetch::KeysOnly);
    let read_for_keys = file.read.swap(0, Ordering::Relaxed);
    assert_eq!(keys, heads(&table, Fetch::Values));
    let read_for_values = file.read.load(Ordering::Relaxed);
    assert_eq!(keys.len(), 2 * entries.len());
    assert!(read_for_keys * 3 < read_for_values, "{read_for_keys} of {read_for_values} bytes");
}

#[test]
fn plain_long_values_are_not_read_at_all_for_their_keys() {
    let keys: Vec<String> = (0..100).map(|number| format!("key:{number:04}")).collect();
    let entries: Vec<Owned> = keys.iter().map(|key| put(key, 5, vec![9; 5000])).collect();
    let (file, table) = counted(&entries);
    assert_eq!(heads(&table, Fetch::KeysOnly).len(), 200);
    let mut cursor = table.cursor_fetching(Fetch::KeysOnly);
    cursor.seek(b"key:0042", SequenceNumber::MAX).unwrap();
    assert_eq!(cursor.entry().unwrap().key, b"key:0042");
    // Older than any version of the key.
    cursor.seek(b"key:0042", SequenceNumber(4)).unwrap();
    assert_eq!(cursor.entry().unwrap().key, b"key:0043");
    cursor.seek_before(b"key:0042", SequenceNumber::MAX).unwrap();
    assert_eq!(cursor.entry().unwrap().key, b"key:0041");
    assert_eq!(file.read.load(Ordering::Relaxed), 0);
    // What stood for the blocks is not taken for them.
    let mut cursor = table.cursor();
    cursor.seek(b"key:0042", SequenceNumber::MAX).unwrap();
    assert_eq!(cursor.entry().unwrap().value, [9; 5000]);
}
