//! Fixed-width little-endian integers, LEB128 varints and length-prefixed bytes.
//!
//! Reading is total: any input gives a value or [`ErrorKind::Corruption`](crate::error::ErrorKind).

use crate::error::{Error, ErrorKind, Result};

/// Longest encoding of a `u64` as a varint, in bytes.
pub const VARINT_BYTES_MAX: usize = 10;

/// Appends `value` as a varint (LEB128: 7 bits a byte, low bits first).
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Writes `value` as a varint to the front of `out` and returns the bytes used.
///
/// # Panics
/// If `out` is shorter than the encoding; [`VARINT_BYTES_MAX`] always suffices.
#[inline]
pub fn write_varint(out: &mut [u8], mut value: u64) -> usize {
    let mut used = 0;
    while value >= 0x80 {
        out[used] = value as u8 | 0x80;
        value >>= 7;
        used += 1;
    }
    out[used] = value as u8;
    used + 1
}

/// The bytes [`put_varint`] uses for `value`.
#[inline]
#[must_use]
pub fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Appends the length of `bytes` as a varint, then `bytes`.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Makes `buffer` `bytes` long, for bytes whose length a file says: zeros where it grows.
///
/// # Errors
/// `Io`, if there is no memory for them, where growing otherwise would end the process.
pub fn resize(buffer: &mut Vec<u8>, bytes: usize) -> Result<()> {
    let more = bytes.saturating_sub(buffer.len());
    buffer.try_reserve_exact(more).map_err(|error| {
        Error::new(ErrorKind::Io, "not enough memory")
            .with_mismatch(format_args!("{bytes} bytes"), "fewer")
            .with_source(error)
    })?;
    buffer.resize(bytes, 0);
    Ok(())
}

/// Reads values from the front of untrusted bytes.
#[derive(Clone, Copy, Debug)]
pub struct ByteReader<'a> {
    rest: &'a [u8],
}

impl<'a> ByteReader<'a> {
    /// A reader at the start of `bytes`.
    #[inline]
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What was not read yet.
    #[inline]
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether all was read.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// Corruption, if fewer are left.
    #[inline]
    pub fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        match self.rest.split_at_checked(len) {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(head)
            }
            None => Err(truncated(len, self.rest.len())),
        }
    }

    /// All that was not read yet.
    #[inline]
    pub fn take_all(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.rest.split_first_chunk::<N>() {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(*head)
            }
            None => Err(truncated(N, self.rest.len())),
        }
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// Corruption, at the end.
    #[inline]
    pub fn u8(&mut self) -> Result<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Two bytes, little endian.
    ///
    /// # Errors
    /// Corruption, at the end.
    #[inline]
    pub fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes, little endian.
    ///
    /// # Errors
    /// Corruption, at the end.
    #[inline]
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes, little endian.
    ///
    /// # Errors
    /// Corruption, at the end.
    #[inline]
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a varint.
    ///
    /// # Errors
    /// Corruption, at the end or if it exceeds 64 bits.
    #[inline]
    pub fn varint(&mut self) -> Result<u64> {
        if let [byte, rest @ ..] = self.rest
            && *byte < 0x80
        {
            self.rest = rest;
            return Ok(u64::from(*byte));
        }
        self.varint_long()
    }

    fn varint_long(&mut self) -> Result<u64> {
        let mut value = 0_u64;
        for (index, &byte) in self.rest.iter().enumerate().take(VARINT_BYTES_MAX) {
            if index == VARINT_BYTES_MAX - 1 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.rest = &self.rest[index + 1..];
                return Ok(value);
            }
        }
        Err(Error::corruption("bad varint"))
    }

    /// A varint that must fit 32 bits.
    ///
    /// # Errors
    /// Corruption, at the end or if it exceeds 32 bits.
    #[inline]
    pub fn varint_u32(&mut self) -> Result<u32> {
        u32::try_from(self.varint()?).map_err(|_| Error::corruption("varint exceeds 32 bits"))
    }

    /// A varint length, then that many bytes.
    ///
    /// # Errors
    /// Corruption, if fewer are left.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.varint()?;
        let len = usize::try_from(len).map_err(|_| Error::corruption("length exceeds memory"))?;
        self.take(len)
    }
}

#[cold]
fn truncated(wanted: usize, left: usize) -> Error {
    Error::corruption("bytes end early").with_mismatch(wanted, left)
}

#[cfg(test)]
mod tests;
