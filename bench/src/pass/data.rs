//! Keys, values and families of a workload; each thread clones them.

use crate::{
    engine::{Batch, Result, Session},
    job::Work,
    keys::KeyMaker,
    values::ValueMaker,
};

/// Makes the keys and values of a thread.
#[derive(Clone, Debug)]
pub struct Data {
    /// Makes keys.
    pub keys: KeyMaker,
    /// Makes values.
    pub values: ValueMaker,
    /// Number of families; an id lies in the family that is the id modulo that number.
    pub families: u32,
}

impl Data {
    /// The makers that a workload needs.
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

    /// Makes a session use the family of an id.
    ///
    /// # Errors
    /// Errors of the engine.
    #[inline]
    pub fn select<S: Session>(&self, session: &mut S, id: u32) -> Result<()> {
        if self.families > 1 { session.select_family(id % self.families) } else { Ok(()) }
    }
}
