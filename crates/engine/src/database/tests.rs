//! What writers wait for (law B8).

use super::*;
use crate::{
    commit::{Payload, commit},
    fixture::{DIR, not_stuck, options},
    jobs::run_one,
    options::Durability,
    recovery,
};
use siltdb_base::{fs::mem::MemFs, key::EntryKind};
use std::path::Path;

#[test]
fn a_pressure_that_was_noted_too_late_stops_nobody_for_ever() {
    for waiting in [Waiting::ForWorkers, Waiting::RunJob(run_one)] {
        let fs = MemFs::new();
        let (database, lock) = recovery::open(Path::new(DIR), options(&fs), waiting).unwrap();
        not_stuck(move || {
            let family = database.families.named("default").unwrap();
            let huge = vec![7; 2 * database.options.memtable_bytes];
            let put = Payload::one(&family, EntryKind::Put, b"key", &huge);
            commit(&database, &put, Durability::Buffered).unwrap();
            // By a thread that looked before the last flush, and stores only now what it saw.
            database.pressure.store(u64::MAX, Ordering::Relaxed);
            // It needs a generation of its own, and so asks for room.
            commit(&database, &put, Durability::Buffered).unwrap();
            drop(lock);
        });
    }
}
