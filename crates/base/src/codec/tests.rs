//! Round trips at the borders of each width, and every truncation.

use super::*;
use proptest::prelude::*;

#[test]
fn varints_round_trip_at_each_length() {
    for shift in 0..64 {
        for value in [1_u64 << shift, (1_u64 << shift) - 1, (1_u64 << shift) | 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            assert_eq!(bytes.len(), varint_len(value));
            let mut fixed = [0; VARINT_BYTES_MAX];
            let used = write_varint(&mut fixed, value);
            assert_eq!(&fixed[..used], &bytes[..]);
            let mut reader = ByteReader::new(&bytes);
            assert_eq!(reader.varint().unwrap(), value);
            assert!(reader.is_empty());
            for end in 0..bytes.len() {
                assert!(ByteReader::new(&bytes[..end]).varint().is_err());
            }
        }
    }
}

#[test]
fn a_varint_of_more_than_64_bits_is_refused() {
    let bytes = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
    assert!(ByteReader::new(&bytes).varint().is_err());
    assert!(ByteReader::new(&[0x80; 12]).varint().is_err());
}

#[test]
fn a_length_beyond_the_input_is_refused() {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, u64::MAX);
    assert!(ByteReader::new(&bytes).bytes().is_err());
}

#[test]
fn a_buffer_too_long_for_memory_is_an_error() {
    let mut buffer = vec![7; 3];
    let error = resize(&mut buffer, isize::MAX as usize).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert_eq!(buffer, [7; 3]);
    resize(&mut buffer, 5).unwrap();
    assert_eq!(buffer, [7, 7, 7, 0, 0]);
    resize(&mut buffer, 2).unwrap();
    assert_eq!(buffer, [7, 7]);
}

proptest! {
    #[test]
    fn no_input_panics(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let mut reader = ByteReader::new(&bytes);
        while !reader.is_empty() {
            if reader.bytes().is_err() {
                break;
            }
        }
        let _ = ByteReader::new(&bytes).varint_u32();
        let _ = ByteReader::new(&bytes).u64();
    }
}
