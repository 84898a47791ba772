//! Keys, values and families of a workload, to be cloned by each thread.

use crate::{
    engine::{Batch, Result, Session},
    job::Work,
    keys::KeyMaker,
    values::ValueMaker,
};

/// Makes what a thread writes and asks for.
#[derive(Clone, Debug)]
pub struct Data {
    /// Makes keys.
    pub keys: KeyMaker,
    /// Makes values.
    pub values: ValueMaker,
    /// Families; an id lies in the one that is the id modulo their number.
    pub families: u32,
}

impl Data {
    /// What a workload needs.
    #[must_use]
    pub fn new(work: &Work, families: u32) -> Self {
        Self {
            keys: KeyMaker::new(work.key_style, work.key_bytes),
            values: ValueMaker::new(work.values()),
            families,
        }
    }

    /// An empty batch.
    #[must_use]
    pub fn batch(&self) -> Batch {
        Batch::new(self.keys.clone(), self.values.clone())
    }

    /// Lets a session use the family of an id.
    ///
    /// # Errors
    /// The engine's.
    #[inline]
    pub fn select<S: Session>(&self, session: &mut S, id: u32) -> Result<()> {
        if self.families > 1 { session.select_family(id % self.families) } else { Ok(()) }
    }
}
