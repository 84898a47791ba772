//! How the blocks of a table are written, compared with how the options want them.
//!
//! It reads nothing but what an open table has in memory.

use crate::{options::TreeOptions, retain::may_copy::BlockForm};
use siltdb_base::seeded_fault;
use siltdb_disk::{
    options::{Compression, TableOptions},
    table::TableScan,
};

/// Raw bytes of a table, for each byte of a dictionary, from which on the lack of one counts: a
/// smaller table has too few samples to train it.
const RAW_PER_DICTIONARY_BYTE: u64 = 100;

/// How the blocks of a table are written.
#[derive(Clone, Copy, Debug)]
pub struct TableForm {
    /// Where it saved enough.
    pub compression: Compression,
    /// Whether they need the dictionary of the table.
    pub has_dictionary: bool,
    raw_bytes: u64,
}

impl TableForm {
    /// That of `table`: as it says, or else as its family's options said.
    #[must_use]
    pub fn of(table: &TableScan) -> Self {
        let by_origin = || TreeOptions::stored_compression(&table.origin()?.options);
        Self {
            compression: table.stated_compression().or_else(by_origin).unwrap_or_default(),
            has_dictionary: table.has_dictionary(),
            raw_bytes: table.meta().logical_bytes,
        }
    }

    /// What its blocks are to an output that is written as `wanted`.
    #[must_use]
    pub fn block_form(&self, wanted: &TableOptions) -> BlockForm {
        // The suite must notice an engine that does not look at the dictionary: this is that one.
        if self.has_dictionary && seeded_fault!("dictionary_of_another_table") {
            return BlockForm::Same;
        }
        let has_dictionary = self.has_dictionary || wanted.used_dictionary_bytes() > 0;
        match !has_dictionary && self.compression == wanted.compression {
            true => BlockForm::Same,
            false => BlockForm::Other,
        }
    }

    /// Whether a table that is written as `wanted` has the same form.
    #[must_use]
    pub fn is(&self, wanted: &TableOptions) -> bool {
        let dictionary_bytes = wanted.used_dictionary_bytes() as u64;
        let is_large = self.raw_bytes >= dictionary_bytes.saturating_mul(RAW_PER_DICTIONARY_BYTE);
        let fits = match self.has_dictionary {
            true => dictionary_bytes > 0,
            false => dictionary_bytes == 0 || !is_large,
        };
        fits && self.compression == wanted.compression
    }
}

#[cfg(test)]
mod tests;
