//! Values as streams.

use super::Engine;
use crate::{catalog::family::FamilyData, options::Durability, write::streams};
use siltdb_base::error::Result;
use std::io;

impl Engine {
    /// Puts a value that is given as a stream: its key, its length in bytes, and its expiry.
    ///
    /// # Errors
    /// As [`streams::put_stream`].
    pub fn put_stream(
        &self,
        family: &FamilyData,
        key: &[u8],
        bytes: u64,
        expiry_ms: Option<u64>,
        value: &mut dyn io::Read,
        durability: Option<Durability>,
    ) -> Result<()> {
        let durability = durability.unwrap_or(self.database().options.durability);
        streams::put_stream(self.writable()?, family, key, bytes, expiry_ms, value, durability)
    }
}
