//! The keys that an import knows to be absent, so that it looks up few of them.
//!
//! No other writer has the database. So a key is new if it is above all keys that the family had
//! before, and was not imported since. A filter without false negatives has the imported keys. A
//! false positive costs a lookup, never a wrong answer.

use super::tally::Before;
use siltdb::{Family, Read, Result};
use xxhash_rust::xxh3::xxh3_64;

#[cfg(test)]
mod tests;

/// Words of the filter, a power of two: 8 MiB, whose pages are allocated at their first use. With 8
/// million keys, at 8 bits each, one in twenty new keys costs a lookup.
const WORDS: usize = 1 << 20;

/// Bits of a word that a key sets.
const BITS: u32 = 4;

/// Knowledge about the keys of a family during an import.
pub struct Known {
    /// The greatest key before the import.
    greatest_before: Option<Vec<u8>>,
    /// The greatest key now.
    greatest: Option<Vec<u8>>,
    /// The keys imported since: each sets bits of one word.
    imported: Vec<u64>,
}

impl Known {
    /// Reads the greatest key of `family`.
    ///
    /// # Errors
    /// Errors of the database.
    pub fn of(family: &Family) -> Result<Self> {
        let greatest = family.last()?.map(|(key, _)| key.to_vec());
        Ok(Self { greatest_before: greatest.clone(), greatest, imported: vec![0; WORDS] })
    }

    /// Returns whether the family had keys before the import.
    pub fn before(&self) -> Before {
        if self.greatest_before.is_none() { Before::Empty } else { Before::Keys }
    }

    /// Returns whether `family` has `key`, and records the key as imported.
    ///
    /// # Errors
    /// Errors of the database.
    pub fn import(&mut self, family: &Family, key: &[u8]) -> Result<bool> {
        let hash = xxh3_64(key);
        let word = &mut self.imported[hash as usize % WORDS];
        // The low bits of the hash select the word, the high bits the bits in it.
        let bits =
            (0..BITS).fold(0, |bits, number| bits | 1_u64 << (hash >> (40 + 6 * number) & 63));
        let may_be_imported = *word & bits == bits;
        *word |= bits;
        let is_above =
            |greatest: &Option<Vec<u8>>| greatest.as_deref().is_none_or(|greatest| key > greatest);
        if is_above(&self.greatest) || (is_above(&self.greatest_before) && !may_be_imported) {
            return Ok(false);
        }
        family.contains(key)
    }

    /// Raises the greatest key to `key` if that is greater. No imported key may be above it then.
    pub fn raise(&mut self, key: &[u8]) {
        if self.greatest.as_deref().is_none_or(|greatest| key > greatest) {
            self.greatest = Some(key.to_vec());
        }
    }
}
