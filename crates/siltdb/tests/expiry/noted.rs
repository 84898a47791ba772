//! The time at which something was seen expired is kept by the log, and by what reads the log.

use crate::expiry::{DIR, World};
use siltdb::{
    Db, ErrorKind, Read,
    backup::Backups,
    salvage::salvage,
    testing::{Crash, Fault, FaultError, FaultSpan},
};
use std::time::Duration;

/// A database with a value that has expired and one that has not, seen so and killed before the
/// clock is set back.
fn seen_and_killed() -> World {
    let world = World::new();
    let db = world.open();
    db.put_for("short", "1", Duration::from_millis(1_000)).unwrap();
    db.put_for("long", "2", Duration::from_millis(60_000)).unwrap();
    world.pass(2_000);
    assert_seen(&db, "at first");
    let killed = World { fs: world.fs.crash_clone(Crash::Kill), clock: world.clock.clone() };
    killed.set_back();
    killed
}

impl World {
    fn set_back(&self) {
        self.clock.set(Duration::from_millis(1_000_500));
    }
}

fn assert_seen(db: &Db, what: &str) {
    let seen = ["short", "long"].map(|key| db.contains(key).unwrap());
    assert_eq!(seen, [false, true], "{what}");
}

#[test]
fn what_was_seen_expired_stays_so_in_each_way_to_read_the_directory_and_in_each_copy() {
    let world = seen_and_killed();
    assert_seen(&world.options().read_only(true).open(DIR).unwrap(), "a read-only opening");
    let follower = world.options().open_follower(DIR).unwrap();
    assert_seen(&follower.db(), "a follower");
    follower.checkpoint("from-follower").unwrap();
    salvage(DIR, "recovered", world.options(), &mut |_| ()).unwrap();
    let db = world.open();
    db.checkpoint("checkpoint").unwrap();
    db.backup("backups").unwrap();
    Backups::with_options("backups", world.options()).restore(None, "restored").unwrap();
    db.close().unwrap();
    for copy in [DIR, "from-follower", "recovered", "checkpoint", "restored"] {
        assert_seen(&world.options().open(copy).unwrap(), copy);
    }
}

#[test]
fn a_follower_shows_nothing_again_that_its_writer_or_itself_saw_expired() {
    let world = World::new();
    let db = world.open();
    db.put_for("short", "1", Duration::from_millis(1_000)).unwrap();
    db.put_for("long", "2", Duration::from_millis(60_000)).unwrap();
    let follower = world.options().open_follower(DIR).unwrap();
    assert!(follower.db().contains("short").unwrap());
    let before = follower.sequence();
    world.pass(2_000);
    assert_seen(&db, "the writer");
    world.set_back();
    follower.catch_up().unwrap();
    assert!(follower.sequence() > before);
    assert_seen(&follower.db(), "after the note");
    // A new manifest takes nothing back.
    db.flush().unwrap();
    follower.catch_up().unwrap();
    assert_seen(&follower.db(), "after a flush");
}

/// A database whose log takes no more record without a call of the file system, with a value that
/// has expired since.
fn full_to_the_brim(world: &World) -> Db {
    let db = world.open();
    db.put_for("short", "1", Duration::from_millis(1_000)).unwrap();
    db.put_for("long", "2", Duration::from_millis(60_000)).unwrap();
    world.fs.set_space_limit(Some(world.fs.space_used()));
    for bytes in [64 << 10, 1 << 10, 8] {
        let full = (0..).find_map(|_| db.put("pad", vec![0; bytes]).err());
        assert_eq!(full.map(|error| error.kind()), Some(ErrorKind::NoSpace));
    }
    world.pass(2_000);
    db
}

#[test]
fn a_full_disk_takes_no_note_and_a_reader_has_its_answer() {
    let world = World::new();
    let db = full_to_the_brim(&world);
    let before = db.snapshot().sequence();
    assert_seen(&db, "on a full disk");
    assert_eq!(db.snapshot().sequence(), before);
    world.fs.set_space_limit(None);
    assert_seen(&db, "with space again");
    assert_eq!(db.snapshot().sequence(), before + 1);
    let killed = World { fs: world.fs.crash_clone(Crash::Kill), clock: world.clock.clone() };
    killed.set_back();
    assert_seen(&killed.open(), "in the next process");
    db.put("more", "3").unwrap();
}

#[test]
fn a_reader_has_its_answer_where_a_call_for_the_note_fails() {
    let mut failed = 0;
    for (nth, span) in (1..4).flat_map(|nth| [(nth, FaultSpan::Once), (nth, FaultSpan::FromThenOn)])
    {
        let world = World::new();
        let db = full_to_the_brim(&world);
        world.fs.set_space_limit(None);
        world.fs.set_fault(Some(Fault { kind: None, nth, span, error: FaultError::Io }));
        assert_seen(&db, "with a call that fails");
        let faults = world.fs.faults();
        failed += faults;
        world.fs.set_fault(None);
        assert_seen(&db, "afterwards");
        // A log that could not be written to is no log for what comes after it.
        match db.put("more", "3") {
            Ok(()) => assert!(db.contains("more").unwrap()),
            Err(error) => {
                assert!(faults > 0);
                assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
            }
        }
        drop(db);
        let killed = World { fs: world.fs.crash_clone(Crash::Kill), clock: world.clock.clone() };
        assert_seen(&killed.open(), "in the next process");
    }
    assert!(failed > 0);
}
