//! Copies of a database with separated values hold them all.

use crate::blobs::world::{
    blob_files, contents, fill, filled, key, open, options, separating, value,
};
use siltdb::{backup::Backups, testing::MemFs};
use siltdb_base::fs::mem::CallKind;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

fn with_fs(fs: &MemFs) -> siltdb::Options {
    siltdb::Options::new().fs(Arc::new(fs.clone()))
}

#[test]
fn a_checkpoint_has_values_of_tables_and_of_the_log_and_goes_on_alone() {
    let fs = MemFs::new();
    let db = open(&fs);
    fill(&db, 0..100, 1);
    db.flush().unwrap();
    fill(&db, 100..150, 1);
    db.checkpoint("copy").unwrap();
    // The source goes on, and collects what the copy needs.
    for round in 2..6 {
        fill(&db, 0..150, round);
        db.compact().unwrap();
        while db.run_job().unwrap() {}
    }
    let copy = options(&fs).open("copy").unwrap();
    assert_eq!(contents(&copy), filled(0..150, 1));
    for round in 2..6 {
        fill(&copy, 0..150, round + 10);
        copy.compact().unwrap();
        while copy.run_job().unwrap() {}
    }
    assert_eq!(contents(&copy), filled(0..150, 15));
    assert_eq!(contents(&db), filled(0..150, 5));
    for db in [&db, &copy] {
        assert!(db.check(&mut |_| ()).unwrap().errors.is_empty());
    }
}

/// Small blob files, so that one is begun every few puts.
fn many_files(fs: &MemFs) -> siltdb::Db {
    let db = open(fs);
    db.default_family().set_options(&separating().blob_file_bytes(64 << 10)).unwrap();
    db
}

#[test]
fn a_blob_file_is_one_of_the_database_when_the_manifest_begins_to_name_it() {
    let fs = MemFs::new();
    let db = many_files(&fs);
    let (reached, at_sync) = mpsc::channel();
    let (go_on, released) = mpsc::channel::<()>();
    let gate = Mutex::new(Some(released));
    fs.on_call(Some(Arc::new(move |call| {
        let is_edit = call.path.extension().is_some_and(|name| name == "manifest");
        if is_edit && call.kind == CallKind::Sync {
            let released = gate.lock().unwrap().take();
            if let Some(released) = released {
                reached.send(()).unwrap();
                let _ = released.recv_timeout(Duration::from_secs(30));
            }
        }
    })));
    thread::scope(|scope| {
        let writer = scope.spawn(|| db.put(key(1), value(1, 1, 5_000)));
        at_sync.recv_timeout(Duration::from_secs(30)).unwrap();
        // A copy that reads the manifest after this edit finds the file.
        assert_eq!(db.stats().blob_files, 1);
        go_on.send(()).unwrap();
        writer.join().unwrap().unwrap();
    });
}

#[test]
fn checkpoints_and_backups_beside_overwrites_have_their_blob_files() {
    let fs = MemFs::new();
    let db = many_files(&fs);
    fill(&db, 0..20, 0);
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut round = 1;
            let mut files_max = 0;
            while !is_done.load(Ordering::Relaxed) {
                fill(&db, 0..20, round);
                files_max = files_max.max(db.stats().blob_files);
                round += 1;
                while round % 8 == 0 && db.run_job().unwrap() {}
            }
            assert!(files_max > 1, "copies were made of one blob file alone");
            round
        });
        for number in 0..200 {
            let name = format!("copies/{number}");
            db.checkpoint(&name).unwrap();
            let copy = options(&fs).open(&name).unwrap();
            assert_eq!(contents(&copy).len(), 20);
            if number % 10 == 0 {
                db.backup("backups").unwrap();
            }
            drop(copy);
            with_fs(&fs).destroy(&name).unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
        assert!(writer.join().unwrap() > 20);
    });
}

#[test]
fn a_checkpoint_of_chosen_families_takes_only_their_blob_files() {
    let fs = MemFs::new();
    let db = open(&fs);
    fill(&db, 0..150, 1);
    db.flush().unwrap();
    let family = db.create_family("chosen", separating()).unwrap();
    db.checkpoint("between").unwrap();
    family.put(key(1), value(1, 1, 1000)).unwrap();
    let chosen = siltdb::CheckpointOptions::new().families(["chosen"]);
    db.checkpoint_with("copy", &chosen, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
    let copy = options(&fs).open("copy").unwrap();
    assert_eq!(contents(&copy.family("chosen").unwrap()), filled(1..2, 1));
    let (all, copied) = (blob_files(&fs, "db").len(), blob_files(&fs, "copy").len());
    assert!(copied < all, "{copied} of {all}");
}

#[test]
fn backups_share_blob_files_and_restore_them() {
    let fs = MemFs::new();
    let db = open(&fs);
    fill(&db, 0..100, 1);
    let first = db.backup("backups").unwrap();
    fill(&db, 100..120, 1);
    let second = db.backup("backups").unwrap();
    assert!(second.copied_bytes < first.copied_bytes, "{second:?} after {first:?}");
    for round in 2..5 {
        fill(&db, 0..120, round);
        db.compact().unwrap();
        while db.run_job().unwrap() {}
    }
    db.backup("backups").unwrap();
    let backups = Backups::with_options("backups", with_fs(&fs));
    let verified = backups.verify(None, &mut |_| std::ops::ControlFlow::Continue(())).unwrap();
    assert!(verified.is_clean(), "{verified:?}");
    for (number, expected) in
        [(1, filled(0..100, 1)), (2, filled(0..120, 1)), (3, filled(0..120, 4))]
    {
        let target = format!("restored{number}");
        backups.restore(Some(number), &target).unwrap();
        let restored = options(&fs).open(&target).unwrap();
        assert_eq!(contents(&restored), expected);
        assert!(restored.check(&mut |_| ()).unwrap().errors.is_empty());
    }
    backups.prune(1).unwrap();
    backups.restore(None, "last").unwrap();
    assert_eq!(contents(&options(&fs).open("last").unwrap()), filled(0..120, 4));
}

#[test]
fn an_archive_holds_whole_values_and_brings_them_back() {
    let fs = MemFs::new();
    let db = open(&fs);
    fill(&db, 0..100, 1);
    db.archive("data.siltar").unwrap();
    let other = options(&fs).open("other").unwrap();
    let import = siltdb::archive::ImportOptions::new().replace(true);
    other
        .import_archive_with("data.siltar", &import, &mut |_| std::ops::ControlFlow::Continue(()))
        .unwrap();
    drop(db);
    for (name, _) in blob_files(&fs, "db") {
        siltdb::testing::Fs::remove(&fs, &std::path::Path::new("db").join(name)).unwrap();
    }
    assert_eq!(contents(&other), filled(0..100, 1));
}

#[test]
fn a_follower_reads_values_that_the_writer_moves_and_removes() {
    let fs = MemFs::new();
    let db = open(&fs);
    fill(&db, 0..100, 1);
    let follower = with_fs(&fs).workers(0).open_follower("db").unwrap();
    assert_eq!(contents(&follower.db()), filled(0..100, 1));
    db.flush().unwrap();
    fill(&db, 100..130, 1);
    follower.catch_up().unwrap();
    let old = follower.db();
    assert_eq!(contents(&old), filled(0..130, 1));
    for round in 2..6 {
        fill(&db, 0..130, round);
        db.compact().unwrap();
        while db.run_job().unwrap() {}
        follower.catch_up().unwrap();
        assert_eq!(contents(&follower.db()), filled(0..130, round));
        assert_eq!(contents(&old), filled(0..130, 1));
    }
}

#[test]
fn branches_share_values_and_merge_their_own() {
    let fs = MemFs::new();
    let db = open(&fs);
    fill(&db, 0..60, 1);
    let branch = db.create_branch("try").unwrap();
    let family = branch.family("default").unwrap();
    family.put(key(3), value(3, 9, 1000)).unwrap();
    fill(&db, 50..60, 2);
    let mut on_branch = filled(0..60, 1);
    on_branch.insert(key(3).to_vec(), value(3, 9, 1000));
    assert_eq!(contents(&family), on_branch);
    assert_eq!(db.merge_branch("try").unwrap().conflicts, 0);
    let mut merged = filled(0..50, 1);
    merged.extend(filled(50..60, 2));
    merged.insert(key(3).to_vec(), value(3, 9, 1000));
    assert_eq!(contents(&db), merged);
}
