//! Tests of values: they identify themselves, and compress by the requested share.

use super::{MARK_VERSIONS, Shape, ValueMaker, ValueStyle, fold, read_mark};

fn shape(style: ValueStyle, bytes: u32, compressible_percent: u32) -> Shape {
    Shape { style, bytes, compressible_percent }
}

#[test]
fn a_value_tells_its_id_and_version() {
    for style in [ValueStyle::Marked, ValueStyle::Ramp] {
        let shape = shape(style, 100, 50);
        let mut maker = ValueMaker::new(shape);
        for (id, version) in [(0, 1), (7, 1), (7, 2), (u32::MAX, u32::MAX)] {
            let value = maker.value(id, version).to_vec();
            assert_eq!(fold(&value), shape.fold_of(id, version), "{style:?}");
            assert_ne!(fold(&value), shape.fold_of(id, version - 1), "{style:?}");
            assert_eq!(value, maker.value(id, version), "{style:?}");
        }
        assert_ne!(fold(b""), shape.fold_of(0, 1));
    }
}

#[test]
fn a_ramp_counts_up() {
    let mut maker = ValueMaker::new(shape(ValueStyle::Ramp, 300, 0));
    let value = maker.value(250, 4).to_vec();
    assert_eq!((value[0], value[1], value[2], value[255], value[299]), (254, 255, 0, 253, 41));
}

/// Bytes that repeat the previous one.
fn repeats(bytes: &[u8]) -> usize {
    bytes.windows(2).filter(|pair| pair[0] == pair[1]).count()
}

#[test]
fn values_compress_as_asked() {
    for (percent, least, most) in [(0, 0, 4), (50, 45, 55), (90, 83, 93)] {
        let mut maker = ValueMaker::new(shape(ValueStyle::Marked, 64_000, percent));
        let share = repeats(maker.value(3, 1)) * 100 / 64_000;
        assert!((least..=most).contains(&share), "{percent} % asked, {share} % repeat");
    }
}

#[test]
fn values_have_nothing_in_common() {
    let mut maker = ValueMaker::new(shape(ValueStyle::Marked, 100, 50));
    let mut seen = std::collections::HashSet::new();
    let mut count = 0;
    for id in 0..600 {
        // The bytes that are not repeated, in pieces that a compressor would find again.
        for piece in maker.value(id, 1).windows(16).filter(|piece| repeats(piece) == 0) {
            seen.insert(piece.to_vec());
            count += 1;
        }
    }
    assert!(count > 5_000 && seen.len() * 100 > count * 99, "{} of {count} differ", seen.len());
}

#[test]
fn a_mark_is_read_back_and_a_bent_one_is_not() {
    let mut maker = ValueMaker::new(shape(ValueStyle::Marked, 100, 50));
    let last = MARK_VERSIONS as u32 - 1;
    for (id, version) in [(0, 1), (7, 300_000), (u32::MAX, last), (12_345, last)] {
        let mut value = maker.value(id, version).to_vec();
        assert_eq!(read_mark(&value), Some((id, version)));
        value[99] ^= 1;
        assert_eq!(read_mark(&value), None);
    }
    assert_eq!(read_mark(&[0; 100]), None);
    assert_eq!(read_mark(&[0; 7]), None);
    // Whole by its ends, but of bits that no id and no version set.
    let mark = crate::keys::splitmix64(1 << 35);
    assert_eq!(read_mark(&[mark.to_le_bytes(), (!mark).to_le_bytes()].concat()), None);
}
