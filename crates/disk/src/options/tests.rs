//! Options at their bounds and one past them.

use super::*;

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
}
