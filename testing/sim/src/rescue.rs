//! Rescue from retired log segments: the files of a kill, with damage to one table, are salvaged
//! with and without the segments that the manifest calls retired.
//!
//! It does not say which keys must come back: that follows from what is left of the log.

use crate::{
    database::all_by_name,
    recovery::Recovery,
    settings::DIRECTORY,
    times::Times,
    truth::{Pairs, collect},
    violation::{Checked, Violation, must, show, show_option},
};
use siltdb::{
    Db,
    salvage::{SalvageReport, salvage},
};
use siltdb_base::{
    clock::ManualClock,
    fs::{
        Fs,
        mem::{Crash, MemFs},
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// The target directory of a salvage.
const RESCUED: &str = "rescued";

/// Where the id of a segment stands in its header, in bytes.
const SEGMENT_AT: usize = 16;

/// All pairs, by family.
type Contents = BTreeMap<String, Pairs>;

/// What happens to a table file.
#[derive(Clone, Debug)]
enum Damage {
    /// It is removed.
    Lost(PathBuf),
    /// A bit changes at this offset.
    Flipped(PathBuf, u64),
}

impl Damage {
    fn apply(&self, fs: &MemFs) -> Checked<()> {
        match self {
            Self::Lost(path) => must(fs.remove(path), "removing a table"),
            Self::Flipped(path, offset) => {
                must(fs.bytes_flip(path, *offset, 1), "damaging a table")
            }
        }
    }
}

impl Recovery<'_> {
    /// Damages a table of the files in `fs`, which `db` was recovered from, and salvages them: each
    /// key has the value that it has in `db`, or what a salvage without retired segments saves.
    pub(crate) fn rescue(&mut self, fs: &MemFs, db: &Db, times: &Times) -> Checked<()> {
        let mut tables = Vec::new();
        for path in files(fs, ".table")? {
            let bytes = must(fs.read_all(&path), "reading a table")?.len() as u64;
            // A kill may leave a file of a job that has written nothing to it.
            if bytes > 0 {
                tables.push((path, bytes));
            }
        }
        if tables.is_empty() {
            return Ok(());
        }
        let last = contents(db)?;
        let Some(without) = self.without_retired(fs, &last, times)? else { return Ok(()) };
        let with = fs.crash_clone(Crash::Kill);
        let (table, bytes) = tables.swap_remove(self.draw.index(tables.len()));
        let damage = match self.draw.chance(1, 2) {
            true => Damage::Lost(table),
            false => Damage::Flipped(table, self.draw.below(bytes)),
        };
        damage.apply(&with)?;
        damage.apply(&without)?;
        let (report, is) = self.rescued(&with, times)?;
        let (bare, was) = self.rescued(&without, times)?;
        if bare.retired_operations > 0 {
            return Err(Violation::new(format!("retired segments were needed: {bare:?}")));
        }
        let during = |violation: Violation| violation.during(format!("{damage:?}, {report:?}"));
        let keys = rescued_keys([&is, &was, &last], &report).map_err(during)?;
        self.report.rescues += 1;
        self.report.rescued_keys += keys;
        Ok(())
    }

    /// The files without the log segments that are not needed; `None`, if there are none.
    fn without_retired(
        &mut self,
        fs: &MemFs,
        last: &Contents,
        times: &Times,
    ) -> Checked<Option<MemFs>> {
        let mut logs = Vec::new();
        for path in files(fs, ".log")? {
            let bytes = must(fs.read_all(&path), "reading a segment")?;
            let id = bytes.get(SEGMENT_AT..).and_then(|bytes| bytes.first_chunk());
            logs.push((id.map_or(0, |id| u64::from_le_bytes(*id)), path));
        }
        logs.sort();
        let (mut unneeded, mut needed) = (0, logs.len() + 1);
        let mut found = None;
        while unneeded + 1 < needed {
            let count = (unneeded + needed) / 2;
            let without = fs.crash_clone(Crash::Kill);
            for (_, path) in &logs[..count] {
                must(without.remove(path), "removing a segment")?;
            }
            let (report, saved) = self.rescued(&without.crash_clone(Crash::Kill), times)?;
            match report.is_complete() && saved == *last {
                true => (unneeded, found) = (count, Some(without)),
                false => needed = count,
            }
        }
        Ok(found)
    }

    fn rescued(&mut self, fs: &MemFs, times: &Times) -> Checked<(SalvageReport, Contents)> {
        fs.set_space_limit(None);
        let clock = Arc::new(ManualClock::at(Duration::from_millis(times.latest_ms())));
        let seed = self.draw.next();
        let options = || self.settings.options(fs, &clock, seed);
        let report = must(salvage(DIRECTORY, RESCUED, options(), &mut |_| {}), "salvage")?;
        let db = must(options().open(RESCUED), "opening what was salvaged")?;
        Ok((report, contents(&db)?))
    }
}

/// Checks that no key is worse than without retired segments: it `is` what it `was` without them,
/// or what it had `last`. Where the report says so, a key of a lost part may have an older value.
/// Returns the number of keys that they have made right.
fn rescued_keys([is, was, last]: [&Contents; 3], report: &SalvageReport) -> Checked<u64> {
    if !is.keys().eq(last.keys()) || !was.keys().eq(last.keys()) {
        return Err(Violation::new(format!("families {:?} and {:?}", is.keys(), was.keys())));
    }
    let mut keys = 0;
    for (name, last) in last {
        let [is, was, last] = [&is[name], &was[name], last]
            .map(|pairs| pairs.iter().map(|(key, value)| (key, value)).collect::<BTreeMap<_, _>>());
        let all: BTreeSet<_> = is.keys().chain(was.keys()).chain(last.keys()).collect();
        for key in all {
            let [is, was, last] = [is.get(key), was.get(key), last.get(key)];
            let may_be_older = report.possibly_replaced > 0 && is_lost(report, name, key);
            if is != was && is != last && !may_be_older {
                let [is, was, last] =
                    [is, was, last].map(|value| show_option(value.map(|value| &value[..])));
                let message = format!("{name} {} is {is}, was {was}, last {last}", show(key));
                return Err(Violation::new(message));
            }
            keys += u64::from(is != was && is == last);
        }
    }
    Ok(keys)
}

/// Whether a loss of the family `name` in the report covers `key`.
fn is_lost(report: &SalvageReport, name: &str, key: &[u8]) -> bool {
    report.lost.iter().any(|lost| {
        let starts = lost.first.as_deref().is_none_or(|first| first <= key);
        let ends = lost.last.as_deref().is_none_or(|last| key <= last);
        lost.family.as_deref().is_none_or(|family| family == name) && starts && ends
    })
}

/// The files of the database whose names end with `extension`.
fn files(fs: &MemFs, extension: &str) -> Checked<Vec<PathBuf>> {
    let entries = must(fs.list(Path::new(DIRECTORY)), "listing the directory")?;
    let names = entries.into_iter().map(|entry| entry.name);
    let mut paths: Vec<_> = names
        .filter(|name| name.ends_with(extension))
        .map(|name| Path::new(DIRECTORY).join(name))
        .collect();
    paths.sort();
    Ok(paths)
}

fn contents(db: &Db) -> Checked<Contents> {
    let families = must(all_by_name(db), "families")?;
    families.iter().map(|(name, family)| Ok((name.clone(), collect(family)?))).collect()
}
