//! The keys of a table whose hashes are smallest: a sample that all tables draw alike. So samples
//! of several tables tell how many keys they share, and what these take.
//!
//! Two fields of the summary; the second is absent in tables of versions that did not write it:
//!
//! ```text
//! hashes: | hashes varint | difference to the hash before, at first to 0: varint, ... |
//! bytes:  | what the entries of each key take: varint, ... |
//! ```
//!
//! Source: Cohen and Kaplan: Summarizing data using bottom-k sketches (2007).

use siltdb_base::{
    codec::{ByteReader, put_varint},
    error::{Error, Result},
};

/// Hashes that a sample has at most.
const HASHES_MAX: usize = 32;

/// The smallest hashes of a set of keys: all of them, if they are fewer than a sample has at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySketch {
    /// Each larger than the one before.
    hashes: Box<[u64]>,
    /// For each hash, the bytes of keys, payloads and separated values of its entries. Empty if
    /// that is not known.
    bytes: Box<[u32]>,
}

/// A key of a sample.
#[derive(Clone, Copy, Debug)]
struct SampledKey {
    hash: u64,
    /// What its entries take.
    bytes: u32,
}

/// Draws a [`KeySketch`] from entries in any order.
#[derive(Debug)]
pub struct SketchBuilder {
    /// By ascending hash, and each once.
    smallest: Vec<SampledKey>,
    /// What is above it is not among the smallest.
    bound: u64,
    /// The hash that was added last.
    last: u64,
}

/// What samples of several sets say together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// Sampled keys, counted once for each set that has them.
    pub sampled: u64,
    /// How many of them are keys that were counted before.
    pub repeated: u64,
}

impl Default for SketchBuilder {
    fn default() -> Self {
        Self { smallest: Vec::with_capacity(HASHES_MAX + 1), bound: u64::MAX, last: 0 }
    }
}

impl SketchBuilder {
    /// Adds an entry: the hash of its key, and what it takes, in bytes.
    ///
    /// Cost: one comparison for nearly all of many keys.
    #[inline]
    pub fn add(&mut self, hash: u64, bytes: impl FnOnce() -> u64) {
        self.last = hash;
        if hash <= self.bound {
            self.insert(hash, bytes());
        }
    }

    /// Adds a further entry of the key that was added last.
    #[inline]
    pub fn add_version(&mut self, bytes: impl FnOnce() -> u64) {
        self.add(self.last, bytes);
    }

    #[cold]
    fn insert(&mut self, hash: u64, bytes: u64) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        match self.smallest.binary_search_by_key(&hash, |key| key.hash) {
            Ok(place) => {
                let sampled = &mut self.smallest[place].bytes;
                *sampled = sampled.saturating_add(bytes);
            }
            Err(place) => self.smallest.insert(place, SampledKey { hash, bytes }),
        }
        self.smallest.truncate(HASHES_MAX);
        if self.smallest.len() == HASHES_MAX {
            self.bound = self.smallest[HASHES_MAX - 1].hash;
        }
    }

    /// The sample of what was added.
    #[must_use]
    pub fn finish(&self) -> KeySketch {
        let is_sorted = self.smallest.is_sorted_by(|a, b| a.hash < b.hash);
        assert!(is_sorted && self.smallest.len() <= HASHES_MAX, "no sample: {:?}", self.smallest);
        KeySketch {
            hashes: self.smallest.iter().map(|key| key.hash).collect(),
            bytes: self.smallest.iter().map(|key| key.bytes).collect(),
        }
    }
}

impl KeySketch {
    /// Keys it has.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.hashes.len()
    }

    /// The hashes of its keys, ascending.
    #[must_use]
    pub fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// What the entries of the key at a place among the [hashes](Self::hashes) take, in bytes: key,
    /// payload and separated value of each. `None` if the table is of a version that did not note
    /// it.
    #[must_use]
    pub fn bytes(&self, place: usize) -> Option<u64> {
        self.bytes.get(place).map(|&bytes| u64::from(bytes))
    }

    /// Whether it says what its keys take.
    #[must_use]
    pub fn has_bytes(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Whether this is the sample of the same entries as `found`, which knows what they take.
    #[must_use]
    pub fn agrees(&self, found: &Self) -> bool {
        self.hashes == found.hashes && (!self.has_bytes() || self.bytes == found.bytes)
    }

    /// The sample has every key of its set whose hash is not above this.
    #[must_use]
    pub fn border(&self) -> u64 {
        match self.hashes.last() {
            Some(&last) if self.hashes.len() == HASHES_MAX => last,
            _ => u64::MAX,
        }
    }

    /// How often keys of these sets occur in several of them.
    ///
    /// A hash counts where every sample would have it if its set did. That is up to the smallest of
    /// the largest hashes of those that are not whole sets.
    ///
    /// Cost: sorts all hashes.
    #[must_use]
    pub fn overlap<'s>(samples: impl IntoIterator<Item = &'s Self>) -> Overlap {
        let (mut hashes, mut border) = (Vec::new(), u64::MAX);
        for sample in samples {
            hashes.extend_from_slice(&sample.hashes);
            border = border.min(sample.border());
        }
        hashes.retain(|&hash| hash <= border);
        hashes.sort_unstable();
        let sampled = hashes.len() as u64;
        hashes.dedup();
        Overlap { sampled, repeated: sampled - hashes.len() as u64 }
    }

    /// Appends the encoding of the hashes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.hashes.len() as u64);
        let mut before = 0;
        for &hash in &self.hashes {
            put_varint(out, hash - before);
            before = hash;
        }
    }

    /// Appends the encoding of what its keys take to `out`.
    pub fn encode_bytes(&self, out: &mut Vec<u8>) {
        self.bytes.iter().for_each(|&bytes| put_varint(out, u64::from(bytes)));
    }

    /// Reads an encoding of hashes.
    ///
    /// # Errors
    /// Corruption, if the bytes are none.
    pub fn decode(reader: &mut ByteReader<'_>) -> Result<Self> {
        let count = reader.varint()?;
        if count > HASHES_MAX as u64 {
            return Err(Error::corruption("a sample of too many keys")
                .with_mismatch(format_args!("at most {HASHES_MAX}"), count));
        }
        let mut hashes: Vec<u64> = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let difference = reader.varint()?;
            let hash = hashes.last().map_or(Some(difference), |before| {
                before.checked_add(difference).filter(|hash| hash > before)
            });
            hashes.push(hash.ok_or_else(|| Error::corruption("hashes of a sample out of order"))?);
        }
        Ok(Self { hashes: hashes.into(), bytes: Box::default() })
    }

    /// Reads an encoding of what its keys take.
    ///
    /// # Errors
    /// Corruption, if the bytes are none, or not of so many keys.
    pub fn decode_bytes(&mut self, reader: &mut ByteReader<'_>) -> Result<()> {
        let bytes = self.hashes.iter().map(|_| {
            u32::try_from(reader.varint()?)
                .map_err(|_| Error::corruption("what a sampled key takes is more than it can"))
        });
        self.bytes = bytes.collect::<Result<_>>()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
