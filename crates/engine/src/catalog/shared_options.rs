//! Options that many families have in common, so that they are decoded and in memory once.
//!
//! Clones and branches have the options of their source. It neither decodes nor changes options.

use siltdb_base::{error::Result, sync::lock};
use siltdb_tree::options::TreeOptions;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
};

/// The options in use, by their encoding.
///
/// # Thread safety
/// Any thread may call it.
#[derive(Debug, Default)]
pub struct SharedOptions {
    known: Mutex<HashMap<Box<[u8]>, Weak<TreeOptions>>>,
}

impl SharedOptions {
    /// The options that `bytes` encode: those of a family that has the same ones, or else what
    /// `decode` makes of them.
    ///
    /// The encoding has names of code alone, and two operators may have one name. So options with
    /// code stay with their family.
    ///
    /// # Errors
    /// Those of `decode`.
    pub fn share(
        &self,
        bytes: &[u8],
        decode: impl FnOnce() -> Result<TreeOptions>,
    ) -> Result<Arc<TreeOptions>> {
        let mut known = lock(&self.known);
        if let Some(found) = known.get(bytes).and_then(Weak::upgrade) {
            return Ok(found);
        }
        let options = Arc::new(decode()?);
        if options.merge_operator.is_some() || options.compaction_filter.is_some() {
            return Ok(options);
        }
        // Options that no family has any more are dropped when the map has doubled, so that this
        // costs O(1) for each family.
        if known.len() == known.capacity() {
            known.retain(|_, options| options.strong_count() > 0);
        }
        known.insert(bytes.into(), Arc::downgrade(&options));
        Ok(options)
    }
}

#[cfg(test)]
mod tests;
