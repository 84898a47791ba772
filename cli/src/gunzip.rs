//! The bytes of a gzip input, as `gunzip` reads them: any number of members, one after another,
//! then zeros that pad the input. Other bytes after a member are ignored with a warning.
//!
//! An input that ends within a member is an error.

use crate::output::{Style, warning};
use flate2::bufread::GzDecoder;
use std::io::{self, BufRead, BufReader, Read};

#[cfg(test)]
mod tests;

/// Start of each member of a gzip file.
const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Size of a read of compressed input, in bytes.
const BUFFER_BYTES: usize = 64 << 10;

type Compressed = BufReader<Box<dyn Read>>;

/// Uncompresses an input.
pub struct Gunzip {
    /// `None` after the end.
    member: Option<GzDecoder<io::Chain<io::Cursor<Vec<u8>>, Compressed>>>,
    style: Style,
}

/// What follows a member.
#[derive(Debug, PartialEq, Eq)]
enum Rest {
    Member,
    End,
    Garbage,
}

impl Gunzip {
    /// Reads `input`, which begins with a member. Warnings are in `style`.
    pub fn new(input: Box<dyn Read>, style: Style) -> Self {
        let input = BufReader::with_capacity(BUFFER_BYTES, input);
        Self { member: Some(member(Vec::new(), input)), style }
    }
}

impl Read for Gunzip {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let Some(decoder) = &mut self.member else { return Ok(0) };
            let count = decoder.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            let Some(decoder) = self.member.take() else { return Ok(0) };
            let mut input = decoder.into_inner();
            // A read of the buffer may end between the two bytes of the magic number.
            let mut start = Vec::new();
            input.by_ref().take(MAGIC.len() as u64).read_to_end(&mut start)?;
            match rest(&start, &mut input)? {
                Rest::Member => self.member = Some(member(start, input.into_inner().1)),
                Rest::End => {}
                Rest::Garbage => {
                    warning(self.style, "bytes after the compressed data are ignored");
                }
            }
        }
    }
}

fn member(
    start: Vec<u8>,
    input: Compressed,
) -> GzDecoder<io::Chain<io::Cursor<Vec<u8>>, Compressed>> {
    GzDecoder::new(io::Cursor::new(start).chain(input))
}

/// Returns what follows a member, after `start` of it was taken from `input`.
fn rest(start: &[u8], input: &mut impl BufRead) -> io::Result<Rest> {
    if start == MAGIC {
        return Ok(Rest::Member);
    }
    if start.iter().any(|byte| *byte != 0) {
        return Ok(Rest::Garbage);
    }
    loop {
        let bytes = input.fill_buf()?;
        if bytes.is_empty() {
            return Ok(Rest::End);
        }
        if bytes.iter().any(|byte| *byte != 0) {
            return Ok(Rest::Garbage);
        }
        let count = bytes.len();
        input.consume(count);
    }
}
