//! No false negatives, few false positives, and damaged encodings.

use super::*;
use proptest::prelude::*;
use siltdb_base::checksum::xxh3;

fn hashes(range: std::ops::Range<u64>) -> Vec<u64> {
    range.map(|number| xxh3(&number.to_be_bytes())).collect()
}

fn encoded(hashes: &[u64], bits_per_key: u32) -> Vec<u8> {
    let mut builder = FilterBuilder::default();
    hashes.iter().for_each(|&hash| builder.add(hash));
    assert_eq!(builder.count(), hashes.len() as u64);
    let mut bytes = Vec::new();
    builder.encode(bits_per_key, &mut bytes);
    bytes
}

fn build(hashes: &[u64], bits_per_key: u32) -> Filter {
    Filter::decode(&encoded(hashes, bits_per_key)).unwrap()
}

#[test]
fn every_key_is_found_and_few_others() {
    for (bits_per_key, permille_max) in [(1, 700), (5, 120), (10, 15), (16, 4), (32, 1)] {
        let present = hashes(0..20_000);
        let filter = build(&present, bits_per_key);
        assert!(present.iter().all(|&hash| filter.may_contain(hash)));
        let absent = hashes(1_000_000..1_100_000);
        let passed = absent.iter().filter(|&&hash| filter.may_contain(hash)).count();
        assert!(passed <= permille_max * 100, "{bits_per_key} bits: {passed} of 100000 passed");
    }
}

#[test]
fn a_filter_of_nothing_and_of_one_key_work() {
    assert!(!build(&[], 10).may_contain(3));
    let filter = build(&[u64::MAX], 10);
    assert!(filter.may_contain(u64::MAX) && filter.bytes() == 64);
}

#[test]
fn the_bytes_are_the_documented_ones() {
    let bytes = encoded(&[xxh3(b"key")], 2);
    assert_eq!(bytes.len(), 72);
    assert_eq!(bytes[..8], [1, 0, 0, 0, 1, 0, 0, 0]);
    let bit = (xxh3(b"key").wrapping_mul(MULTIPLIER) >> 55) as usize;
    assert_eq!(bytes[8 + bit / 8], 1 << (bit % 8));
}

#[test]
fn truncations_and_extensions_are_refused() {
    let bytes = encoded(&hashes(0..300), 10);
    for end in 0..bytes.len() {
        assert!(Filter::decode(&bytes[..end]).is_err());
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(Filter::decode(&longer).is_err());
}

proptest! {
    #[test]
    fn any_bytes_decode_or_fail(mut bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        if bytes.len() >= HEADER_BYTES {
            bytes[1..4].fill(0);
            let lines = ((bytes.len() - HEADER_BYTES) / LINE_BYTES) as u32;
            bytes[4..8].copy_from_slice(&lines.to_le_bytes());
        }
        if let Ok(filter) = Filter::decode(&bytes) {
            let _ = filter.may_contain(7);
            let _ = filter.may_contain(u64::MAX);
        }
    }
}
