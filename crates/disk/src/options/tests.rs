//! Options at their bounds and one past them.

use super::*;
use crate::filter_keys::{PREFIX_BYTES, PREFIX_SEPARATORS};

fn block_bytes(block_bytes: usize) -> TableOptions {
    TableOptions { block_bytes, ..TableOptions::default() }
}

fn filter_bits(filter_bits_per_key: u32) -> TableOptions {
    TableOptions { filter_bits_per_key, ..TableOptions::default() }
}

#[test]
fn options_are_checked_at_their_bounds() {
    TableOptions::default().check().unwrap();
    block_bytes(*BLOCK_BYTES.start()).check().unwrap();
    block_bytes(*BLOCK_BYTES.end()).check().unwrap();
    assert!(block_bytes(BLOCK_BYTES.start() - 1).check().is_err());
    assert!(block_bytes(BLOCK_BYTES.end() + 1).check().is_err());
    filter_bits(FILTER_BITS_PER_KEY_MAX).check().unwrap();
    filter_bits(0).check().unwrap();
    assert!(filter_bits(FILTER_BITS_PER_KEY_MAX + 1).check().is_err());
    let prefix = |bytes| TableOptions {
        prefix_extractor: Some(PrefixExtractor::Fixed(bytes)),
        ..TableOptions::default()
    };
    prefix(*PREFIX_BYTES.start()).check().unwrap();
    prefix(*PREFIX_BYTES.end()).check().unwrap();
    assert!(prefix(PREFIX_BYTES.start() - 1).check().is_err());
    assert!(prefix(PREFIX_BYTES.end() + 1).check().is_err());
    let separator = |count| TableOptions {
        prefix_extractor: Some(PrefixExtractor::Separator { separator: b'/', count }),
        ..TableOptions::default()
    };
    separator(*PREFIX_SEPARATORS.end()).check().unwrap();
    assert!(separator(PREFIX_SEPARATORS.start() - 1).check().is_err());
    assert!(separator(PREFIX_SEPARATORS.end() + 1).check().is_err());
}

#[test]
fn levels_and_dictionaries_are_checked_at_their_bounds() {
    let level =
        |level| TableOptions { compression: Compression::Zstd(level), ..Default::default() };
    for permitted in [-7, 0, 3, 22] {
        level(permitted).check().unwrap();
    }
    for refused in [-8, 23, i8::MIN, i8::MAX] {
        assert!(level(refused).check().is_err(), "{refused}");
    }
    let dictionary = |dictionary_bytes| TableOptions { dictionary_bytes, ..Default::default() };
    for permitted in [0, 1 << 10, 128 << 10] {
        dictionary(permitted).check().unwrap();
    }
    for refused in [1, (1 << 10) - 1, (128 << 10) + 1] {
        assert!(dictionary(refused).check().is_err(), "{refused}");
    }
}

#[test]
fn every_compression_has_a_number_and_others_are_refused_by_their_kind() {
    let known = [Compression::None, Compression::Lz4, Compression::Snappy, Compression::Zstd(-7)];
    for compression in known.into_iter().chain([Compression::ZSTD, Compression::Zstd(22)]) {
        let read = Compression::from_bytes(compression.to_bytes()).unwrap();
        assert_eq!(read, compression);
    }
    let kind = |bytes| Compression::from_bytes(bytes).unwrap_err().kind();
    assert_eq!(kind([4, 0]), ErrorKind::Unsupported);
    assert_eq!(kind([1, 3]), ErrorKind::Corruption);
    assert_eq!(kind([2, 23]), ErrorKind::Corruption);
}

#[test]
fn writing_zstd_without_the_feature_is_refused_by_name() {
    Compression::Snappy.check_writable().unwrap();
    let checked = Compression::ZSTD.check_writable();
    if cfg!(feature = "zstd") {
        checked.unwrap();
        return;
    }
    let error = checked.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.hint().unwrap().contains("feature `zstd`"), "{error}");
    let options = TableOptions { compression: Compression::ZSTD, ..TableOptions::default() };
    assert_eq!(options.or_writable().compression, Compression::Lz4);
}
