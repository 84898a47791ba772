//! A value that a verb prints: in memory, or so long that it is read piece by piece.
//!
//! It does not render bytes.

use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::text::pieces;
use siltdb::ValueStream;
use std::io::{self, Read};

#[cfg(test)]
mod tests;

/// Length from which on a value is written, read and printed piece by piece, in bytes. A shorter
/// one is verified before any of it is printed. The database stores values that long without
/// compression.
pub const STREAMED_BYTES_MIN: u64 = 32 << 20;

/// Bytes of a streamed value that are read at a time.
const READ_BYTES: usize = 1 << 20;

/// The bytes of a character that may be missing behind its first.
const FOLLOWING_BYTES_MAX: usize = 3;

/// A value to print.
pub enum PrintedValue<'a> {
    /// All of it, verified.
    Whole(&'a [u8]),
    /// A long value, which is verified while it is read.
    Stream(ValueStream),
}

impl<'a> PrintedValue<'a> {
    /// Returns the stream of a value that was left unread, or else the value itself.
    pub fn of(value: &'a [u8], stream: Option<ValueStream>) -> Self {
        match stream {
            Some(stream) => Self::Stream(stream),
            None => Self::Whole(value),
        }
    }

    /// Calls `seen` with the value in pieces of about `piece_bytes`, none of which ends inside a
    /// character.
    ///
    /// # Errors
    /// Those of `seen`; [`Failure::Interrupted`]; errors of the database, such as `Corruption`
    /// after the damaged bytes of a stream were seen.
    pub fn in_pieces(
        &self,
        piece_bytes: usize,
        mut seen: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::Whole(value) => pieces(value, piece_bytes).try_for_each(seen),
            Self::Stream(stream) => stream_in_pieces(stream.clone(), |read| {
                pieces(read, piece_bytes).try_for_each(&mut seen)
            }),
        }
    }

    /// Returns whether the value is UTF-8. A stream is read for that.
    ///
    /// # Errors
    /// As [`PrintedValue::in_pieces`].
    pub fn is_utf8(&self) -> Result<bool> {
        if let Self::Whole(value) = self {
            return Ok(str::from_utf8(value).is_ok());
        }
        let mut is_utf8 = true;
        self.in_pieces(READ_BYTES, |piece| {
            is_utf8 &= str::from_utf8(piece).is_ok();
            Ok(())
        })?;
        Ok(is_utf8)
    }
}

/// Calls `seen` with what `stream` reads, in pieces none of which ends inside a character.
fn stream_in_pieces(
    mut stream: impl Read,
    mut seen: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut buffer = Vec::with_capacity(READ_BYTES + FOLLOWING_BYTES_MAX + 1);
    loop {
        interrupt::check()?;
        let read = stream.by_ref().take(READ_BYTES as u64).read_to_end(&mut buffer);
        if read.map_err(read_error)? == 0 {
            return seen(&buffer);
        }
        let end = whole_characters(&buffer);
        seen(&buffer[..end])?;
        buffer.drain(..end);
    }
}

/// Returns how many of `bytes` end before the last character, which may go on behind them. Bytes
/// that are in no character count.
fn whole_characters(bytes: &[u8]) -> usize {
    let last = bytes.iter().rev().take(FOLLOWING_BYTES_MAX + 1);
    let first_of_last = last.enumerate().find(|(_, byte)| **byte & 0xc0 != 0x80);
    first_of_last.map_or(bytes.len(), |(behind, _)| bytes.len() - behind - 1)
}

/// The error of the database that a stream of it failed with.
fn read_error(error: io::Error) -> Failure {
    match error.downcast::<siltdb::Error>() {
        Ok(error) => error.into(),
        Err(error) => Failure::file("read", "the value", error),
    }
}
