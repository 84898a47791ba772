//! Progress, cancellation, and the rate.

use super::world::{
    BACKUPS, DB, RESTORED, back_up, backups, contents, files, fill, filled, numbers, open, options,
    restored,
};
use siltdb::{
    CopyProgress, ErrorKind,
    backup::CopyOptions,
    testing::{Clock, Fs, ManualClock, MemFs},
};
use std::{ops::ControlFlow, path::Path, sync::Arc, thread, time::Duration};

#[test]
fn progress_ascends_to_its_end() {
    let fs = MemFs::new();
    let db = filled(&fs);
    let mut seen: Vec<CopyProgress> = Vec::new();
    let mut note = |progress| {
        seen.push(progress);
        ControlFlow::Continue(())
    };
    let made = db.backup_with(BACKUPS, &CopyOptions::new(), &mut note).unwrap();
    let report = backups(&fs).restore_with(None, RESTORED, &CopyOptions::new(), &mut note);
    assert_eq!(report.unwrap().bytes, made.bytes);
    backups(&fs).verify(None, &mut note).unwrap();
    let runs = seen.chunk_by(|a, b| a.bytes_done <= b.bytes_done);
    let mut count = 0;
    for run in runs {
        let last = run.last().unwrap();
        assert_eq!((last.bytes_done, last.bytes_total), (made.bytes, made.bytes), "{run:?}");
        count += 1;
    }
    assert_eq!(count, 3);
}

#[test]
fn a_cancelled_backup_leaves_the_earlier_ones_and_its_whole_files() {
    let fs = MemFs::new();
    let db = filled(&fs);
    let (_, expected) = back_up(&db);
    super::world::change(&db, 4);
    db.compact().unwrap();
    let (mut cancelled, mut is_done) = (0, false);
    while !is_done {
        let mut calls = 0;
        let made = db.backup_with(BACKUPS, &CopyOptions::new(), &mut |_| {
            calls += 1;
            if calls > cancelled + 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        is_done = made.is_ok();
        if let Err(error) = made {
            assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
            assert_eq!(numbers(&fs), [1]);
            assert_eq!(files(&fs, ".partial"), [""; 0]);
            assert!(restored(&fs, None) == expected);
            cancelled += 1;
        }
    }
    assert!(cancelled > 1, "{cancelled}");
    assert!(restored(&fs, Some(2)) == contents(&db));
    // So does a restore.
    let error = backups(&fs)
        .restore_with(None, RESTORED, &CopyOptions::new(), &mut |_| ControlFlow::Break(()))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert!(fs.metadata(Path::new(RESTORED)).unwrap().is_none());
    let error = backups(&fs).verify(None, &mut |_| ControlFlow::Break(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

/// The backup alone needs its files then.
#[test]
fn a_clone_that_is_dropped_while_it_is_copied_is_in_the_backup() {
    let fs = MemFs::new();
    let db = filled(&fs);
    db.clone_family(&db.default_family(), "copy").unwrap();
    fill(&db, 0..250, 8);
    db.default_family().compact().unwrap();
    let expected = contents(&db);
    let mut is_dropped = false;
    let made = db.backup_with(BACKUPS, &CopyOptions::new(), &mut |_| {
        if !is_dropped {
            is_dropped = true;
            db.drop_family("copy").unwrap();
            fill(&db, 0..250, 9);
            db.compact().unwrap();
            db.settle().unwrap();
        }
        ControlFlow::Continue(())
    });
    assert!(made.unwrap().files > 2);
    assert!(restored(&fs, None) == expected);
    // The next job frees what the backup kept.
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    let tables = || {
        let entries = fs.list(Path::new(DB)).unwrap().into_iter();
        entries.filter(|entry| entry.name.ends_with(".table")).count()
    };
    let left = tables();
    db.close().unwrap();
    drop(open(&fs));
    assert_eq!(tables(), left, "an orphan was left to the next opening");
}

#[test]
fn a_close_cancels_the_backup() {
    let fs = MemFs::new();
    let db = filled(&fs);
    let mut closing = None;
    let made = db.backup_with(BACKUPS, &CopyOptions::new(), &mut |_| {
        if closing.is_none() {
            let other = db.clone();
            closing = Some(thread::spawn(move || other.close()));
            while db.put("key", "value").is_ok() {
                thread::yield_now();
            }
        }
        ControlFlow::Continue(())
    });
    assert_eq!(made.unwrap_err().kind(), ErrorKind::Closed);
    closing.unwrap().join().unwrap().unwrap();
    drop(db);
    assert_eq!(numbers(&fs), [0; 0]);
    let (_, expected) = back_up(&open(&fs));
    assert!(restored(&fs, None) == expected);
}

#[test]
fn a_rate_is_kept_to() {
    let (fs, clock) = (MemFs::new(), Arc::new(ManualClock::at(Duration::from_millis(1_000_000))));
    let db = options(&fs).clock(clock.clone()).open(DB).unwrap();
    fill(&db, 0..200, 1);
    let rate = CopyOptions::new().rate(1_000);
    let begin = clock.monotonic_ns();
    let made = db.backup_with(BACKUPS, &rate, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(made.bytes > 10_000);
    assert_eq!(clock.monotonic_ns() - begin, made.bytes * 1_000_000);
    assert_eq!(backups(&fs).list().unwrap().backups[0].created_ms, clock.wall_ms());
}
