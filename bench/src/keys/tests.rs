//! Tests of keys: their order, and the bytes that workers in other languages must agree on.

use super::{KeyMaker, splitmix64};

#[test]
fn the_order_of_keys_is_the_order_of_ids() {
    for length in [8, 16, 40] {
        let mut maker = KeyMaker::new(length);
        let mut last = Vec::new();
        for id in (0..3000).chain([u32::MAX - 1, u32::MAX]) {
            let key = maker.key(id).to_vec();
            assert_eq!(key.len(), length as usize);
            assert!(last < key, "id {id}");
            let missing = maker.missing(id).to_vec();
            assert!(key < missing);
            last = missing;
        }
    }
}

#[test]
fn bytes_of_keys_are_fixed() {
    assert_eq!(splitmix64(0), 0xe220_a839_7b1d_cdaf);
    let key = KeyMaker::new(16).key(1).to_vec();
    let first = (1_u64 << 20) + (splitmix64(1) & 0xf_ffff);
    assert_eq!(key[..8], first.to_be_bytes());
    assert_eq!(key[8..], splitmix64(1 ^ 0x5157).to_be_bytes());
    assert_eq!(KeyMaker::new(24).key(1)[8..16], [0; 8]);
}
