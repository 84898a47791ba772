//! Work on the files of a database on demand: scrubs, compactions with progress, and pauses.

use crate::{
    db::Db,
    family::Family,
    key_range::{KeyRange, read_range},
    source::ReadPlace,
};
use siltdb_base::{cancel::CancelToken, error::Result, id::DatabaseId};
use siltdb_engine::{
    engine::pause::BackgroundPause,
    jobs::request::{
        CompactControl, CompactProgress, cancel_compactions, compact_all, compact_family,
        compact_range,
    },
    open::identity::identity,
    reports::{check_report::CheckProgress, scrub_report::ScrubReport},
};
use siltdb_services::scrub::{ScrubRequest, scrub};
use std::sync::Arc;

/// Options of a manual compaction.
#[derive(Clone, Debug, Default)]
pub struct CompactOptions {
    token: CancelToken,
}

impl CompactOptions {
    /// Returns the defaults: a compaction that no token cancels.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A token that cancels the compaction. Compactions that it has finished stay; the partial
    /// output of the running one is removed. Default: none.
    #[must_use]
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.token = token.clone();
        self
    }
}

/// Options of a scrub.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let db = siltdb::Db::open(dir.path())?;
/// use siltdb::{CancelToken, ScrubOptions};
///
/// let token = CancelToken::new();
/// let options = ScrubOptions::new().bytes_per_second(16 << 20).cancel(&token);
/// let report = db.scrub(&options, &mut |_| {})?;
/// if !report.is_complete {
///     // Another one continues behind the last table.
///     db.scrub(&options.after(report.last_table), &mut |_| {})?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ScrubOptions {
    request: ScrubRequest,
}

impl ScrubOptions {
    /// Returns the defaults: verify everything, as fast as possible.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The rate of the scrub, in bytes a second, at least 1 KiB. The scrub sleeps between blocks,
    /// after the separated values that a block points to, and reads up to 64 KiB ahead of them.
    /// Default: no limit.
    #[must_use]
    pub fn bytes_per_second(mut self, bytes: u64) -> Self {
        self.request.bytes_per_second = Some(bytes);
        self
    }

    /// Continues after the table with this uid, which is [`ScrubReport::last_table`] of an earlier
    /// scrub, also of an earlier opening. Log and manifest are then left out. `None` verifies
    /// everything, and is the default.
    #[must_use]
    pub fn after(mut self, table: Option<u64>) -> Self {
        self.request.after = table;
        self
    }

    /// A token that cancels the scrub at the next block. Default: none.
    #[must_use]
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.request.token = token.clone();
        self
    }
}

impl Db {
    /// Returns the random 128-bit identity of the database, which its `Display` writes in 32
    /// hexadecimal digits. A move, a plain copy of the directory and a [restore](Db::backup) keep
    /// it. A checkpoint, an import into a new database and a salvaged database have new ones.
    /// `None` for a database of an older version that was only read since.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let path = |name: &str| dir.path().join(name);
    /// # use siltdb::Db;
    /// let db = Db::open(path("data"))?;
    /// db.checkpoint(path("copy"))?;
    /// assert_ne!(Db::open(path("copy"))?.identity(), db.identity());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn identity(&self) -> Option<DatabaseId> {
        identity(&self.engine().database().catalog)
    }

    /// Reads and verifies what lies on disk, while the database is in use: every table as
    /// [`Db::check`] does, the manifest, and the log up to its present end. It reads past the block
    /// cache, at the rate of `options`, and changes nothing.
    ///
    /// Damage poisons nothing. It is in the report, and [`Db::background_error`] returns it until a
    /// scrub of everything finds none. A table or log file that is removed meanwhile is skipped. At
    /// most one table that a compaction has replaced is kept until its next block.
    ///
    /// Pages that the operating system has in memory are verified there, not on the disk.
    /// [`Options::scrub_interval`](crate::Options::scrub_interval) scrubs in the background.
    ///
    /// A cancelled scrub is no error: [`ScrubReport::is_complete`] is false, and
    /// [`ScrubOptions::after`] continues. The call blocks; [`Db::close`] ends it with `Closed`.
    ///
    /// # Errors
    /// `InvalidArgument`, if the rate is too low; `Closed`. The report has the damage, and what
    /// could not be read.
    pub fn scrub(
        &self,
        options: &ScrubOptions,
        on_progress: &mut dyn FnMut(CheckProgress),
    ) -> Result<Arc<ScrubReport>> {
        let writable = self.engine().writable()?;
        writable.installer().at_work(|| scrub(writable, &options.request, on_progress))
    }

    /// Returns the report of the last scrub since the database was opened, in the background or by
    /// [`Db::scrub`].
    #[must_use]
    pub fn last_scrub(&self) -> Option<Arc<ScrubReport>> {
        self.engine().database().scrubs.last()
    }

    /// Keeps automatic compactions and the background scrub from beginning, until the result is
    /// dropped. Pauses may overlap. The call does not wait: running compactions go on to their end.
    /// [`Db::settle`] waits for them, and [`Db::cancel_compactions`] cancels them.
    ///
    /// Flushes go on. Writers are delayed and stopped by the debt of compactions as ever, so a long
    /// pause slows them down. Once they are stopped, the compactions that they wait for begin in
    /// spite of the pause: no writer waits for its end. [`Db::compact`] and the like work as ever.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// let pause = db.pause_background()?;
    /// db.cancel_compactions()?;
    /// assert_eq!(db.stats().background_pauses, 1);
    /// // No compaction takes disk or processor from what is done here.
    /// pause.resume();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `ReadOnly`, `Poisoned`, `Closed`.
    pub fn pause_background(&self) -> Result<BackgroundPause> {
        BackgroundPause::begin(self.engine())
    }

    /// Cancels all running compactions and waits until they have ended, within about a block of
    /// each. Their partial outputs are removed, and their inputs stay. A call of [`Db::compact`] or
    /// [`Family::compact_range`] that runs on another thread fails with `Cancelled`. Flushes go on.
    ///
    /// Automatic compactions begin again at once, unless [`Db::pause_background`] keeps them back.
    ///
    /// # Errors
    /// `ReadOnly`, `Poisoned`, `Closed`.
    pub fn cancel_compactions(&self) -> Result<()> {
        self.engine().at_work(|database| cancel_compactions(&database.installer()))
    }

    /// Compacts every family; see [`Family::compact`].
    ///
    /// # Errors
    /// As [`Family::compact`].
    pub fn compact(&self) -> Result<()> {
        self.compact_with(&CompactOptions::new(), &mut |_| {})
    }

    /// Compacts every family; see [`Family::compact_with`].
    ///
    /// # Errors
    /// As [`Family::compact_with`].
    pub fn compact_with(
        &self,
        options: &CompactOptions,
        on_progress: &mut dyn FnMut(CompactProgress),
    ) -> Result<()> {
        let mut control = CompactControl::new(&options.token, on_progress);
        self.engine().at_work(|database| compact_all(&database.job_rooms(), &mut control))
    }
}

impl Family {
    /// Merges all tables of the family into the deepest level, and drops the versions that no
    /// reader can see. It flushes the family first, and leaves other families alone. Running
    /// compactions whose output it would merge again are cancelled. Writes during the call need not
    /// be included.
    ///
    /// Tables that a rewrite would not change stay, and are not read: [`check`](crate::check) is
    /// the call that looks for damage.
    /// # Errors
    /// `NotFound`, if the family was dropped; `NoSpace`, `Poisoned`, `Closed`; `Corruption`, if a
    /// table is damaged; `Io`.
    pub fn compact(&self) -> Result<()> {
        self.compact_with(&CompactOptions::new(), &mut |_| {})
    }

    /// Compacts as [`Family::compact`], with `options`. Calls `on_progress` after each compaction
    /// that it has finished.
    ///
    /// # Errors
    /// `Cancelled`, if the token or [`Db::cancel_compactions`] cancels it; as [`Family::compact`].
    pub fn compact_with(
        &self,
        options: &CompactOptions,
        on_progress: &mut dyn FnMut(CompactProgress),
    ) -> Result<()> {
        let mut control = CompactControl::new(&options.token, on_progress);
        let ReadPlace { engine, family, .. } = &self.place;
        engine.at_work(|database| compact_family(&database.job_rooms(), family, &mut control))
    }

    /// Compacts as [`Family::compact`], but only tables with keys of a range. These are merged
    /// whole, also beyond the range. The call waits for compactions that already run.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = siltdb::Db::open(dir.path())?;
    /// db.put("log:1", "line")?;
    /// db.delete_prefix("log:")?;
    /// db.default_family().compact_range("log:".."log;")?;
    /// assert_eq!(db.default_family().size_of(..)?.entries, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Family::compact`].
    pub fn compact_range(&self, range: impl KeyRange) -> Result<()> {
        self.compact_range_with(range, &CompactOptions::new(), &mut |_| {})
    }

    /// Compacts as [`Family::compact_range`], with `options`, as [`Family::compact_with`].
    ///
    /// # Errors
    /// As [`Family::compact_with`].
    pub fn compact_range_with(
        &self,
        range: impl KeyRange,
        options: &CompactOptions,
        on_progress: &mut dyn FnMut(CompactProgress),
    ) -> Result<()> {
        let mut control = CompactControl::new(&options.token, on_progress);
        let (ReadPlace { engine, family, .. }, bounds) = (&self.place, read_range(&range).bounds());
        engine
            .at_work(|database| compact_range(&database.job_rooms(), family, &bounds, &mut control))
    }
}
