//! The keys of a table whose hashes are smallest: a sample that all tables draw alike. So samples
//! of several tables tell how many keys they share.
//!
//! ```text
//! | hashes varint | difference to the hash before, at first to 0: varint, ... |
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
}

/// Draws a [`KeySketch`] from hashes in any order.
#[derive(Debug)]
pub struct SketchBuilder {
    /// Ascending, and each once.
    smallest: Vec<u64>,
    /// What is not below it is not among the smallest.
    bound: u64,
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
        Self { smallest: Vec::with_capacity(HASHES_MAX + 1), bound: u64::MAX }
    }
}

impl SketchBuilder {
    /// Adds the hash of a key.
    ///
    /// Cost: one comparison for nearly all of many hashes.
    #[inline]
    pub fn add(&mut self, hash: u64) {
        if hash < self.bound {
            self.insert(hash);
        }
    }

    #[cold]
    fn insert(&mut self, hash: u64) {
        let Err(place) = self.smallest.binary_search(&hash) else { return };
        self.smallest.insert(place, hash);
        self.smallest.truncate(HASHES_MAX);
        if self.smallest.len() == HASHES_MAX {
            self.bound = self.smallest[HASHES_MAX - 1];
        }
    }

    /// The sample of what was added.
    #[must_use]
    pub fn finish(&self) -> KeySketch {
        let is_sorted = self.smallest.is_sorted_by(|a, b| a < b);
        assert!(is_sorted && self.smallest.len() <= HASHES_MAX, "no sample: {:?}", self.smallest);
        KeySketch { hashes: self.smallest.as_slice().into() }
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

    /// Appends the encoding to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.hashes.len() as u64);
        let mut before = 0;
        for &hash in &self.hashes {
            put_varint(out, hash - before);
            before = hash;
        }
    }

    /// Reads an encoding.
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
        Ok(Self { hashes: hashes.into() })
    }
}

#[cfg(test)]
mod tests;
