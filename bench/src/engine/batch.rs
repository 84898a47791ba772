//! Operations that an engine commits together.

use super::Result;
use crate::{keys::KeyMaker, values::ValueMaker};

/// One operation of a batch.
#[derive(Clone, Copy, Debug)]
pub enum Write<'a> {
    /// Sets a value.
    Put {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// Deletes a key.
    Delete {
        /// The key.
        key: &'a [u8],
    },
}

/// A write to make: id and version; version 0 deletes.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    /// The id of the key.
    pub id: u32,
    /// The version of the value.
    pub version: u32,
}

/// Operations to commit together. Keys and values are made on demand, so that an engine copies them
/// only once, into its own batch.
#[derive(Clone, Debug)]
pub struct Batch {
    keys: KeyMaker,
    values: ValueMaker,
    pending: Vec<Pending>,
}

impl Batch {
    /// An empty batch with these makers of keys and values.
    #[must_use]
    pub fn new(keys: KeyMaker, values: ValueMaker) -> Self {
        Self { keys, values, pending: Vec::new() }
    }

    /// Adds an operation.
    #[inline]
    pub fn push(&mut self, pending: Pending) {
        self.pending.push(pending);
    }

    /// The number of operations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Removes all operations.
    pub fn clear(&mut self) {
        self.pending.clear();
    }

    /// Passes each operation in turn to `seen`.
    ///
    /// # Errors
    /// The first error that `seen` returns.
    #[inline]
    pub fn for_each(&mut self, mut seen: impl FnMut(Write<'_>) -> Result<()>) -> Result<()> {
        for pending in &self.pending {
            let key = self.keys.key(pending.id);
            match pending.version {
                0 => seen(Write::Delete { key })?,
                version => {
                    seen(Write::Put { key, value: self.values.value(pending.id, version) })?;
                }
            }
        }
        Ok(())
    }
}
