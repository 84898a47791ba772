//! The log and the order of commits: segments, the sequencer, the publisher, and the frozen
//! generations that wait for a flush.

pub mod pins;
pub mod wal;
pub mod generation;
pub mod publish;
pub mod sequencer;
pub mod sync_timer;

use crate::{
    kit::signal::Signal,
    log::{
        generation::Frozen,
        publish::Publisher,
        sequencer::{Sequencer, SharedSequencer},
        sync_timer::SyncTimer,
        wal::Wal,
    },
};
use siltdb_base::{id::SequenceNumber, sync::lock};
use std::{
    collections::VecDeque,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// The log of a database.
///
/// Lock order: `sequencer`, then `frozen`.
#[derive(Debug)]
pub struct Log {
    /// The segments and their syncs.
    pub wal: Wal,
    /// The end of the log, where commits get their place.
    pub sequencer: SharedSequencer,
    /// The published sequence number, up to which readers see.
    pub publisher: Publisher,
    /// Frozen generations that wait for their flush, oldest first.
    pub frozen: Mutex<VecDeque<Frozen>>,
    /// When the log must be synced next.
    pub sync_timer: SyncTimer,
    /// Wakes the thread that prepares the log: something may be due.
    pub work: Signal,
    /// Wakes the thread that syncs: a sync may be due sooner than before.
    pub sync_work: Signal,
    /// Records that were replayed at open.
    pub replayed_records: u64,
    /// The sequence number of the last commit that is not in the log.
    unlogged_last: AtomicU64,
}

impl Log {
    /// The log of a database that was just opened. Its last sync counts as made at `now_ns`.
    #[must_use]
    pub fn new(wal: Wal, sequencer: Sequencer, publisher: Publisher, now_ns: u64) -> Self {
        Self {
            wal,
            sequencer: SharedSequencer::new(sequencer),
            publisher,
            frozen: Mutex::default(),
            sync_timer: SyncTimer::new(now_ns),
            work: Signal::default(),
            sync_work: Signal::default(),
            replayed_records: 0,
            unlogged_last: AtomicU64::new(0),
        }
    }

    /// Adds the result of the replay: its number of records, and the generations they were frozen
    /// in.
    #[must_use]
    pub fn with_replayed(self, records: u64, frozen: VecDeque<Frozen>) -> Self {
        Self { frozen: Mutex::new(frozen), replayed_records: records, ..self }
    }

    /// The approximate size of the memtables of the active generation, in bytes.
    #[must_use]
    pub fn active_bytes(&self) -> u64 {
        lock(&self.sequencer).active_bytes()
    }

    /// The approximate size of all memtables, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let active_bytes = self.active_bytes();
        let frozen = lock(&self.frozen);
        active_bytes + frozen.iter().map(|frozen| frozen.bytes).sum::<u64>()
    }

    /// Notes that a commit up to `last` is in memory alone. To be called before it is published.
    pub fn note_unlogged(&self, last: SequenceNumber) {
        let published = self.publisher.published();
        assert!(
            last > published,
            "{last} would be noted as unlogged, and {published} is published"
        );
        // Relaxed, here and below: every reader of the number has waited for the publication.
        self.unlogged_last.fetch_max(last.0, Ordering::Relaxed);
    }

    /// The sequence number of the last published commit that is not in the log; 0 if there is none.
    #[must_use]
    pub fn unlogged_last(&self) -> SequenceNumber {
        SequenceNumber(self.unlogged_last.load(Ordering::Relaxed))
    }
}
