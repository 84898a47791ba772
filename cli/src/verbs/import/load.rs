//! A thread that loads chunks of sorted records while the caller reads the next ones.
//!
//! It reads no input, and knows nothing of the database but the function it calls.

use super::chunk::{Chunk, Placed};
use crate::failure::{Failure, Result};
use crate::formats::record::Record;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

#[cfg(test)]
mod tests;

/// Chunks that are read and not loaded. More than one, because the last record of a table takes
/// longer than the others: the table is read back.
const CHUNKS_AHEAD_MAX: usize = 8;

/// A callback for a record.
pub type OnRecord<'a> = dyn FnMut(&Record) -> siltdb::Result<()> + Send + 'a;

/// An error of the function that loads a record.
#[derive(Debug)]
pub struct Refused {
    /// The line of the record.
    pub line: u64,
    /// What the function returned.
    pub error: siltdb::Error,
}

/// The thread that loads, as the one that reads sees it.
pub struct Loader {
    filled: SyncSender<Chunk>,
    emptied: Receiver<Chunk>,
}

impl Loader {
    /// Hands over a chunk to be loaded, and returns one to be filled. It waits while too many are
    /// ahead. `None` after the loader has failed.
    pub fn exchange(&self, chunk: Chunk) -> Option<Chunk> {
        self.filled.send(chunk).ok()?;
        Some(self.emptied.try_recv().unwrap_or_default())
    }
}

/// Runs `read`, while another thread calls `put` with the records of the chunks that it hands over.
/// Returns the results of both.
///
/// # Errors
/// [`Failure::File`] if the thread cannot be started.
pub fn while_reading<T>(
    put: &mut OnRecord<'_>,
    read: impl FnOnce(&Loader) -> T,
) -> Result<(T, std::result::Result<(), Refused>)> {
    let (filled, to_load) = sync_channel(CHUNKS_AHEAD_MAX);
    // It never fills: the chunks are those on their way to the loader, and one at each end.
    let (to_fill, emptied) = sync_channel(CHUNKS_AHEAD_MAX + 2);
    let loader = Loader { filled, emptied };
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("load".to_owned());
        let thread = thread.spawn_scoped(scope, move || load(put, &to_load, &to_fill));
        let thread = thread.map_err(|error| Failure::file("start", "a thread", error))?;
        let result = read(&loader);
        // The loader ends when it has loaded what was handed over.
        drop(loader);
        match thread.join() {
            Ok(loaded) => Ok((result, loaded)),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn load(
    put: &mut OnRecord<'_>,
    to_load: &Receiver<Chunk>,
    to_fill: &SyncSender<Chunk>,
) -> std::result::Result<(), Refused> {
    for chunk in to_load {
        for Placed { record, line, .. } in chunk.records() {
            put(record).map_err(|error| Refused { line: *line, error })?;
        }
        // It fails once everything was read.
        let _ = to_fill.try_send(chunk);
    }
    Ok(())
}
