//! The feed of a follower: the commits of a log that another process writes, in their order.
//!
//! It keeps no log file. What the writer has flushed and reused before it was read is reported as a
//! range of sequence numbers.

use crate::follow::{
    doubts::Doubts,
    log_tail::{LogTail, TailEnd, Taken, lost_commits},
};
use siltdb_base::{
    clock::Clock,
    error::{ErrorKind, Result},
    fs::{File, Fs},
    id::SequenceNumber,
};
use siltdb_engine::{
    blobs::{Blobs, KnownBlobs},
    catalog::log_state::LogState,
    catalog::manifest::{ManifestEnd, read_edits},
    open::{blob_loss::lost_value, manifest_watch::ManifestWatch},
    read::feed::{FeedItem, item, not_retained, unlogged},
};
use std::{collections::VecDeque, path::PathBuf, sync::Arc, time::Duration};

/// The size of the commits that are read ahead, in bytes, from which on no further one is.
const AHEAD_BYTES: usize = 1 << 20;

/// The pause between two looks at the log.
const PAUSE: Duration = Duration::from_millis(2);

/// The commits of a log that another process writes.
#[derive(Debug)]
pub struct LogFeed {
    clock: Arc<dyn Clock>,
    watch: ManifestWatch,
    log: LogState,
    blobs: Blobs,
    tail: LogTail,
    doubts: Doubts,
    ahead: VecDeque<FeedItem>,
    /// The sequence number behind those in `ahead`.
    next: SequenceNumber,
}

impl LogFeed {
    /// A feed of the commits from `first` on; with `None`, of all commits that recovery would need.
    ///
    /// # Errors
    /// `NotFound`, if the log does not reach back that far; as [`LogFeed::next`].
    pub fn new(
        directory: Arc<dyn Fs>,
        clock: Arc<dyn Clock>,
        first: Option<SequenceNumber>,
    ) -> Result<Self> {
        let mut feed = Self {
            clock,
            watch: ManifestWatch::new(Arc::clone(&directory)),
            log: LogState::default(),
            blobs: Blobs::new(Arc::clone(&directory), KnownBlobs::Any),
            tail: LogTail::new(directory),
            doubts: Doubts::default(),
            ahead: VecDeque::new(),
            next: SequenceNumber(1),
        };
        feed.read_manifest()?;
        let begin = feed.tail.begin(&feed.log)?;
        let oldest = begin.map_or(feed.log.last_sequence.next(), |place| place.next);
        feed.next = first.map_or(oldest, |first| first.max(SequenceNumber(1)));
        if feed.next < oldest { Err(not_retained(feed.next, oldest)) } else { Ok(feed) }
    }

    /// The sequence number at which a later feed can continue.
    #[must_use]
    pub fn position(&self) -> SequenceNumber {
        self.ahead.front().map_or(self.next, |item| item.first)
    }

    /// The next commit; `None` if none came for `timeout`.
    ///
    /// # Errors
    /// `Corruption`, with file and offset; `Poisoned`, if the database has lost commits that were
    /// returned; `NotFound`, if it was removed; `Unsupported`; the system's.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<FeedItem>> {
        let mut left = timeout;
        loop {
            if let Some(item) = self.ahead.pop_front() {
                return Ok(Some(item));
            }
            self.read_manifest()?;
            self.read_log()?;
            if self.ahead.is_empty() {
                if left.is_zero() {
                    return Ok(None);
                }
                let pause = PAUSE.min(left);
                self.clock.sleep(pause);
                left -= pause;
            }
        }
    }

    fn read_manifest(&mut self) -> Result<()> {
        let Some(log) = self.watch.refresh(&mut read_log_state)? else { return Ok(()) };
        if log.first < self.log.first || log.last_sequence < self.log.last_sequence {
            return Err(lost_commits());
        }
        self.log = log;
        Ok(())
    }

    /// Reads ahead, up to [`AHEAD_BYTES`].
    fn read_log(&mut self) -> Result<()> {
        let (ahead, next, blobs) = (&mut self.ahead, &mut self.next, &self.blobs);
        let mut bytes = 0;
        let end = self.tail.advance(&self.log, &mut |record| {
            let (first, after) = (record.header.first_sequence, record.header.next_sequence());
            if after > *next {
                if let Some(error) = lost_value(record, |pointer| blobs.verify(pointer))? {
                    return Ok(Taken::NotWhole(error));
                }
                let item = match item(record, blobs) {
                    // The writer has removed the file meanwhile.
                    Err(error) if error.kind() == ErrorKind::NotFound => {
                        return Ok(Taken::NotWhole(error));
                    }
                    item => item?,
                };
                if first > *next {
                    ahead.push_back(unlogged(*next, SequenceNumber(first.0 - 1)));
                }
                ahead.extend(item);
                let newest = ahead.iter().rev().take(2);
                let is_sorted = newest.is_sorted_by(|newer, older| older.last < newer.first);
                assert!(is_sorted, "a feed has a commit twice, or out of order");
                *next = after;
                bytes += record.payload.len();
            }
            let is_enough = bytes >= AHEAD_BYTES;
            Ok(if is_enough { Taken::Last } else { Taken::Next })
        })?;
        let last = self.log.last_sequence;
        if self.tail.place().is_none() && last >= self.next {
            // The log was flushed and reused.
            self.ahead.push_back(unlogged(self.next, last));
            self.next = last.next();
        }
        match end {
            TailEnd::Doubtful(doubt) if self.ahead.is_empty() => self.doubts.note(doubt),
            _ => {
                self.doubts.clear();
                Ok(())
            }
        }
    }
}

/// The state of the log in a manifest.
fn read_log_state(path: PathBuf, file: Arc<dyn File>) -> Result<(LogState, ManifestEnd)> {
    let mut log = LogState::default();
    let end = read_edits(path, file, &mut |edit| {
        log.note(&edit);
        Ok(())
    })?;
    Ok((log, end))
}
