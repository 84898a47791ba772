//! A database beside that of a run: a checkpoint, a copy of the files, or the source of one. It has
//! a model and a clock of its own.
//!
//! It goes through no crash; its callers decide where it lies and what is done to it.

use crate::{
    carry_out::carry_out,
    database::Database,
    draw::Draw,
    expected::Names,
    guests::GuestSettings,
    model::{Model, Moment},
    plan::plan,
    reads::compare_family,
    settings::{Layout, Settings},
    times::Times,
    truth::Truth,
    violation::{Checked, Violation, must},
};
use siltdb::{Create, ErrorKind, Options};
use siltdb_base::{
    clock::{Clock, ManualClock},
    fs::mem::MemFs,
};
use std::{sync::Arc, time::Duration};

/// Of each family this many keys are looked up, besides two scans.
const LOOKUPS_MAX: u64 = 60;

/// Where a twin lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TwinPlace {
    /// Its directory.
    pub(crate) directory: &'static str,
    /// The cold directory that openings give it; `None` leaves it the one that it has.
    pub(crate) cold: Option<&'static str>,
    /// The directories that it has with that.
    pub(crate) layout: Layout,
    /// What it is, for messages.
    pub(crate) what: &'static str,
}

/// What a twin must show when it is opened.
#[derive(Clone, Debug)]
pub(crate) struct TwinState {
    /// The history.
    pub(crate) model: Model,
    /// The last commit.
    pub(crate) commit: u64,
    /// The families.
    pub(crate) names: Names,
    /// The wall clock.
    pub(crate) wall_ms: u64,
    /// The time of the database at that.
    pub(crate) latest_ms: u64,
}

/// An open twin, and what it should hold.
pub(crate) struct Twin {
    pub(crate) database: Database,
    place: TwinPlace,
    model: Model,
    /// The last commit.
    commit: u64,
    /// The twin's own time, which may be behind the time that the source has used.
    clock: Arc<ManualClock>,
    times: Times,
    guests: GuestSettings,
}

impl Twin {
    /// Opens the database in `place`, which shows `state`.
    pub(crate) fn open(
        place: TwinPlace,
        fs: &MemFs,
        settings: &Settings,
        state: TwinState,
        draw: &mut Draw,
    ) -> Checked<Self> {
        let TwinState { model, commit, names, wall_ms, latest_ms } = state;
        let clock = Arc::new(ManualClock::at(Duration::from_millis(wall_ms)));
        let times = Times::new(latest_ms, &[], &clock);
        let options = place.options(settings.options(fs, &clock, draw.next()));
        let db = must(options.open(place.directory), &format!("opening {}", place.what))?;
        let database = Database::new(fs.clone(), db, &[names])?;
        Ok(Self { database, place, model, commit, clock, times, guests: settings.guests })
    }

    fn now(&self) -> Moment {
        let wall_ms = self.times.at(&self.clock);
        Moment { commit: self.commit, wall_ms, flushed: u64::MAX }
    }

    /// What another opening must show.
    pub(crate) fn state(&self) -> TwinState {
        TwinState {
            model: self.model.clone(),
            commit: self.commit,
            names: self.database.names.clone(),
            wall_ms: self.clock.wall_ms(),
            latest_ms: self.now().wall_ms,
        }
    }

    /// Compares all of it right after it was opened. `sequence` is what making it returned.
    pub(crate) fn compare_opened(&self, sequence: Option<u64>, draw: &mut Draw) -> Checked<u64> {
        let (found, what) = (self.database.db.snapshot().sequence(), self.place.what);
        if let Some(sequence) = sequence
            && sequence != found
        {
            let message = format!("{what} is at {found}, should be at {sequence}");
            return Err(Violation::new(message));
        }
        let reads = self.compare(draw)?;
        let report = must(self.database.db.check(&mut |_| {}), &format!("checking {what}"))?;
        if report.is_clean() {
            return Ok(reads);
        }
        Err(Violation::new(format!("check found damage in {what}: {report:?}")))
    }

    /// Compares all of it.
    pub(crate) fn compare(&self, draw: &mut Draw) -> Checked<u64> {
        let what = || format!("in {}", self.place.what);
        let mut reads = 0;
        let at = self.now();
        for (index, family) in &self.database.families {
            let truth = Truth { model: &self.model, family: *index, at };
            reads += compare_family(family, truth, draw, LOOKUPS_MAX)
                .map_err(|violation| violation.during(what()))?;
        }
        let seen = self.database.compare_guests(self.guests, (&self.model, at), draw);
        reads += seen.map_err(|violation| violation.during(what()))?.reads;
        Ok(reads)
    }

    /// Performs one random operation on it.
    pub(crate) fn step(&mut self, settings: &Settings, draw: &mut Draw) -> Checked<()> {
        let (db, what) = (&self.database.db, self.place.what);
        match draw.below(8) {
            0 => must(db.run_job(), &format!("a job of {what}")).map(drop),
            1 => must(db.flush(), &format!("flushing {what}")),
            2 => must(db.compact(), &format!("compacting {what}")),
            _ => self.commit(settings, draw),
        }
    }

    fn commit(&mut self, settings: &Settings, draw: &mut Draw) -> Checked<()> {
        let families: Vec<_> = self.database.families.keys().copied().collect();
        let (number, now_ms) = (self.commit + 1, self.now().wall_ms);
        let planned = plan(settings, &self.model, &families, now_ms, number, draw);
        self.commit = self.model.begin(planned.durability, planned.clock, &planned.operations);
        must(carry_out(&self.database, &planned), &format!("writing to {}", self.place.what))?;
        self.model.acknowledge(self.database.db.snapshot().sequence(), 0);
        Ok(())
    }

    /// Freezes or thaws one of its families; without a cold directory it refuses to freeze one.
    pub(crate) fn change_tier(&self, draw: &mut Draw) -> Checked<()> {
        let (what, families) = (self.place.what, &self.database.families);
        let indexes: Vec<_> = families.keys().copied().collect();
        let family = &families[&draw.pick(&indexes)];
        if draw.chance(1, 2) {
            return must(family.thaw(), &format!("thawing a family of {what}"));
        }
        match (family.freeze(), self.place.layout) {
            (Err(error), Layout::OneDirectory) if error.kind() == ErrorKind::InvalidArgument => {
                Ok(())
            }
            (frozen, Layout::TwoTiers) => must(frozen, &format!("freezing a family of {what}")),
            (frozen, Layout::OneDirectory) => {
                Err(Violation::new(format!("{what} has no cold directory: {frozen:?}")))
            }
        }
    }

    /// Waits for the background work.
    pub(crate) fn settle(&self) -> Checked<()> {
        must(self.database.db.settle(), &format!("settling {}", self.place.what))
    }

    /// Where it lies.
    pub(crate) fn place(&self) -> TwinPlace {
        self.place
    }

    /// Closes and reopens it, and compares all of it.
    pub(crate) fn reopen(&mut self, settings: &Settings, draw: &mut Draw) -> Checked<u64> {
        let what = self.place.what;
        self.close()?;
        let fs = self.database.fs.clone();
        let options = self.place.options(settings.options(&fs, &self.clock, draw.next()));
        let db = must(options.open(self.place.directory), &format!("opening {what} again"))?;
        self.database = Database::new(fs, db, std::slice::from_ref(&self.database.names))?;
        self.compare(draw)
    }

    /// Closes it.
    pub(crate) fn close(&self) -> Checked<()> {
        must(self.database.db.clone().close(), &format!("closing {}", self.place.what))
    }
}

impl TwinPlace {
    fn options(&self, options: Options) -> Options {
        let options = options.create(Create::Never);
        match self.cold {
            Some(cold) => options.cold_directory(cold),
            None => options,
        }
    }
}
