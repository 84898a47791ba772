//! The pieces of a stream show what the whole value shows.

use super::*;
use crate::text::Form;

/// Reads at most so many bytes at a time.
struct Slow<'a>(&'a [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.1.min(self.0.len()).min(buffer.len());
        buffer[..bytes].copy_from_slice(&self.0[..bytes]);
        self.0 = &self.0[bytes..];
        Ok(bytes)
    }
}

/// The text of pieces in a row, and whether each of them is UTF-8.
fn in_a_row(form: Form, bytes: &[u8]) -> (String, bool) {
    let (mut text, mut is_utf8, mut all) = (String::new(), true, Vec::new());
    stream_in_pieces(Slow(bytes, 1000), |piece| {
        form.render(piece, &mut text);
        is_utf8 &= str::from_utf8(piece).is_ok();
        all.extend_from_slice(piece);
        Ok(())
    })
    .unwrap();
    assert!(all == bytes);
    (text, is_utf8)
}

#[test]
fn the_text_of_a_stream_is_that_of_the_whole_value_wherever_its_pieces_end() {
    let patterns: [&[u8]; 6] = [
        "a\u{e9}\u{20ac}\u{1f30d}\\".as_bytes(),
        b"\xf0\x9f",
        b"\x80",
        b"\xff",
        b"a",
        b"\xe2\x82z",
    ];
    for pattern in patterns {
        for shift in 0..5 {
            let mut bytes = vec![b'x'; shift];
            while bytes.len() < 2 * READ_BYTES + 100 {
                bytes.extend_from_slice(pattern);
            }
            for form in [Form::Plain, Form::Escape, Form::Hex] {
                let mut whole = String::new();
                form.render(&bytes, &mut whole);
                let (text, is_utf8) = in_a_row(form, &bytes);
                assert!(text == whole, "{pattern:?} {shift} {form:?}");
                assert_eq!(is_utf8, str::from_utf8(&bytes).is_ok());
            }
        }
    }
    assert_eq!(in_a_row(Form::Plain, b""), (String::new(), true));
}
