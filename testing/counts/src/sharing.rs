//! One operation at a time by many threads in turn, for `cargo xtask sharing`, which follows each
//! access to memory and tells which cache lines threads take from each other.
//!
//! The threads take turns strictly, so that the trace of accesses is that of one order of
//! operations. A store to a line of [`BEGUN`] comes before each operation, one to [`ENDED`] after
//! it. Their addresses are printed first.

use crate::data::{VALUE, fill, key};
use siltdb::{Db, Isolation, Read, Result};
use std::{
    hint::black_box,
    panic::resume_unwind,
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

/// Threads that take turns. `cargo xtask sharing` notes the holders of a line in 64 bits.
const THREADS: usize = 64;

/// Operations of each thread.
const ROUNDS: u64 = 24;

/// Keys of the database before the operations: few, because each access to them is traced, and more
/// than operations.
const KEYS: u64 = 2_000;

/// A cache line of its own.
#[repr(align(64))]
struct Line(AtomicU64);

static BEGUN: [Line; THREADS] = [const { Line(AtomicU64::new(0)) }; THREADS];
static ENDED: Line = Line(AtomicU64::new(0));

/// A kind of operation.
struct Case {
    name: &'static str,
    prepare: fn(&Db) -> Result<()>,
    /// The operation of this number.
    operation: fn(&Db, u64) -> Result<()>,
}

const CASES: [Case; 5] = [
    Case {
        name: "put",
        prepare: |db| fill(db, 0..KEYS),
        operation: |db, number| db.put(key(KEYS + number), VALUE),
    },
    Case {
        name: "put_one_key",
        prepare: |db| fill(db, 0..KEYS),
        operation: |db, _| db.put(key(0), VALUE),
    },
    Case {
        name: "transaction",
        prepare: |db| fill(db, 0..KEYS),
        operation: |db, number| {
            let transaction = db.begin(Isolation::Serializable);
            black_box(transaction.get(key(number))?);
            transaction.put(key(number), VALUE)?;
            transaction.commit().map(drop)
        },
    },
    Case { name: "get", prepare: compacted, operation: get },
    Case { name: "get_one_key", prepare: compacted, operation: |db, _| get(db, 0) },
];

/// All keys in tables below level 0, whose blocks were read once.
fn compacted(db: &Db) -> Result<()> {
    fill(db, 0..KEYS)?;
    db.flush()?;
    db.compact()?;
    (0..KEYS).try_for_each(|number| get(db, number))
}

fn get(db: &Db, number: u64) -> Result<()> {
    db.get(key(number)).map(|value| drop(black_box(value)))
}

/// The names of the cases.
pub fn names() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|case| case.name)
}

/// Runs a case; `None` if there is none of this name.
pub fn run(name: &str, db: &Db) -> Option<Result<()>> {
    let case = CASES.iter().find(|case| case.name == name)?;
    Some(take_turns(db, case))
}

fn take_turns(db: &Db, case: &Case) -> Result<()> {
    println!("{:p} {:p}", &BEGUN, &ENDED);
    (case.prepare)(db)?;
    let (senders, receivers): (Vec<Sender<()>>, Vec<Receiver<()>>) =
        (0..THREADS).map(|_| channel()).unzip();
    let first = senders[0].clone();
    let mut next = senders;
    next.rotate_left(1);
    thread::scope(|scope| {
        let turns = receivers.into_iter().zip(next).enumerate();
        let threads: Vec<_> = turns
            .map(|(thread, (turn, next))| scope.spawn(move || work(db, case, thread, &turn, &next)))
            .collect();
        // The first turn. A thread that fails ends those of all others.
        let _ = first.send(());
        drop(first);
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// Runs the operations of one thread, each at its turn.
fn work(db: &Db, case: &Case, thread: usize, turn: &Receiver<()>, next: &Sender<()>) -> Result<()> {
    for round in 0..ROUNDS {
        if turn.recv().is_err() {
            break;
        }
        let number = round * THREADS as u64 + thread as u64;
        BEGUN[thread].0.store(number, Ordering::SeqCst);
        (case.operation)(db, number)?;
        ENDED.0.store(number, Ordering::SeqCst);
        // In the last round the thread of the next turn may have ended.
        let _ = next.send(());
    }
    Ok(())
}
