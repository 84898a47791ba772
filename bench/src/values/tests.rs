//! Tests of values: they say what they are, and compress as asked.

use super::{ValueMaker, fold, fold_of};

#[test]
fn a_value_tells_its_id_and_version() {
    let mut maker = ValueMaker::new(100, 50);
    for (id, version) in [(0, 1), (7, 1), (7, 2), (u32::MAX, u32::MAX)] {
        let value = maker.value(id, version).to_vec();
        assert_eq!(fold(&value), fold_of(id, version));
        assert_ne!(fold(&value), fold_of(id, version - 1));
        assert_eq!(value, maker.value(id, version));
    }
    assert_ne!(fold(b""), fold_of(0, 1));
}

/// Bytes that repeat the one before.
fn repeats(bytes: &[u8]) -> usize {
    bytes.windows(2).filter(|pair| pair[0] == pair[1]).count()
}

#[test]
fn values_compress_as_asked() {
    for (percent, least, most) in [(0, 0, 4), (50, 45, 55), (90, 83, 93)] {
        let mut maker = ValueMaker::new(64_000, percent);
        let share = repeats(maker.value(3, 1)) * 100 / 64_000;
        assert!((least..=most).contains(&share), "{percent} % asked, {share} % repeat");
    }
}
