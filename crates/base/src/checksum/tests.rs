//! The published check value, and sums over parts against the sum over the whole.

use super::*;

#[test]
fn the_published_check_values_hold() {
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    assert_eq!(crc32c(b""), 0);
    assert_eq!(xxh3(b""), 0x2d06_8005_38d3_94c2);
}

#[test]
fn a_checksum_over_parts_is_that_of_the_whole() {
    let bytes: Vec<u8> = (0..1024_u32).map(|index| (index * 7 + 3) as u8).collect();
    for length in [0, 1, 7, 8, 44, 130, 255, 256, 257, 1024] {
        let whole = &bytes[..length];
        for cut in [0, 1, 5, 16, length / 2, length] {
            let (left, right) = whole.split_at(cut.min(length));
            assert_eq!(crc32c_append(crc32c(left), right), crc32c(whole), "{length} at {cut}");
        }
        assert_eq!(crc32c_append(0, whole), crc32c(whole));
        assert_eq!(crc32c_append_long(0, whole), crc32c(whole));
    }
}
