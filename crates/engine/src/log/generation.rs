//! A generation: one or more log segments and the memtables that were written under them.
//!
//! A generation is begun, frozen, flushed and retired as a whole. The trees hold its memtables,
//! under the generation's number.

use crate::log::{pins::SegmentSlot, wal::Segment};
use siltdb_base::id::SequenceNumber;
use siltdb_tree::{
    memory::Generation as GenerationNumber, rewrite::flush::Flush, rewrite::progress::Progress,
};
use std::sync::Arc;

/// A frozen generation that waits for its flush.
#[derive(Clone, Debug)]
pub struct Frozen {
    /// The number of its memtables in the trees.
    pub number: GenerationNumber,
    /// Its segments; retired when it is flushed.
    pub segments: Vec<SegmentSlot>,
    /// The sequence number of its last operation. Once this is published, no thread writes to its
    /// memtables.
    pub last: SequenceNumber,
    /// The approximate size of its memtables, in bytes.
    pub bytes: u64,
    /// The progress of its flush.
    pub progress: Arc<Progress>,
}

/// What a flushed generation still keeps in memory.
#[derive(Debug)]
pub struct Flushed {
    /// The memtables.
    pub flush: Arc<Flush>,
    /// Those of its segments that are still open.
    pub segments: Vec<Arc<Segment>>,
}
