//! A renamed directory: an open database's directory gets another name, and another directory takes
//! the old one.
//!
//! `steps` says what a step does and compares.

use crate::{
    run::{Excuse, Run},
    settings::{DIRECTORY, Weather},
    violation::{Checked, Violation, must},
};
use siltdb_base::fs::{Fs, mem::MemFs};
use std::path::Path;

/// The name of the database's directory while another one has its own.
const MOVED: &str = "/data/moved";

/// The directory that takes the name.
const OTHER: &str = "/data/other";

/// Names that an engine working by path would read, write or remove.
const DECOYS: [&str; 6] =
    ["CURRENT", "LOCK", "000000.manifest", "000001.log", "000001.table", "000002.table"];

fn decoy(name: &str) -> Vec<u8> {
    format!("{name} of another database").into_bytes()
}

impl Run {
    /// Commits and jobs while the directory has another name. Other steps take the crashes, because
    /// recovery opens a database by its name.
    pub(crate) fn move_ground(&mut self) -> Checked<()> {
        let may_fail = self.settings.weather == Weather::Faults || self.excuse() != Excuse::None;
        if may_fail {
            return Ok(());
        }
        self.watch = None;
        let fs = self.database.fs.clone();
        self.note("the directory gets another name".to_owned());
        add_decoys(&fs)?;
        let [ours, moved, other] = [DIRECTORY, MOVED, OTHER].map(Path::new);
        must(fs.move_directory(ours, moved), "renaming the directory")?;
        must(fs.move_directory(other, ours), "taking its name")?;
        for _ in 0..self.draw.within(2..=12) {
            match self.draw.below(4) {
                0 | 1 => self.commit()?,
                2 => self.flush()?,
                _ => self.compact()?,
            }
        }
        self.database.check_ground()?;
        check_decoys(&fs)?;
        must(fs.move_directory(ours, other), "giving the name back")?;
        must(fs.move_directory(moved, ours), "renaming it back")?;
        self.note("it has its name again".to_owned());
        self.report.moves += 1;
        self.watch();
        self.compare_everything()
    }
}

/// Creates the directory that will take the name, unless a crash has left one.
fn add_decoys(fs: &MemFs) -> Checked<()> {
    must(fs.create_dir_all(Path::new(OTHER)), "making another directory")?;
    for name in DECOYS {
        must(fs.write_all(&Path::new(OTHER).join(name), &decoy(name)), "another database")?;
    }
    must(fs.sync_dir(Path::new("/data")), "making another directory")
}

/// Whether the directory that took the name is unchanged.
fn check_decoys(fs: &MemFs) -> Checked<()> {
    let entries = must(fs.list(Path::new(DIRECTORY)), "listing the other database")?;
    let names: Vec<_> = entries.into_iter().map(|entry| entry.name).collect();
    if names.len() != DECOYS.len() {
        return Err(Violation::new(format!("another database now has the files {names:?}")));
    }
    for name in DECOYS {
        let found = fs.read_all(&Path::new(DIRECTORY).join(name));
        if must(found, "reading the other database")? != decoy(name) {
            return Err(Violation::new(format!("{name} of another database was written to")));
        }
    }
    Ok(())
}
