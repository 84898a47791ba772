//! How much memory a forged index may take.

use super::*;
use siltdb_base::error::ErrorKind;

static KEY: [u8; KEY_BYTES_MAX] = [7; KEY_BYTES_MAX];
/// The shortest frame that may hold such a key.
const FRAME_BYTES: u64 = 257;

/// An index of `count` blocks. Each holds the longest key alone, and takes a few bytes.
fn long_keys(count: u64) -> Vec<u8> {
    let mut builder = IndexBuilder::default();
    for sequence in (1..=count).rev().map(SequenceNumber) {
        let stats = BlockStats { entries: 1, sequence_max: sequence, ..BlockStats::default() };
        builder.add(&KEY, SortKey::new(&KEY, sequence), &stats, FRAME_BYTES);
    }
    builder.finish().concat()
}

#[test]
fn an_index_that_goes_beyond_the_data_is_refused_where_it_does() {
    let raw = long_keys(3);
    let mut index = Index::default();
    index.read_frame(&raw, 3 * FRAME_BYTES).unwrap();
    assert_eq!((index.count(), index.data_bytes()), (3, 3 * FRAME_BYTES));
    let error = Index::default().read_frame(&raw, 3 * FRAME_BYTES - 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    // What frames before it took counts as well.
    assert!(index.read_frame(&raw, 5 * FRAME_BYTES).is_err());

    let raw = long_keys(2_000);
    let mut index = Index::default();
    assert!(index.read_frame(&raw, 3 * FRAME_BYTES).is_err());
    assert!(index.memory_bytes() <= 2 * 4 * KEY_BYTES_MAX + 1024, "{}", index.memory_bytes());
}
