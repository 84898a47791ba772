//! Values from input of any length.

use super::*;
use crate::source::BytesRead;
use std::io;

fn source(bytes_total: Option<u64>, input: impl Read + 'static) -> Source {
    let bytes_read = BytesRead::default();
    Source { name: "input".to_owned(), bytes_total, bytes_read, input: Box::new(input) }
}

#[test]
fn a_value_is_read_up_to_its_bound() {
    let read = |length| read_value(source(None, io::repeat(b'v').take(length)), 1000);
    assert_eq!(read(1000).unwrap(), [b'v'; 1000]);
    assert_eq!(read(1001).unwrap_err().exit_code(), 2);
    let endless = read_value(source(None, io::repeat(b'v')), 1000).unwrap_err();
    assert_eq!(endless.exit_code(), 2);
    let message = "value is too long. expected=at most 1000, found=more";
    assert!(endless.to_string().contains(message), "{endless}");
}

/// An input that must not be read.
struct Untouched;

impl Read for Untouched {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        panic!("it was read")
    }
}

#[test]
fn what_is_known_to_be_too_long_is_not_read() {
    let failure = read_value(source(Some(1001), Untouched), 1000).unwrap_err();
    assert!(failure.to_string().ends_with("found=1001"), "{failure}");
}
