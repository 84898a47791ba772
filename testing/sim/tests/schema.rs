//! A schema kept in one family lists the other families. Commits change both, with flushes, crashes
//! in and between them, and crashes in the openings that follow (law A14). All choices are random,
//! from a seed that is printed.

use siltdb::{Db, Durability, FamilyOptions, Options, Read, Result, WriteBatch, WriteOptions};
use siltdb_base::fs::mem::{Crash, MemFs};
use siltdb_sim::draw::Draw;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

const DIRECTORY: &str = "db";

/// Steps of a run.
const STEPS: usize = 400;

/// At most this many tables exist at once.
const TABLES_MAX: usize = 6;

/// The prefix of the schema's rows, which no other key has.
const ROW: &[u8] = b"table:";

/// Name and version of each table.
type Schema = BTreeMap<String, Vec<u8>>;

fn open(fs: &MemFs) -> Result<Db> {
    let options = Options::new().fs(Arc::new(fs.clone())).seed(7).workers(0);
    options.memtable_bytes(64 << 10).memory_budget(4 << 20).open(DIRECTORY)
}

/// The schema, which must agree with the existing families.
fn schema(db: &Db, context: &str) -> Result<Schema> {
    let mut schema = Schema::new();
    for row in db.prefix(ROW)? {
        let (key, version) = row?;
        let name = String::from_utf8_lossy(&key[ROW.len()..]).into_owned();
        schema.insert(name, version.to_vec());
    }
    let mut names = db.families();
    names.retain(|name| name != "default");
    assert!(names.iter().eq(schema.keys()), "{context}: {names:?}, but the schema has {schema:?}");
    for (name, version) in &schema {
        let found = db.family(name)?.get("version")?;
        assert_eq!(found.as_deref(), Some(&version[..]), "{context}: version of {name}");
    }
    Ok(schema)
}

/// Crash states of an operation, taken before some of its calls.
struct Crashes {
    fs: MemFs,
    states: Arc<Mutex<Vec<MemFs>>>,
}

impl Crashes {
    fn watch(fs: &MemFs, draw: &mut Draw) -> Self {
        let states = Arc::new(Mutex::new(Vec::new()));
        let (seen, disk, draw) = (Arc::clone(&states), fs.clone(), Mutex::new(draw.fork()));
        fs.on_call(Some(Arc::new(move |_| {
            let mut draw = draw.lock().unwrap_or_else(PoisonError::into_inner);
            let crash = match draw.below(6) {
                0 => Crash::Kill,
                1 | 2 => Crash::PowerLoss { seed: draw.next() },
                _ => return,
            };
            let state = disk.crash_clone(crash);
            seen.lock().unwrap_or_else(PoisonError::into_inner).push(state);
        })));
        Self { fs: fs.clone(), states }
    }

    fn end(self) -> Vec<MemFs> {
        self.fs.on_call(None);
        std::mem::take(&mut *self.states.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Run {
    fs: MemFs,
    db: Db,
    schema: Schema,
    draw: Draw,
    version: u64,
    /// Opened crash states, and those of them that held the commit in progress.
    crashes: u32,
    advanced: u32,
    changes: u32,
}

impl Run {
    /// Creates and drops tables in one commit, with their rows. Returns the schema after it.
    fn change(&mut self) -> Result<(WriteBatch, Schema)> {
        let (mut batch, mut after) = (WriteBatch::new(), self.schema.clone());
        let default = self.db.default_family();
        let mut names: Vec<String> = (0..TABLES_MAX).map(|n| format!("t{n}")).collect();
        for _ in 0..self.draw.within(1..=3) {
            let name = names.swap_remove(self.draw.index(names.len()));
            let exists = after.remove(&name).is_some();
            if exists {
                batch.drop_family(&self.db.family(&name)?)?;
                batch.delete(&default, [ROW, name.as_bytes()].concat())?;
            }
            if exists && self.draw.chance(2, 3) {
                continue;
            }
            self.version += 1;
            let version = self.version.to_be_bytes();
            let table = self.db.prepare_family(&name, FamilyOptions::new())?;
            batch.put(&table, "version", version)?;
            batch.create_family(&table)?;
            batch.put(&default, [ROW, name.as_bytes()].concat(), version)?;
            after.insert(name, version.to_vec());
        }
        self.changes += 1;
        Ok((batch, after))
    }

    fn step(&mut self) -> Result<()> {
        let before = self.schema.clone();
        let (what, batch) = match self.draw.below(10) {
            0..5 => {
                let (batch, after) = self.change()?;
                self.schema = after;
                ("a change of tables", batch)
            }
            5..8 => ("a write", self.write()?),
            _ => ("a flush", WriteBatch::new()),
        };
        let durability =
            self.draw.pick(&[Durability::Volatile, Durability::Buffered, Durability::Synced]);
        let watched = Crashes::watch(&self.fs, &mut self.draw);
        match what {
            "a flush" if self.draw.chance(1, 4) => self.db.compact()?,
            "a flush" => self.db.flush()?,
            _ => self.db.write_with(&batch, &WriteOptions::new().durability(durability))?,
        }
        let states = watched.end();
        assert_eq!(schema(&self.db, what)?, self.schema, "{what}");
        for state in &states {
            self.recover(state, &before, what)?;
        }
        // A change is durable once it is acknowledged.
        if self.draw.chance(1, 8) {
            let seed = self.draw.next();
            self.fs = self.fs.crash_clone(Crash::PowerLoss { seed });
            self.db = open(&self.fs)?;
            assert_eq!(schema(&self.db, "an opening")?, self.schema, "after {what}");
        }
        Ok(())
    }

    /// Data in tables, and keys that belong to none.
    fn write(&mut self) -> Result<WriteBatch> {
        let mut batch = WriteBatch::new();
        let names: Vec<String> = self.schema.keys().cloned().collect();
        for _ in 0..self.draw.within(1..=20) {
            let family = match names.is_empty() || self.draw.chance(1, 3) {
                true => self.db.default_family(),
                false => self.db.family(&names[self.draw.index(names.len())])?,
            };
            batch.put(&family, [b'a', self.draw.below(64) as u8], self.draw.bytes(500))?;
        }
        Ok(batch)
    }

    /// Opens a crash state, and a crash state taken during that opening.
    fn recover(&mut self, state: &MemFs, before: &Schema, what: &str) -> Result<()> {
        let watched = Crashes::watch(state, &mut self.draw);
        let db = open(state)?;
        let again = watched.end();
        let found = schema(&db, what)?;
        assert!(found == *before || found == self.schema, "{what}: {found:?}");
        self.crashes += 1;
        self.advanced += u32::from(found == self.schema && found != *before);
        db.flush()?;
        assert_eq!(schema(&db, what)?, found, "a flush after a crash in {what}");
        drop(db);
        let killed = state.crash_clone(Crash::Kill);
        assert_eq!(schema(&open(&killed)?, what)?, found, "the opening after a crash in {what}");
        for state in again {
            let again = schema(&open(&state)?, what)?;
            assert!(again == *before || again == self.schema, "{what}, twice: {again:?}");
            self.crashes += 1;
        }
        Ok(())
    }
}

#[test]
fn the_schema_says_which_families_there_are_whatever_happens() {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let from_time = since.map_or(1, |since| since.as_nanos() as u64);
    let given = std::env::var("SCHEMA_SEED").ok();
    let seed = given.and_then(|seed| seed.parse().ok()).unwrap_or(from_time);
    println!("SCHEMA_SEED={seed}");
    let fs = MemFs::new();
    let db = open(&fs).expect("it is new");
    let (schema, draw) = (Schema::new(), Draw::new(seed, 0));
    let mut run = Run { fs, db, schema, draw, version: 0, crashes: 0, advanced: 0, changes: 0 };
    (0..STEPS).try_for_each(|_| run.step()).expect("it is healthy");
    let Run { crashes, advanced, changes, .. } = run;
    assert!(crashes > 200 && advanced > 10 && changes > 100, "{crashes}, {advanced}, {changes}");
}
