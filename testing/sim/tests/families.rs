//! Thousands of families, created, renamed, dropped and reopened. The choice among them is random,
//! from a seed that is printed.

use siltdb::{Db, FamilyOptions, Options, Read, Result, WriteBatch};
use siltdb_base::fs::mem::{Crash, MemFs};
use siltdb_sim::draw::Draw;
use std::{collections::BTreeMap, time::SystemTime};

const DIRECTORY: &str = "db";

/// At most this many families exist, besides the default one.
const FAMILIES: usize = 3000;

/// Changes of families, commits and openings.
const STEPS: usize = 4_000;

/// Pairs by family.
type State = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

fn open(fs: &MemFs) -> Result<Db> {
    let options = Options::new().fs(std::sync::Arc::new(fs.clone())).seed(7).workers(0);
    options.memtable_bytes(64 << 10).memory_budget(4 << 20).open(DIRECTORY)
}

fn state(db: &Db) -> Result<State> {
    let mut state = State::new();
    for name in db.families() {
        let pairs = db.family(&name)?.iter()?.map(|pair| {
            let (key, value) = pair?;
            Ok((key.to_vec(), value.to_vec()))
        });
        state.insert(name, pairs.collect::<Result<_>>()?);
    }
    Ok(state)
}

/// A database, its expected state, and counts of its operations.
struct Run {
    fs: MemFs,
    db: Db,
    expected: State,
    /// The families except the default one.
    names: Vec<String>,
    draw: Draw,
    next: u32,
    crashes: u32,
    changes: usize,
}

impl Run {
    /// The position in `names` of a random family.
    fn any(&mut self) -> usize {
        self.draw.index(self.names.len())
    }

    fn new_name(&mut self) -> String {
        self.next += 1;
        format!("family-{}-{}", self.draw.below(10), self.next)
    }

    fn create(&mut self) -> Result<()> {
        let name = self.new_name();
        self.db.create_family(&name, FamilyOptions::new())?;
        self.names.push(name.clone());
        self.expected.insert(name, BTreeMap::new());
        self.changes += 1;
        Ok(())
    }

    fn drop_or_rename(&mut self) -> Result<()> {
        let index = self.any();
        let name = self.names.swap_remove(index);
        let pairs = self.expected.remove(&name).unwrap_or_default();
        if self.draw.chance(1, 2) {
            self.db.drop_family(&name)?;
        } else {
            let to = self.new_name();
            self.db.rename_family(&name, &to)?;
            self.names.push(to.clone());
            self.expected.insert(to, pairs);
        }
        self.changes += 1;
        Ok(())
    }

    /// A batch over several families.
    fn write(&mut self) -> Result<()> {
        let mut batch = WriteBatch::new();
        for _ in 0..self.draw.within(1..=8) {
            let index = self.any();
            let name = self.names[index].clone();
            let (key, value) = (vec![self.draw.below(4) as u8], self.draw.bytes(9));
            batch.put(&self.db.family(&name)?, &key, &value)?;
            self.expected.entry(name).or_default().insert(key, value);
        }
        self.db.write(&batch)
    }

    /// Continues with the state that a close, a kill or a power loss leaves.
    fn reopen(&mut self) -> Result<()> {
        self.fs = match self.draw.below(3) {
            0 => {
                self.db.clone().close()?;
                self.fs.clone()
            }
            1 => self.fs.crash_clone(Crash::Kill),
            _ => {
                self.db.sync_wal()?;
                self.fs.crash_clone(Crash::PowerLoss { seed: self.draw.next() })
            }
        };
        self.db = open(&self.fs)?;
        self.crashes += 1;
        self.compare();
        Ok(())
    }

    fn compare(&self) {
        let found = state(&self.db).expect("it is healthy");
        assert!(
            found.keys().eq(self.expected.keys()),
            "other families after {} changes",
            self.changes
        );
        for (name, pairs) in &self.expected {
            assert!(found[name] == *pairs, "family {name}: {:?}, not {pairs:?}", found[name]);
        }
    }

    fn step(&mut self) -> Result<()> {
        let is_full = self.expected.len() > FAMILIES;
        match self.draw.below(400) {
            0..160 if !is_full => self.create(),
            0..220 => self.drop_or_rename(),
            220..396 => self.write(),
            396 | 397 => self.db.flush(),
            398 => self.db.compact(),
            _ if self.draw.chance(1, 2) => self.reopen(),
            _ => Ok(()),
        }
    }
}

#[test]
fn thousands_of_families_come_and_go_and_every_opening_finds_them() {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let from_time = since.map_or(1, |since| since.as_nanos() as u64);
    let given = std::env::var("FAMILIES_SEED").ok();
    let seed = given.and_then(|seed| seed.parse().ok()).unwrap_or(from_time);
    println!("FAMILIES_SEED={seed}");
    let fs = MemFs::new();
    let db = open(&fs).expect("it is new");
    let expected = State::from([("default".to_owned(), BTreeMap::new())]);
    let draw = Draw::new(seed, 0);
    let names = Vec::new();
    let mut run = Run { fs, db, expected, names, draw, next: 0, crashes: 0, changes: 0 };
    // The first families are created in a row, so that the rest of the run has thousands of them.
    let first = (0..FAMILIES).try_for_each(|_| run.create());
    first.and_then(|()| (0..STEPS).try_for_each(|_| run.step())).expect("it is healthy");
    run.reopen().expect("it is healthy");
    assert!(run.crashes >= 2 && run.changes > FAMILIES + STEPS / 5, "{} openings", run.crashes);
    let report = run.db.check(&mut |_| {}).expect("it is healthy");
    assert!(report.is_clean(), "{report:?}");
}
