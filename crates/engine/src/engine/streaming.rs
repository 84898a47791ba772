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
        stored: (&[u8], u64, Option<u64>),
        value: &mut dyn io::Read,
        durability: Option<Durability>,
    ) -> Result<()> {
        let database = self.writable()?;
        let durability = durability.unwrap_or(database.options.durability);
        streams::put_stream(database, family, stored, value, durability)
    }
}
