//! A generation: the log segments and the memtables that were written under them (DESIGN D1).
//!
//! It is born, frozen, flushed and retired as a whole. The memtables themselves are found in the
//! trees, by the generation's number.

use crate::log::{pins::SegmentSlot, wal::Segment};
use siltdb_base::id::SequenceNumber;
use siltdb_tree::{
    memory::Generation as GenerationNumber, rewrite::flush::Flush, rewrite::progress::Progress,
};
use std::sync::Arc;

/// A frozen generation that waits for its flush.
#[derive(Clone, Debug)]
pub struct Frozen {
    /// Names its memtables in the trees.
    pub number: GenerationNumber,
    /// Its segments; retired when it is flushed.
    pub segments: Vec<SegmentSlot>,
    /// Its last operation; once this is published nobody writes to the memtables any more.
    pub last: SequenceNumber,
    /// Roughly what its memtables hold, in bytes.
    pub bytes: u64,
    /// How far its flush is.
    pub progress: Arc<Progress>,
}

/// What a generation that was flushed still keeps in memory.
#[derive(Debug)]
pub struct Flushed {
    /// Holds the memtables.
    pub flush: Arc<Flush>,
    /// Those of its segments that are still open.
    pub segments: Vec<Arc<Segment>>,
}
