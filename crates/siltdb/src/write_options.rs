//! What a single write may decide for itself.

use siltdb_engine::options::Durability;

/// How one write differs from the others.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    pub(crate) durability: Option<Durability>,
}

impl WriteOptions {
    /// As the database was opened.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// When this write counts as done.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }
}
