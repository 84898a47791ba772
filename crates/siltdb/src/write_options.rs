//! Options of a single write.

use siltdb_engine::options::Durability;

/// Options of one write, for the methods that end in `_with`.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    pub(crate) durability: Option<Durability>,
}

impl WriteOptions {
    /// The defaults: the durability of the database's options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The durability of this write. Default: that of
    /// [`Options::durability`](crate::Options::durability).
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }
}
