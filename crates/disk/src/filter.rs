//! A blocked Bloom filter: tells of most absent keys that they are absent, for one cache miss.
//!
//! It knows hashes only; which bytes of a key are hashed is its user's choice.
//!
//! ```text
//! | probes u8 | 0 u8[3] | lines u32 le | line: 64 bytes, ... |
//! ```
//!
//! A key of hash `h` (XXH3, 64 bits) belongs to line `(h >> 32) * lines >> 32`. Within the line of
//! 512 bits its probes are the upper 9 bits of `x`. First `x` is `h * 0x9e3779b97f4a7c15`; for each
//! further probe it is multiplied by the same number, modulo 2^64. Bit `b` of a line is bit `b % 8`
//! of its byte `b / 8`.
//!
//! Source: Putze, Sanders, Singler: Cache-, Hash- and Space-Efficient Bloom Filters (2007).

use siltdb_base::{
    codec::ByteReader,
    error::{Error, Result},
    hint::prefetch,
    invariant,
    memory::large_vec::{LargeSlice, LargeVec},
};

const LINE_BYTES: usize = 64;
const LINE_BITS: usize = LINE_BYTES * 8;
const HEADER_BYTES: usize = 8;

/// Most lines of a filter: beyond 4 GiB it lets more absent keys through instead of growing.
const LINES_MAX: u64 = (4 << 30) / LINE_BYTES as u64 - 1;
const PROBES_MAX: u32 = 16;
/// Hashes of a piece of the list that a filter is built from.
const PIECE_HASHES: usize = 8 << 10;
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// A cache line of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(64))]
struct Line([u64; LINE_BYTES / 8]);

/// A filter in memory. A clone shares it.
#[derive(Clone, Debug)]
pub struct Filter {
    lines: LargeSlice<Line>,
    probes: u32,
}

/// Gathers the hashes of keys until their number is known, and with it the size of the filter.
///
/// They lie in pieces of one size: a list that grew by doubling would fragment the heap.
#[derive(Debug, Default)]
pub struct FilterBuilder {
    full: Vec<Vec<u64>>,
    open: Vec<u64>,
}

impl FilterBuilder {
    /// Adds the hash of a key.
    #[inline]
    pub fn add(&mut self, hash: u64) {
        // At the very first, and whenever a piece is full.
        if self.open.len().is_multiple_of(PIECE_HASHES) {
            self.open_next();
        }
        self.open.push(hash);
    }

    #[cold]
    fn open_next(&mut self) {
        let next = Vec::with_capacity(PIECE_HASHES);
        let full = std::mem::replace(&mut self.open, next);
        if !full.is_empty() {
            self.full.push(full);
        }
    }

    /// The hashes that were added so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        (self.full.len() * PIECE_HASHES + self.open.len()) as u64
    }

    /// Appends to `out` the encoding of a filter that holds them in `bits_per_key` bits each.
    pub fn encode(&self, bits_per_key: u32, out: &mut Vec<u8>) {
        let bits = self.count() * u64::from(bits_per_key);
        let lines = bits.div_ceil(LINE_BITS as u64).clamp(1, LINES_MAX);
        // A line fills unevenly, so the best number of probes is a little below ln 2 per bit.
        let probes = (bits_per_key * 6 / 10).clamp(1, PROBES_MAX);
        let mut lines: LargeVec<Line> = (0..lines).map(|_| Line::default()).collect();
        for piece in self.full.iter().chain([&self.open]) {
            piece.iter().for_each(|&hash| insert(&mut lines, probes, hash));
        }
        let start = out.len();
        out.reserve(HEADER_BYTES + size_of_val(&lines[..]));
        out.extend_from_slice(&[probes as u8, 0, 0, 0]);
        out.extend_from_slice(&(lines.len() as u32).to_le_bytes());
        for word in lines.iter().flat_map(|line| line.0) {
            out.extend_from_slice(&word.to_le_bytes());
        }
        invariant!(self.is_held_by(&out[start..]), "a filter denies a key of its table");
    }
}

impl FilterBuilder {
    /// Whether the filter of this encoding lets all of them through.
    fn is_held_by(&self, encoded: &[u8]) -> bool {
        let mut hashes = self.full.iter().chain([&self.open]).flatten();
        Filter::decode(encoded).is_ok_and(|filter| hashes.all(|&hash| filter.may_contain(hash)))
    }
}

fn insert(lines: &mut [Line], probes: u32, hash: u64) {
    let line = &mut lines[line_of(hash, lines.len())].0;
    let mut bits = hash;
    for _ in 0..probes {
        bits = bits.wrapping_mul(MULTIPLIER);
        line[(bits >> 61) as usize] |= 1 << (bits >> 55 & 63);
    }
}

/// The line of a key among `lines`; in bounds, because the upper half of the hash is below 2^32.
#[inline]
fn line_of(hash: u64, lines: usize) -> usize {
    (((hash >> 32) * lines as u64) >> 32) as usize
}

/// How many lines a filter has, and how many bits of a line stand for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterShape {
    lines: u32,
    probes: u32,
}

impl FilterShape {
    /// Bytes of a line.
    pub const LINE_BYTES: usize = LINE_BYTES;

    /// The shape of an encoded filter, and the bytes of its lines.
    ///
    /// # Errors
    /// Corruption, if `bytes` are no filter.
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8])> {
        let mut reader = ByteReader::new(bytes);
        let probes = u32::from(reader.u8()?);
        let zeros = reader.take(3)?;
        let lines = reader.u32()?;
        if !(1..=PROBES_MAX).contains(&probes) || zeros != [0; 3] {
            return Err(Error::corruption("bad filter header"));
        }
        let bytes = u64::from(lines) * LINE_BYTES as u64;
        if lines == 0 || reader.rest().len() as u64 != bytes {
            return Err(
                Error::corruption("bad filter length").with_mismatch(bytes, reader.rest().len())
            );
        }
        Ok((Self { lines, probes }, reader.rest()))
    }

    /// The number of its lines.
    #[must_use]
    pub fn lines(self) -> usize {
        self.lines as usize
    }

    /// The index of the line that tells of a key of this hash.
    #[inline]
    #[must_use]
    pub fn line_of(self, hash: u64) -> usize {
        line_of(hash, self.lines as usize)
    }

    /// Whether a key of this hash may be held, as its line tells; `false` is certain.
    #[inline]
    #[must_use]
    pub fn is_in_line(self, line: &[u8; LINE_BYTES], hash: u64) -> bool {
        let (words, _) = line.as_chunks::<8>();
        is_in_line(self.probes, hash, |word| u64::from_le_bytes(words[word]))
    }
}

/// Whether all bits of a hash are set in a line that has these words.
#[inline]
fn is_in_line(probes: u32, hash: u64, word: impl Fn(usize) -> u64) -> bool {
    let mut bits = hash;
    for _ in 0..probes {
        bits = bits.wrapping_mul(MULTIPLIER);
        if word((bits >> 61) as usize) & 1 << (bits >> 55 & 63) == 0 {
            return false;
        }
    }
    true
}

impl Filter {
    /// Reads an encoding.
    ///
    /// # Errors
    /// Corruption, if the bytes are none.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (FilterShape { probes, .. }, lines) = FilterShape::decode(bytes)?;
        let (chunks, _) = lines.as_chunks::<LINE_BYTES>();
        let lines = chunks.iter().map(|chunk| {
            let (words, _) = chunk.as_chunks::<8>();
            let mut line = Line::default();
            for (word, bytes) in line.0.iter_mut().zip(words) {
                *word = u64::from_le_bytes(*bytes);
            }
            line
        });
        let lines: LargeVec<Line> = lines.collect();
        Ok(Self { lines: lines.share(), probes })
    }

    /// Whether a key of this hash may be held; `false` is certain.
    #[inline]
    #[must_use]
    pub fn may_contain(&self, hash: u64) -> bool {
        let line = &self.lines[line_of(hash, self.lines.len())].0;
        is_in_line(self.probes, hash, |word| line[word])
    }

    /// Prefetches the memory that [`Filter::may_contain`] will look at.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch(&self.lines[line_of(hash, self.lines.len())]);
    }

    /// Bytes of memory it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.lines.len() * LINE_BYTES
    }
}

#[cfg(test)]
mod tests;
