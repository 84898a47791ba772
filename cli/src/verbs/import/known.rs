//! What an import knows of the keys of its family, so that it asks the family for few of them.
//!
//! No other writer has the database. So a key is new if it is above all keys that the family had
//! before and was not imported since; the imported ones are in a filter that has no false
//! negatives. Its false positives cost a question, never a wrong answer.

use super::tally::Before;
use siltdb::{Family, Read, Result};
use xxhash_rust::xxh3::xxh3_64;

#[cfg(test)]
mod tests;

/// Words of the filter, a power of two: 8 MiB, of which each page is taken when it is first used.
/// Up to 8 million keys, at 8 bits each, one in twenty new keys is asked for.
const WORDS: usize = 1 << 20;

/// Bits of a word that a key sets.
const BITS: u32 = 4;

/// What an import knows of the keys of its family.
pub struct Known {
    /// The greatest key that the family had before.
    greatest_before: Option<Vec<u8>>,
    /// The greatest key that it has.
    greatest: Option<Vec<u8>>,
    /// The keys imported since: each sets bits of one word.
    imported: Vec<u64>,
}

impl Known {
    /// Begins with the keys that `family` has.
    ///
    /// # Errors
    /// Those of the database.
    pub fn of(family: &Family) -> Result<Self> {
        let greatest = family.last()?.map(|(key, _)| key.to_vec());
        Ok(Self { greatest_before: greatest.clone(), greatest, imported: vec![0; WORDS] })
    }

    /// Whether the family had a key when the import began.
    pub fn before(&self) -> Before {
        if self.greatest_before.is_none() { Before::Empty } else { Before::Keys }
    }

    /// Whether `family` has `key`, which counts as imported from now on.
    ///
    /// # Errors
    /// Those of the database.
    pub fn import(&mut self, family: &Family, key: &[u8]) -> Result<bool> {
        let hash = xxh3_64(key);
        let word = &mut self.imported[hash as usize % WORDS];
        // The low bits of the hash choose the word, and the high ones the bits in it.
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

    /// No key that was imported is above `key`, or above one for which this was called before.
    pub fn raise(&mut self, key: &[u8]) {
        if self.greatest.as_deref().is_none_or(|greatest| key > greatest) {
            self.greatest = Some(key.to_vec());
        }
    }
}
