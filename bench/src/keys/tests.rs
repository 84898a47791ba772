//! Tests of keys: their order, and the bytes that workers in other languages must agree on.

use super::{KeyMaker, KeyStyle, splitmix64, unsplitmix64};

#[test]
fn the_order_of_keys_is_that_of_their_ranks() {
    let styles = [
        (KeyStyle::Sparse, 8),
        (KeyStyle::Sparse, 16),
        (KeyStyle::Sparse, 40),
        (KeyStyle::Counter, 16),
        (KeyStyle::ReversedCounter, 20),
    ];
    for (style, length) in styles {
        let mut maker = KeyMaker::new(style, length);
        let mut last = Vec::new();
        let mut ids: Vec<u32> = (0..3000).chain([u32::MAX - 1, u32::MAX]).collect();
        ids.sort_by_key(|id| style.rank(*id));
        for id in ids {
            let key = maker.key(id).to_vec();
            assert_eq!(key.len(), length as usize);
            assert!(last < key, "{style:?}, id {id}");
            let missing = maker.missing(id).to_vec();
            assert!(key < missing);
            last = missing;
        }
    }
}

#[test]
fn bytes_of_keys_are_fixed() {
    assert_eq!(splitmix64(0), 0xe220_a839_7b1d_cdaf);
    let key = KeyMaker::new(KeyStyle::Sparse, 16).key(1).to_vec();
    let first = (1_u64 << 20) + (splitmix64(1) & 0xf_ffff);
    assert_eq!(key[..8], first.to_be_bytes());
    assert_eq!(key[8..], splitmix64(1 ^ 0x5157).to_be_bytes());
    assert_eq!(KeyMaker::new(KeyStyle::Sparse, 24).key(1)[8..16], [0; 8]);
    assert_eq!(KeyMaker::new(KeyStyle::Counter, 16).key(1234), b"0000000000001234");
    let reversed = KeyMaker::new(KeyStyle::ReversedCounter, 16).key(0x0102_ab04).to_vec();
    assert_eq!(reversed, b"0000000004ab0201");
}

#[test]
fn hashes_and_sparse_keys_lead_back_to_what_they_were_made_of() {
    for number in (0..1000).chain([u64::MAX, 1 << 63, u64::from(u32::MAX)]) {
        assert_eq!(unsplitmix64(splitmix64(number)), number);
    }
    let mut maker = KeyMaker::new(KeyStyle::Sparse, 16);
    for id in [0, 1, 77_777, u32::MAX] {
        assert_eq!(KeyStyle::id_of_sparse(maker.key(id)), id);
    }
    assert_eq!(KeyStyle::id_of_sparse(b"short"), 0);
}
