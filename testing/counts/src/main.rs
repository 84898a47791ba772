//! Operations of one kind on a small database, for `cargo xtask counts`, which runs this program
//! under callgrind and counts the instructions within [`measured`].
//!
//! `siltdb-counts CASE DIR` prepares a new database in `DIR`, runs the operations of the case and
//! prints their number. `siltdb-counts` alone prints the cases. With `--sharing` before them both
//! are about the cases of `cargo xtask sharing`. Nothing here is random, and no
//! thread of the engine does work of its own, so the counts of two runs differ by little.
#![forbid(unsafe_code)]

mod data;
mod sharing;

use data::{KEYS, VALUE, compacted, fill, key};
use siltdb::{Db, Error, Isolation, Options, Read, Result, WriteBatch};
use std::{hint::black_box, process::ExitCode};

/// Operations of a case.
const OPERATIONS: u64 = 10_000;

/// Operations of a batch.
const BATCH: u64 = 100;

/// A kind of operation.
struct Case {
    name: &'static str,
    /// Prepares the database and runs the operations within [`measured`].
    run: fn(&Db) -> Result<u64>,
}

const CASES: [Case; 15] = [
    Case { name: "put", run: |db| count(|index| db.put(key(index), VALUE)) },
    Case { name: "batch_entry", run: batches },
    Case { name: "transaction", run: transactions },
    Case {
        name: "delete",
        run: |db| {
            fill(db, 0..KEYS)?;
            count(|index| db.delete(key(index)))
        },
    },
    Case {
        name: "get_memtable",
        run: |db| {
            fill(db, 0..KEYS)?;
            gets(db, 0)
        },
    },
    Case {
        name: "get_level0",
        run: |db| {
            for part in 0..4 {
                fill(db, part * KEYS / 4..(part + 1) * KEYS / 4)?;
                db.flush()?;
            }
            gets(db, 0)
        },
    },
    Case {
        name: "get_table",
        run: |db| {
            compacted(db)?;
            gets(db, 0)
        },
    },
    Case {
        name: "get_miss",
        run: |db| {
            compacted(db)?;
            gets(db, KEYS)
        },
    },
    Case { name: "seek", run: seeks },
    Case { name: "cursor_step", run: cursor_steps },
    Case { name: "cursor_step_memtable", run: cursor_steps_memtable },
    Case { name: "iterator_step", run: iterator_steps },
    Case { name: "flush_entry", run: flush },
    Case { name: "compaction_entry", run: compaction },
    Case { name: "open", run: open_again },
];

/// Runs what is counted: the counts are those between the entry of this function and its return.
#[inline(never)]
fn measured(work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
    work()
}

/// Runs [`OPERATIONS`] operations.
fn count(mut operation: impl FnMut(u64) -> Result<()>) -> Result<u64> {
    measured(&mut || (0..OPERATIONS).try_for_each(&mut operation))?;
    Ok(OPERATIONS)
}

fn gets(db: &Db, first: u64) -> Result<u64> {
    let get = |index| db.get(key(first + index)).map(|value| drop(black_box(value)));
    // Once before, so that what is read is in the cache.
    (0..OPERATIONS).try_for_each(get)?;
    count(get)
}

fn batches(db: &Db) -> Result<u64> {
    let mut batch = WriteBatch::new();
    let family = db.default_family();
    measured(&mut || {
        for first in (0..OPERATIONS).step_by(BATCH as usize) {
            batch.clear();
            for index in first..first + BATCH {
                batch.put(&family, key(index), VALUE)?;
            }
            db.write(&batch)?;
        }
        Ok(())
    })?;
    Ok(OPERATIONS)
}

/// One read and one write each.
fn transactions(db: &Db) -> Result<u64> {
    fill(db, 0..KEYS)?;
    count(|index| {
        let transaction = db.begin(Isolation::Serializable);
        black_box(transaction.get(key(index))?);
        transaction.put(key(index), VALUE)?;
        transaction.commit().map(drop)
    })
}

fn seeks(db: &Db) -> Result<u64> {
    compacted(db)?;
    let mut cursor = db.cursor()?;
    count(|index| {
        cursor.seek(key(index))?;
        black_box(cursor.entry());
        Ok(())
    })
}

fn cursor_steps(db: &Db) -> Result<u64> {
    compacted(db)?;
    walk(db)
}

fn cursor_steps_memtable(db: &Db) -> Result<u64> {
    fill(db, 0..KEYS)?;
    walk(db)
}

fn walk(db: &Db) -> Result<u64> {
    let mut cursor = db.cursor()?;
    cursor.seek_to_first()?;
    count(|_| {
        black_box(cursor.entry());
        cursor.next()
    })
}

fn iterator_steps(db: &Db) -> Result<u64> {
    compacted(db)?;
    let mut iter = db.iter()?;
    count(|_| iter.next().map_or(Ok(()), |pair| pair.map(|pair| drop(black_box(pair)))))
}

fn flush(db: &Db) -> Result<u64> {
    fill(db, 0..KEYS)?;
    measured(&mut || db.flush())?;
    Ok(KEYS)
}

fn compaction(db: &Db) -> Result<u64> {
    for part in 0..4 {
        fill(db, part * KEYS / 4..(part + 1) * KEYS / 4)?;
        db.flush()?;
    }
    measured(&mut || db.compact())?;
    Ok(KEYS)
}

/// An opening whose log has all entries, an entry.
fn open_again(db: &Db) -> Result<u64> {
    fill(db, 0..KEYS)?;
    let copy = db.path().with_extension("copy");
    db.checkpoint(&copy)?;
    measured(&mut || options().open(&copy).map(drop))?;
    Ok(KEYS)
}

fn options() -> Options {
    // Without workers the caller runs all jobs.
    Options::new().workers(0).seed(1)
}

fn run(case: &str, dir: &str) -> Result<u64> {
    let case = CASES.iter().find(|known| known.name == case);
    let case = case.ok_or_else(|| Error::invalid("no such case"))?;
    let db = options().open(dir)?;
    (case.run)(&db)
}

fn share(case: &str, dir: &str) -> Result<()> {
    let db = options().open(dir)?;
    sharing::run(case, &db).unwrap_or_else(|| Err(Error::invalid("no such case")))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [] => {
            CASES.iter().for_each(|case| println!("{}", case.name));
            ExitCode::SUCCESS
        }
        [flag] if flag == "--sharing" => {
            sharing::names().for_each(|name| println!("{name}"));
            ExitCode::SUCCESS
        }
        [case, dir] => done(run(case, dir).map(|operations| println!("{operations}"))),
        [flag, case, dir] if flag == "--sharing" => done(share(case, dir)),
        _ => {
            eprintln!("usage: siltdb-counts [--sharing] [CASE DIR]");
            ExitCode::from(2)
        }
    }
}

fn done(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
