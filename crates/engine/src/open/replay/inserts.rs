//! Inserts replayed entries into memtables, by several threads if the log is long.
//!
//! It knows no records, families or generations: each entry comes with its memtable. Entries may be
//! inserted in any order, because each has a sequence number of its own.
//!
//! # Seeded fault
//! `last_piece_not_inserted`: the entries behind the last full piece are forgotten.

use siltdb_base::{
    id::SequenceNumber,
    key::{Entry, EntryKind},
    seeded_fault,
    sync::lock,
};
use siltdb_memtable::memtable::Memtable;
use std::{
    panic::resume_unwind,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread::{self, Builder, JoinHandle, available_parallelism},
};

/// Keys and values of a piece, in bytes. `malloc` maps longer buffers anew each time.
const PIECE_BYTES: usize = 64 << 10;
/// The most entries of a piece.
const PIECE_ENTRIES: usize = 2048;
/// The most entries handed to a memtable at once.
const ENTRIES_AT_ONCE: usize = 512;
/// How many pieces the caller inserts before it starts threads: 1 MiB. A shorter log is replayed in
/// less time than threads take to start.
const PIECES_ALONE: u32 = 16;
/// How many pieces wait for each thread.
const PIECES_WAITING: usize = 2;

/// Entries on their way into memtables.
#[derive(Debug)]
pub(super) struct Inserts {
    /// What is being collected.
    piece: Piece,
    /// The most threads beside the caller.
    threads_max: usize,
    /// How many pieces the caller has inserted.
    inserted: u32,
    helpers: Option<Helpers>,
}

impl Inserts {
    /// No entries yet. Of a long log, up to `threads` threads insert beside the caller, at most one
    /// for each further core.
    pub(super) fn new(threads: usize) -> Self {
        Self { piece: Piece::default(), threads_max: threads, inserted: 0, helpers: None }
    }

    /// Inserts an entry into `memtable`, before [`Inserts::finish`] returns.
    ///
    /// Cost: a copy of key and value and, of the caller's share of the entries, the insert.
    pub(super) fn add(&mut self, memtable: &Arc<Memtable>, entry: Entry<'_>) {
        // A copy of a large value would be memory for little.
        if entry.key.len() + entry.value.len() >= PIECE_BYTES {
            memtable.insert(entry);
            return;
        }
        self.piece.add(memtable, entry);
        if self.piece.bytes.len() >= PIECE_BYTES || self.piece.entries.len() >= PIECE_ENTRIES {
            self.pass_on();
        }
    }

    /// Waits until all entries are in their memtables.
    pub(super) fn finish(mut self) {
        if !seeded_fault!("last_piece_not_inserted") {
            self.piece.insert();
        }
        drop(self.helpers.take());
    }

    /// Gives the piece to a thread, or inserts it here if all have enough.
    fn pass_on(&mut self) {
        if self.helpers.is_none() && self.threads_max > 0 && self.inserted >= PIECES_ALONE {
            // The system is not asked for its cores where no thread is needed.
            let others = available_parallelism().map_or(0, |cores| cores.get() - 1);
            self.helpers = Some(Helpers::start(self.threads_max.min(others)));
        }
        if let Some(helpers) = &self.helpers {
            match helpers.take(std::mem::take(&mut self.piece)) {
                None => return,
                Some(piece) => self.piece = piece,
            }
        }
        self.piece.insert();
        self.piece.clear();
        self.inserted += 1;
    }
}

/// Entries with their memtables.
#[derive(Debug, Default)]
struct Piece {
    /// The key and the value of each entry, one after the other.
    bytes: Vec<u8>,
    entries: Vec<PieceEntry>,
    /// The memtables of the entries, in their order.
    runs: Vec<Run>,
}

/// Entries of a piece that go to the same memtable.
#[derive(Debug)]
struct Run {
    memtable: Arc<Memtable>,
    /// How many there are.
    entries: usize,
}

/// An entry whose key and value lie in the bytes of its piece.
#[derive(Debug)]
struct PieceEntry {
    sequence: SequenceNumber,
    kind: EntryKind,
    key_bytes: u32,
    value_bytes: u32,
}

impl Piece {
    fn add(&mut self, memtable: &Arc<Memtable>, entry: Entry<'_>) {
        match self.runs.last_mut() {
            Some(run) if Arc::ptr_eq(&run.memtable, memtable) => run.entries += 1,
            _ => self.runs.push(Run { memtable: Arc::clone(memtable), entries: 1 }),
        }
        self.bytes.extend_from_slice(entry.key);
        self.bytes.extend_from_slice(entry.value);
        // Both are shorter than a piece.
        self.entries.push(PieceEntry {
            sequence: entry.sequence,
            kind: entry.kind,
            key_bytes: entry.key.len() as u32,
            value_bytes: entry.value.len() as u32,
        });
    }

    fn insert(&self) {
        let (mut bytes, mut left) = (&self.bytes[..], &self.entries[..]);
        let mut entries = Vec::with_capacity(ENTRIES_AT_ONCE.min(self.entries.len()));
        for run in &self.runs {
            let (of_run, behind) = left.split_at(run.entries);
            left = behind;
            for some in of_run.chunks(ENTRIES_AT_ONCE) {
                entries.clear();
                for PieceEntry { sequence, kind, key_bytes, value_bytes } in some {
                    let (key, behind) = bytes.split_at(*key_bytes as usize);
                    let (value, behind) = behind.split_at(*value_bytes as usize);
                    bytes = behind;
                    entries.push(Entry { key, sequence: *sequence, kind: *kind, value });
                }
                run.memtable.insert_batch(&entries);
            }
        }
        assert!(bytes.is_empty() && left.is_empty(), "entries of a piece have no memtable");
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.runs.clear();
    }
}

/// Threads that insert pieces. Dropping it waits until all given pieces are inserted, and goes on
/// with a panic of a thread.
#[derive(Debug)]
struct Helpers {
    /// `None` while the threads end.
    pieces: Option<SyncSender<Piece>>,
    threads: Vec<JoinHandle<()>>,
}

impl Helpers {
    /// Starts up to `threads_max` threads: fewer if the system refuses.
    fn start(threads_max: usize) -> Self {
        let (sender, receiver) = sync_channel(PIECES_WAITING * threads_max);
        let pieces = Arc::new(Mutex::new(receiver));
        let start = |number| {
            let pieces = Arc::clone(&pieces);
            Builder::new().name(format!("silt-replay-{number}")).spawn(move || help(&pieces))
        };
        let threads: Vec<_> = (0..threads_max).map_while(|number| start(number).ok()).collect();
        // Without a thread no piece would be taken.
        let pieces = (!threads.is_empty()).then_some(sender);
        Self { pieces, threads }
    }

    /// Gives a piece to the threads. Returns it if they have enough.
    fn take(&self, piece: Piece) -> Option<Piece> {
        let Some(pieces) = &self.pieces else { return Some(piece) };
        match pieces.try_send(piece) {
            Ok(()) => None,
            Err(TrySendError::Full(piece) | TrySendError::Disconnected(piece)) => Some(piece),
        }
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        self.pieces = None;
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join()
                && !thread::panicking()
            {
                resume_unwind(panic);
            }
        }
    }
}

/// Inserts pieces until no more will come.
fn help(pieces: &Mutex<Receiver<Piece>>) {
    loop {
        let piece = lock(pieces).recv();
        match piece {
            Ok(piece) => piece.insert(),
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests;
