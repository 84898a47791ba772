//! Checkpoints: made, crashed and failed in the middle, compared, and open beside their source.
//!
//! A checkpoint is compared with the source's model, copied where the checkpoint begins to differ.

use crate::{
    database::{Database, strays},
    disturbances::may_poison,
    run::{Excuse, Outcome, Run, Trace},
    settings::{Layout, Weather},
    twin::{Twin, TwinPlace, TwinState},
    violation::{Checked, Violation, must},
    watch::{Activity, CrashState, Watch},
};
use siltdb::Checkpoint;
use siltdb_base::{
    clock::Clock,
    fs::{
        Fs,
        mem::{CallKind, Crash, Fault, FaultError, FaultSpan, MemFs},
    },
};
use std::path::{Path, PathBuf};

/// The directory of a checkpoint, and of a restored backup.
pub(crate) const COPY: &str = "/data/copies/copy";

/// The same directory, relative to the working directory of an open database.
const COPY_FROM_WORKING: &str = "copies/copy";

/// The directory that an unfinished checkpoint leaves.
const PARTIAL: &str = "/data/copies/copy.partial";

/// At most this many crash states are taken inside one checkpoint.
const CRASHES_MAX: usize = 2;

impl Run {
    /// Makes a checkpoint, compares it and removes it.
    pub(crate) fn checkpoint(&mut self) -> Checked<()> {
        let stats = self.database.db.stats();
        let is_held =
            !self.snapshots.is_empty() || !self.walks.is_empty() || !self.transactions.is_empty();
        if self.draw.chance(1, 4) {
            self.leave_part();
        }
        let is_resumed = must(self.database.fs.metadata(Path::new(PARTIAL)), "looking")?.is_some();
        let path = self.draw.pick(&[COPY, COPY_FROM_WORKING]);
        self.note(format!("checkpoint in {path}"));
        let is_fault_set = self.settings.weather == Weather::Faults && self.draw.chance(2, 3);
        if is_fault_set {
            self.fault_in_checkpoint();
        }
        let is_crashed = self.settings.weather != Weather::Calm && self.draw.chance(1, 2);
        if is_crashed {
            // These crash states come on top of those that other operations may take.
            self.watch = None;
            self.watch = Some(Watch::new(&self.database.fs, self.draw.fork(), CRASHES_MAX));
        }
        let make = |database: &Database| database.db.checkpoint(path);
        let outcome = self.operate(Activity::Checkpoint, None, make)?;
        if is_crashed {
            self.watch = None;
            self.watch();
        }
        if is_fault_set {
            self.database.fs.set_fault(None);
        }
        let counts = &mut self.report.checkpoints;
        match outcome {
            Outcome::Replaced => return Ok(()),
            Outcome::Refused(_) => {
                counts.refused += 1;
                // The checkpoint may have its name; only the durability of the name is uncertain.
                self.judge_refused()?;
            }
            Outcome::Done(made) => {
                counts.made += 1;
                counts.busy += u64::from(stats.frozen_generations > 0);
                counts.held += u64::from(is_held);
                counts.resumed += u64::from(is_resumed);
                // A checkpoint flushes what was not logged, and syncs the log.
                self.durable = self.model.acknowledged();
                self.flushed = self.durable;
                self.judge_made(made)?;
            }
        }
        self.compare_everything()
    }

    /// Leaves what a killed checkpoint does: its mark, and a part of a table. A disk that is full
    /// has less of it. A file that a real one left may be a table of the database by another name,
    /// so it is not written to.
    fn leave_part(&mut self) {
        let fs = &self.database.fs;
        let write = |name: &str| {
            let path = Path::new(PARTIAL).join(name);
            // A file that is there stays: it is a part, too.
            if fs.read_all(&path).is_ok() { Ok(()) } else { fs.write_all(&path, b"part") }
        };
        let left = fs.create_dir_all(Path::new(PARTIAL)).and_then(|()| write("000000.tmp"));
        let left = left.and_then(|()| write("000077.table"));
        let is_whole = left.is_ok();
        self.note(format!("a part of a checkpoint lies there, all of it: {is_whole}"));
    }

    /// Makes one of the calls of a checkpoint fail.
    fn fault_in_checkpoint(&mut self) {
        let kind = self.draw.pick(&[
            CallKind::Link,
            CallKind::CreateDir,
            CallKind::Metadata,
            CallKind::Open,
            CallKind::List,
            CallKind::Lock,
            CallKind::Create,
            CallKind::Read,
            CallKind::Write,
            CallKind::Sync,
            CallKind::SyncDir,
            CallKind::Rename,
        ]);
        self.fault_in_copy(kind, [1, 1, 2, 3, 5]);
    }

    /// Makes one of the next calls of a kind fail, while a copy of the database is made.
    pub(crate) fn fault_in_copy(&mut self, kind: CallKind, nths: [u64; 5]) {
        if may_poison(kind) {
            self.trace = Trace::Lasting;
        }
        let error = self.draw.pick(&[FaultError::Io, FaultError::NoSpace]);
        let (kind, nth) = (Some(kind), self.draw.pick(&nths));
        let fault = Fault { kind, nth, span: FaultSpan::Once, error };
        self.note(format!("to fail: {fault:?}"));
        self.database.fs.set_fault(Some(fault));
    }

    /// After a crash inside a checkpoint: it is complete or absent. Then it is removed, so that the
    /// files shared with the source lose one of their names.
    pub(crate) fn judge_crashed_checkpoint(&mut self, state: &CrashState) -> Checked<()> {
        let during = |violation: Violation| {
            let CrashState { kind, call, .. } = state;
            violation.during(format!("a checkpoint after {kind:?} before {call}"))
        };
        if !is_there(&state.fs)? {
            self.report.checkpoints.absent += 1;
            return Ok(());
        }
        self.report.checkpoints.whole += 1;
        self.judge_apart(&state.fs.crash_clone(Crash::Kill), None).map_err(during)?;
        self.destroy_copy(&state.fs)
    }

    /// After a failure: the checkpoint is complete or absent, now and after a power loss.
    fn judge_refused(&mut self) -> Checked<()> {
        let fs = self.database.fs.clone();
        if !is_there(&fs)? {
            return Ok(());
        }
        for crash in [Crash::Kill, Crash::PowerLoss { seed: self.draw.next() }] {
            let after = fs.crash_clone(crash);
            if is_there(&after)? {
                self.judge_apart(&after, None).map_err(|violation| {
                    violation.during(format!("a checkpoint that failed, after {crash:?}"))
                })?;
            }
        }
        fs.set_fault(None);
        self.destroy_copy(&fs)
    }

    /// After a success: the checkpoint is durable. It is then opened beside the source, unless a
    /// call may fail.
    fn judge_made(&mut self, made: Checkpoint) -> Checked<()> {
        let fs = self.database.fs.clone();
        let seed = self.draw.next();
        let crash = self.draw.pick(&[Crash::Kill, Crash::PowerLoss { seed }]);
        self.judge_apart(&fs.crash_clone(crash), Some(made.sequence))
            .map_err(|violation| violation.during(format!("a checkpoint after {crash:?}")))?;
        if self.settings.weather != Weather::Faults && self.excuse() == Excuse::None {
            self.live_beside(made)?;
        }
        fs.set_fault(None);
        self.destroy_copy(&fs)
    }

    /// Opens the checkpoint alone in `fs` and compares all of it; sometimes also writes to it.
    pub(crate) fn judge_apart(&mut self, fs: &MemFs, sequence: Option<u64>) -> Checked<()> {
        fs.set_space_limit(None);
        let mut twin = self.open_twin(fs)?;
        self.report.reads += twin.compare_opened(sequence, &mut self.draw)?;
        if self.draw.chance(1, 4) {
            for _ in 0..self.draw.within(1..=12) {
                twin.step(&self.settings, &mut self.draw)?;
            }
            self.report.reads += twin.reopen(&self.settings, &mut self.draw)?;
        }
        twin.close()
    }

    /// Opens the checkpoint beside its source, and writes to both in turn. Other steps take the
    /// crashes, because a crash affects a checkpoint as it does any database.
    fn live_beside(&mut self, made: Checkpoint) -> Checked<()> {
        self.watch = None;
        let fs = self.database.fs.clone();
        let mut twin = self.open_twin(&fs)?;
        self.report.reads += twin.compare_opened(Some(made.sequence), &mut self.draw)?;
        for _ in 0..self.draw.within(2..=16) {
            match self.draw.below(6) {
                0 | 1 => self.commit()?,
                2 => self.run_jobs()?,
                3 => self.compact()?,
                _ => twin.step(&self.settings, &mut self.draw)?,
            }
        }
        self.report.reads += twin.compare(&mut self.draw)?;
        self.compare_everything()?;
        self.report.reads += twin.reopen(&self.settings, &mut self.draw)?;
        twin.close()?;
        self.database.check_ground()?;
        self.report.checkpoints.beside += 1;
        self.watch();
        Ok(())
    }

    fn open_twin(&mut self, fs: &MemFs) -> Checked<Twin> {
        let mut model = self.model.clone();
        model.truncate(self.visible);
        let names = self.database.names.clone();
        let (wall_ms, latest_ms) = (self.clock.wall_ms(), self.now().wall_ms);
        let state = TwinState { model, commit: self.visible, names, wall_ms, latest_ms };
        let (layout, what) = (Layout::OneDirectory, "a checkpoint");
        let place = TwinPlace { directory: COPY, cold: None, layout, what };
        Twin::open(place, fs, &self.settings, state, &mut self.draw)
    }

    /// Removes the checkpoint, as another process does.
    fn destroy_copy(&mut self, fs: &MemFs) -> Checked<()> {
        let before = strays(fs);
        let options = self.settings.options(fs, &self.clock, 0);
        must(options.destroy(COPY), "removing a checkpoint")?;
        if is_there(fs)? {
            return Err(Violation::new("a checkpoint that was removed is there"));
        }
        // `destroy` checks that the directory is that of a database before it locks it.
        let after = strays(fs);
        let is_known = |path: &PathBuf| path == Path::new("CURRENT");
        if before.is_empty() && after.iter().all(is_known) && after.len() <= 1 {
            fs.forget_strays();
            return Ok(());
        }
        Err(Violation::new(format!("{before:?} and {after:?} lie elsewhere, and were touched")))
    }
}

/// Whether a checkpoint or a part of one exists. After a power loss the empty directory of a
/// removed checkpoint may be there.
fn is_there(fs: &MemFs) -> Checked<bool> {
    let kind = must(fs.metadata(Path::new(COPY)), "looking for a checkpoint")?;
    let list = || must(fs.list(Path::new(COPY)), "looking into a checkpoint");
    Ok(kind.is_some() && !list()?.is_empty())
}
