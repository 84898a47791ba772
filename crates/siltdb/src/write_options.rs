//! Options of a single write.

use crate::expiry::{Expiry, ExpiryRule};
use siltdb_base::error::{Error, Result};
use siltdb_engine::options::Durability;
use std::time::Duration;

/// Options of one write, for the methods that end in `_with`.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    pub(crate) durability: Option<Durability>,
    pub(crate) expiry_rule: ExpiryRule,
}

impl WriteOptions {
    /// The defaults: the durability of the database's options, and the expiry of
    /// [`ttl`](Self::ttl).
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The durability of this write. Default: that of
    /// [`Options::durability`](crate::Options::durability). In a transaction its commit decides.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Time after which the written value expires, in whole ms, rounded up. It counts from the
    /// call. Default: a value that replaces another by an atomic operation on one key keeps the
    /// expiry of that one; any other gets the [TTL](crate::FamilyOptions::ttl) of its family, if it
    /// has one. What writes no value refuses it with `InvalidArgument`.
    #[must_use]
    pub fn ttl(mut self, time: Duration) -> Self {
        self.expiry_rule = ExpiryRule::For(time);
        self
    }

    /// The expiry of the written value, whatever it replaces and whatever the TTL of its family. As
    /// [`ttl`](Self::ttl), but absolute; `Expiry::Never` removes one.
    #[must_use]
    pub fn expiry(mut self, expiry: Expiry) -> Self {
        self.expiry_rule = ExpiryRule::Is(expiry.ms());
        self
    }

    /// Refuses an expiry, for a write that puts no value.
    pub(crate) fn check_no_expiry(&self) -> Result<()> {
        match self.expiry_rule {
            ExpiryRule::Unsaid => Ok(()),
            _ => Err(Error::invalid("the write puts no value that could expire")
                .with_hint("leave `ttl` and `expiry` out; in a batch, `put_for` gives an expiry")),
        }
    }
}
