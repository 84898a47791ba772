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
