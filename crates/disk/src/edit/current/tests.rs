//! The line there and back, and lines that are none.

use super::*;
use proptest::prelude::*;
use siltdb_base::error::ErrorKind;

#[test]
fn the_line_is_as_documented() {
    let text = CurrentFile { manifest: FileNumber(1) }.encode();
    let (line, rest) = text.split_once(" crc32c ").unwrap();
    assert_eq!(line, "siltdb manifest 000001");
    assert_eq!(rest, format!("{:08x}\n", crc32c(line.as_bytes())));
}

#[test]
fn every_truncation_and_flipped_bit_is_refused() {
    for manifest in [0, 1, 999_999, 1_000_000, siltdb_base::limits::FILE_NUMBER_MAX] {
        let current = CurrentFile { manifest: FileNumber(manifest) };
        let text = current.encode().into_bytes();
        assert!(text.len() <= CURRENT_BYTES_MAX);
        assert_eq!(CurrentFile::decode(&text).unwrap(), current);
        for end in 0..text.len() {
            let error = CurrentFile::decode(&text[..end]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption);
        }
        for bit in 0..8 * text.len() {
            let mut flipped = text.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(CurrentFile::decode(&flipped).is_err(), "bit {bit}");
        }
        let mut longer = text;
        longer.push(b'\n');
        assert!(CurrentFile::decode(&longer).is_err());
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        digits in "[0-9./]*",
    ) {
        prop_assert!(CurrentFile::decode(&bytes).is_err());
        let line = format!("siltdb manifest {digits} crc32c 00000000\n");
        prop_assert!(CurrentFile::decode(line.as_bytes()).is_err());
    }
}
