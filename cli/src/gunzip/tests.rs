//! What follows a member.

use super::*;

#[test]
fn zeros_end_the_input_and_other_bytes_are_garbage() {
    for (bytes, expected) in [
        (&b""[..], Rest::End),
        (b"\0", Rest::End),
        (&[0; 100_000], Rest::End),
        (b"\x1f\x8b\x08", Rest::Member),
        (b"\x1f", Rest::Garbage),
        (b"\0\x1f\x8b", Rest::Garbage),
        (b"text", Rest::Garbage),
    ] {
        let (start, mut input) = bytes.split_at(bytes.len().min(MAGIC.len()));
        assert_eq!(
            rest(start, &mut input).unwrap(),
            expected,
            "{:?}",
            &bytes[..bytes.len().min(8)]
        );
    }
}
