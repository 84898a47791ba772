//! Bounds the memory in which values are compressed before they are separated.
//!
//! Each caller that commits or ingests compresses its own values, so the number of callers would
//! multiply that memory, and a high level of Zstandard takes hundreds of MiB for one long value.
//!
//! - What a value may take has a share of the budget. A level of Zstandard whose encoder would take
//!   more is lowered to the highest one that fits. It does not change how values are read.
//! - What all values take is charged before it is allocated. Beyond the share callers wait for each
//!   other; one that takes more by itself, as for the output of a long value, goes alone.
//! - Compressors are kept for the next values, charged and within the share. Allocated for each
//!   value they would leave the allocator with as much freed memory for each thread.
//!
//! Who has a turn waits for no other caller: a lock of a transaction is taken before, and the write
//! of the value waits for the system alone.

use siltdb_base::{
    budget::{Budget, Charge, Part},
    seeded_fault,
    sync::lock,
};
use siltdb_disk::{
    cache::Cache,
    compress::{Codec, Compressor},
    options::Compression,
};
use std::{
    fmt,
    sync::{Arc, Condvar, Mutex, PoisonError},
};

/// The part of the budget that values may take while they are compressed.
const SHARE: usize = 8;

/// A value that takes no more than this is charged and waits for no turn, in bytes.
const SMALL_BYTES: usize = 64 << 10;

/// The turns of those that compress values of one database.
pub struct CompressionTurns {
    budget: Arc<Budget>,
    cache: Arc<Cache>,
    state: Mutex<State>,
    returned: Condvar,
}

/// Who has what of the share.
struct State {
    /// Bytes of those that have a turn.
    taken: usize,
    /// The idle compressors, the last used one last.
    idle: Vec<(Compression, Compressor)>,
    /// The bytes of the idle ones.
    idle_charge: Charge,
}

impl State {
    /// The idle compressor for `wanted` that was used last.
    fn take_idle(&mut self, wanted: Compression) -> Option<Compressor> {
        let at = self.idle.iter().rposition(|(compression, _)| *compression == wanted)?;
        Some(self.idle.remove(at).1)
    }

    /// Drops idle compressors, the oldest first, until all take at most `bytes_max`.
    fn fit(&mut self, bytes_max: usize) {
        let bytes_of = |idle: &[(_, Compressor)]| -> usize {
            idle.iter().map(|(_, compressor)| compressor.memory_bytes()).sum()
        };
        while !self.idle.is_empty() && bytes_of(&self.idle) > bytes_max {
            self.idle.remove(0);
        }
        self.idle_charge.resize(bytes_of(&self.idle));
    }
}

impl fmt::Debug for CompressionTurns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.state);
        f.debug_struct("CompressionTurns")
            .field("taken", &state.taken)
            .field("idle", &state.idle.len())
            .finish_non_exhaustive()
    }
}

/// The right to take memory for one value, and the compressor for it. Both are given back on drop.
pub struct CompressionTurn<'t> {
    turns: &'t CompressionTurns,
    compression: Compression,
    /// `None` only while it is dropped.
    compressor: Option<Compressor>,
    /// What it has of `taken`.
    taken: usize,
    charge: Charge,
}

impl CompressionTurns {
    /// No turn is taken.
    #[must_use]
    pub fn new(budget: &Arc<Budget>, cache: &Arc<Cache>) -> Self {
        let idle_charge = Charge::new(budget, Part::Jobs, 0);
        let state = State { taken: 0, idle: Vec::new(), idle_charge };
        let (budget, cache) = (Arc::clone(budget), Arc::clone(cache));
        Self { budget, cache, state: Mutex::new(state), returned: Condvar::new() }
    }

    /// Bytes that values may take together.
    fn share(&self) -> usize {
        self.budget.limit() / SHARE
    }

    /// Waits for a turn to compress a value of `raw_bytes`.
    pub fn begin(&self, wanted: Compression, raw_bytes: usize) -> CompressionTurn<'_> {
        let share = self.share();
        let compression = wanted.within(raw_bytes, share);
        let bytes = compression.working_bytes(raw_bytes);
        let bytes = if seeded_fault!("value_compressed_uncharged") { 0 } else { bytes };
        if bytes <= SMALL_BYTES {
            let charge = Charge::new(&self.budget, Part::Jobs, bytes);
            let compressor = Some(Compressor::new(compression));
            return CompressionTurn { turns: self, compression, compressor, taken: 0, charge };
        }
        let is_full = |state: &mut State| state.taken > 0 && state.taken + bytes > share;
        let state = self.returned.wait_while(lock(&self.state), is_full);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        let kept = state.take_idle(compression);
        // A kept one may have grown with a longer value.
        let taken = bytes.max(kept.as_ref().map_or(0, Compressor::memory_bytes));
        state.taken += taken;
        let left = share.saturating_sub(state.taken);
        state.fit(left);
        drop(state);
        let charge = Charge::new(&self.budget, Part::Jobs, taken);
        self.cache.fit();
        let compressor = Some(kept.unwrap_or_else(|| Compressor::new(compression)));
        CompressionTurn { turns: self, compression, compressor, taken, charge }
    }
}

impl CompressionTurn<'_> {
    /// The payload for `raw` and how it is encoded.
    pub fn compress<'a>(&'a mut self, raw: &'a [u8]) -> (Codec, &'a [u8]) {
        match &mut self.compressor {
            Some(compressor) => compressor.compress(raw),
            None => (Codec::Raw, raw),
        }
    }
}

impl Drop for CompressionTurn<'_> {
    fn drop(&mut self) {
        let compressor = self.compressor.take();
        if self.taken == 0 {
            return;
        }
        self.charge.resize(0);
        let mut state = lock(&self.turns.state);
        state.taken -= self.taken;
        state.idle.extend(compressor.map(|compressor| (self.compression, compressor)));
        let left = self.turns.share().saturating_sub(state.taken);
        state.fit(left);
        drop(state);
        // Those that wait need different amounts.
        self.turns.returned.notify_all();
    }
}

#[cfg(test)]
mod tests;
