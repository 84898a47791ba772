//! The files in the directory of a database, by kind, and those that should not be there.
//!
//! It looks at names only; the engine judges the contents.

use crate::{
    settings::{COLD, DIRECTORY},
    violation::{Checked, Violation, must},
};
use siltdb::Stats;
use siltdb_base::fs::{DirEntry, Fs, mem::MemFs};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// The name of a file that the engine does not own and must not remove.
const STRANGER: &str = "stranger.txt";

/// The directory of what openings have kept. It is no part of the database.
pub(crate) const LOST: &str = "lost";

/// The engine keeps at most this many retired log segments for recycling.
const IDLE_LOGS_MAX: usize = 2;

/// The files in the directory of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directory {
    tables: BTreeSet<String>,
    logs: BTreeSet<String>,
    blobs: BTreeSet<String>,
    manifests: BTreeSet<String>,
    /// Files with other names.
    others: BTreeSet<String>,
    /// Table files in the cold directory.
    cold: BTreeSet<String>,
}

impl Directory {
    /// Lists the directory.
    ///
    /// # Errors
    /// If the directory cannot be listed.
    pub fn list(fs: &MemFs) -> Checked<Self> {
        let mut directory = Self::default();
        for entry in must(fs.list(Path::new(DIRECTORY)), "listing the directory")? {
            // A power loss during a flush may leave a table that the log does not know.
            if entry.name == LOST {
                continue;
            }
            let kind = match entry.name.rsplit_once('.') {
                Some((_, "table")) => &mut directory.tables,
                Some((_, "log")) => &mut directory.logs,
                Some((_, "blob")) => &mut directory.blobs,
                Some((_, "manifest")) => &mut directory.manifests,
                _ => &mut directory.others,
            };
            kind.insert(entry.name);
        }
        if must(fs.metadata(Path::new(COLD)), "looking for the cold directory")?.is_some() {
            let cold = must(fs.list(Path::new(COLD)), "listing the cold directory")?;
            let names = cold.into_iter().map(|entry| entry.name);
            directory.cold.extend(names.filter(|name| name.ends_with(".table")));
        }
        Ok(directory)
    }

    /// The contents of the files, by name.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn contents(fs: &MemFs) -> Checked<BTreeMap<String, Vec<u8>>> {
        let entries = must(fs.list(Path::new(DIRECTORY)), "listing the directory")?;
        let read = |entry: DirEntry| {
            let path = Path::new(DIRECTORY).join(&entry.name);
            Ok((entry.name, must(fs.read_all(&path), "reading a file")?))
        };
        entries.into_iter().filter(|entry| entry.name != LOST).map(read).collect()
    }

    /// Adds a foreign file, durably.
    ///
    /// # Errors
    /// If the directory is not there.
    pub fn add_stranger(fs: &MemFs) -> Checked<()> {
        let path = Path::new(DIRECTORY).join(STRANGER);
        must(fs.write_all(&path, b"not the engine's"), "adding a stranger")
    }

    /// The same without the files of the log, some of which may be retained.
    #[must_use]
    pub fn without_logs(self) -> Self {
        Self { logs: BTreeSet::new(), ..self }
    }

    /// Checks what an open leaves: one manifest, nothing unfinished, no table or log without a
    /// reference (law F8). `stats` are those after the open.
    ///
    /// # Errors
    /// If something else is there.
    pub fn check_opened(&self, stats: &Stats) -> Checked<()> {
        // Several tables may share a file.
        let tables_max = stats.tables.iter().sum::<u64>() - stats.cold_tables;
        let are_tables_needed =
            self.tables.len() as u64 <= tables_max && self.cold.len() as u64 <= stats.cold_tables;
        // If the log lacked the place of an ingest, the open has written it to a file of its own.
        let are_logs_needed = self.logs.len() <= 1 || stats.frozen_generations > 0;
        let are_blobs_needed = self.blobs.len() as u64 <= stats.blob_files;
        if self.is_plain() && are_tables_needed && are_logs_needed && are_blobs_needed {
            return Ok(());
        }
        let (cold, frozen) = (stats.cold_tables, stats.frozen_generations);
        let blobs = stats.blob_files;
        let tables = format!("{tables_max} hot and {cold} cold tables");
        let wanted = format!("{tables}, {blobs} blob files, {frozen} generations");
        Err(Violation::new(format!("for {wanted}, the open left {self:?}")))
    }

    /// Checks a database at rest without readers: it holds what it `needs` to be reopened, and
    /// besides only a few log files for recycling (law F7).
    ///
    /// # Errors
    /// If a file is missing or superfluous.
    pub fn check_settled(&self, needs: &Self) -> Checked<()> {
        let has_stranger = needs.others.contains(STRANGER);
        let idle = self.logs.difference(&needs.logs).count();
        let has_logs = needs.logs.is_subset(&self.logs) && idle <= IDLE_LOGS_MAX;
        let has_tables = self.tables == needs.tables && self.cold == needs.cold;
        let has_blobs = self.blobs == needs.blobs;
        if self.is_plain() && has_tables && has_blobs && has_logs && has_stranger {
            return Ok(());
        }
        Err(Violation::new(format!("at rest there is {self:?}, needed is {needs:?}")))
    }

    fn is_plain(&self) -> bool {
        let known = ["CURRENT", "LOCK", STRANGER];
        self.manifests.len() == 1
            && self
                .others
                .iter()
                .all(|name| name.ends_with(".blob") || known.contains(&name.as_str()))
    }
}
