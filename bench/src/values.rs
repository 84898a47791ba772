//! The bytes of the value of an id in a version.
//!
//! [`ValueStyle::Marked`]: the value identifies itself and compresses by the requested share.
//!
//! `| mark = splitmix64(id ^ version << 40), u64 le | from a pool | its bitwise inverse, u64 le |`
//!
//! It is cheap on the clock: one hash, one pass over bytes, two stores. Bytes come in chunks of 4
//! KiB. Chunk k has a number, `mark` for the first and `splitmix64(mark + k)` for others. Its upper
//! half gives the chunk's start in the pool, and its lowest byte is combined with each of its
//! bytes. So the pool can be small enough for the processor's caches, and values still have nothing
//! in common that would compress.
//!
//! [`ValueStyle::Ramp`] is that of published benchmarks: bytes that count up. This file does not
//! know the versions of ids.

use crate::keys::{splitmix64, unsplitmix64};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The shortest value, in bytes.
pub const VALUE_BYTES_MIN: u32 = 16;
/// The longest value, in bytes.
pub const VALUE_BYTES_MAX: u32 = (1 << 20) - 1;

/// The lowest bit of the version in the input of a mark; the id lies below.
const MARK_SHIFT: u32 = 40;
/// The bits between id and version; always zero.
const UNUSED_MARK_BITS: u64 = 0xff << 32;

const POOL_BYTES: usize = 64 << 10;
const CHUNK_BYTES: usize = 4 << 10;
/// Each stretch of the pool has the same share of a repeated byte.
const STRETCH_BYTES: usize = 64;

/// The contribution of an absent key to a sum, so that the sum shows misses, too.
pub const ABSENT: u64 = 0x9e37_79b9_7f4a_7c15;
/// The contribution of a value that is too short to identify itself.
const MALFORMED: u64 = 0x5bf0_3635;

/// The contents of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ValueStyle {
    /// Marks at both ends, between them bytes that compress by the requested share.
    #[default]
    Marked,
    /// Bytes that count up from the id and the version: 256 different values, which all compress.
    Ramp,
}

/// The common properties of all values of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Their contents.
    pub style: ValueStyle,
    /// Their length.
    pub bytes: u32,
    /// Their compressible share, if they are marked.
    pub compressible_percent: u32,
}

impl Shape {
    /// The contribution of the value of an id in a version to a sum.
    #[must_use]
    pub fn fold_of(self, id: u32, version: u32) -> u64 {
        match self.style {
            ValueStyle::Marked => {
                let mark = mark(id, version);
                folded(mark, !mark)
            }
            ValueStyle::Ramp => {
                let first = first_of_ramp(id, version);
                let (mut head, mut tail) = ([0; 8], [0; 8]);
                write_ramp(&mut head, first);
                write_ramp(&mut tail, first.wrapping_add((self.bytes - 8) as u8));
                folded(u64::from_le_bytes(head), u64::from_le_bytes(tail))
            }
        }
    }
}

/// Makes values of one shape in one buffer.
#[derive(Clone, Debug)]
pub struct ValueMaker {
    style: ValueStyle,
    pool: Arc<[u8]>,
    bytes: Vec<u8>,
}

impl ValueMaker {
    /// # Panics
    /// If values cannot have this length.
    #[must_use]
    pub fn new(shape: Shape) -> Self {
        assert!(
            (VALUE_BYTES_MIN..=VALUE_BYTES_MAX).contains(&shape.bytes),
            "values of this length are refused with the suite"
        );
        let bytes = vec![0; shape.bytes as usize];
        Self { style: shape.style, pool: pool(shape.compressible_percent), bytes }
    }

    /// The value of an id in a version.
    #[inline]
    pub fn value(&mut self, id: u32, version: u32) -> &[u8] {
        match self.style {
            ValueStyle::Marked => self.write_marked(id, version),
            ValueStyle::Ramp => write_ramp(&mut self.bytes, first_of_ramp(id, version)),
        }
        &self.bytes
    }

    #[inline]
    fn write_marked(&mut self, id: u32, version: u32) {
        let mark = mark(id, version);
        for (index, chunk) in self.bytes.chunks_mut(CHUNK_BYTES).enumerate() {
            let number =
                if index == 0 { mark } else { splitmix64(mark.wrapping_add(index as u64)) };
            // A share of the choices, because a remainder would cost more than the bytes.
            let begin = ((number >> 32) * (POOL_BYTES - CHUNK_BYTES) as u64) >> 32;
            let pooled = &self.pool[begin as usize..][..chunk.len()];
            for (byte, pooled) in chunk.iter_mut().zip(pooled) {
                *byte = pooled ^ number as u8;
            }
        }
        let length = self.bytes.len();
        self.bytes[..8].copy_from_slice(&mark.to_le_bytes());
        self.bytes[length - 8..].copy_from_slice(&(!mark).to_le_bytes());
    }
}

/// The first eight bytes of a marked value; its last eight are the inverse.
#[inline]
#[must_use]
pub fn mark(id: u32, version: u32) -> u64 {
    splitmix64(u64::from(id) ^ (u64::from(version) << MARK_SHIFT))
}

/// Number of versions that a mark distinguishes.
pub const MARK_VERSIONS: u64 = 1 << (u64::BITS - MARK_SHIFT);

/// The id and the version in the marks of a value; `None` if the marks do not match.
#[inline]
#[must_use]
pub fn read_mark(value: &[u8]) -> Option<(u32, u32)> {
    let (first, last) = (value.first_chunk::<8>()?, value.last_chunk::<8>()?);
    let (mark, inverse) = (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
    let named = unsplitmix64(mark);
    let is_whole = inverse == !mark && named & UNUSED_MARK_BITS == 0;
    is_whole.then_some((named as u32, (named >> MARK_SHIFT) as u32))
}

fn first_of_ramp(id: u32, version: u32) -> u8 {
    id.wrapping_add(version) as u8
}

fn write_ramp(bytes: &mut [u8], first: u8) {
    let mut next = first;
    for byte in bytes {
        *byte = next;
        next = next.wrapping_add(1);
    }
}

/// The contribution of a value that was read to a sum: its first and its last eight bytes.
#[inline]
#[must_use]
pub fn fold(value: &[u8]) -> u64 {
    let (Some(first), Some(last)) = (value.first_chunk::<8>(), value.last_chunk::<8>()) else {
        return MALFORMED;
    };
    folded(u64::from_le_bytes(*first), u64::from_le_bytes(*last))
}

#[inline]
fn folded(first: u64, last: u64) -> u64 {
    first ^ last.rotate_left(1)
}

/// Pseudo-random bytes of which a share in each stretch is one repeated byte.
fn pool(compressible_percent: u32) -> Arc<[u8]> {
    let mut pool = Vec::with_capacity(POOL_BYTES);
    for word in 0..POOL_BYTES as u64 / 8 {
        pool.extend(splitmix64(word ^ (u64::from(compressible_percent) << 32)).to_le_bytes());
    }
    let repeated = STRETCH_BYTES * compressible_percent.min(100) as usize / 100;
    for stretch in pool.chunks_mut(STRETCH_BYTES) {
        let byte = stretch[0];
        stretch[..repeated].fill(byte);
    }
    pool.into()
}

#[cfg(test)]
mod tests;
