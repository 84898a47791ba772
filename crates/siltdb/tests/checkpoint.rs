//! Checkpoints during writes.

use siltdb::{
    CheckpointOptions, CopyProgress, Db, ErrorKind, FamilyOptions, Options, Read, WriteBatch,
    testing::{CallKind, Crash, Fault, FaultError, FaultSpan, Fs, MemFs},
};
use std::{
    ops::ControlFlow,
    path::Path,
    sync::{Arc, Mutex, mpsc},
    thread,
};

fn open(fs: &MemFs, dir: &str) -> Db {
    let options = Options::new().fs(Arc::new(fs.clone())).workers(0);
    options.memtable_bytes(64 << 10).memory_budget(16 << 20).seed(3).open(dir).unwrap()
}

fn contents(db: &Db) -> Vec<(Vec<u8>, Vec<u8>)> {
    let pairs = db.prefix(b"").unwrap().map(|entry| {
        let (key, value) = entry.unwrap();
        (key.to_vec(), value.to_vec())
    });
    pairs.collect()
}

fn fill(db: &Db, value: u8) {
    for number in 0..600_u32 {
        db.put(number.to_be_bytes(), [value; 100]).unwrap();
    }
}

/// The checkpoint stops before it copies the first log file. Meanwhile everything is flushed, which
/// would let the log files be reused.
#[test]
fn flushes_while_the_log_is_copied_do_not_reach_the_checkpoint() {
    let fs = MemFs::new();
    let db = open(&fs, "db");
    fill(&db, 1);
    let expected = contents(&db);
    let ((reached, copies), (go_on, goes_on)) = (mpsc::channel(), mpsc::channel::<()>());
    let gate = Mutex::new(Some((reached, goes_on)));
    fs.on_call(Some(Arc::new(move |call| {
        let is_log = call.path.extension().is_some_and(|name| name == "log");
        if call.kind == CallKind::Create && is_log {
            let gate = gate.lock().unwrap().take();
            if let Some((reached, goes_on)) = gate {
                reached.send(()).unwrap();
                let _ = goes_on.recv();
            }
        }
    })));
    let source = db.clone();
    let copying = thread::spawn(move || source.checkpoint(Path::new("copy")));
    copies.recv().unwrap();
    for value in 2..8 {
        fill(&db, value);
        db.flush().unwrap();
    }
    drop(go_on);
    let made = copying.join().unwrap().unwrap();
    assert_eq!(made.sequence, 600);
    let copy = open(&fs, "copy");
    assert!(contents(&copy) == expected, "the checkpoint holds something else");
    assert!(copy.check(&mut |_| ()).unwrap().errors.is_empty());
}

/// Real threads and real files: each checkpoint is a prefix of the commits, with at least those
/// acknowledged before it began.
#[test]
fn checkpoints_beside_writers_hold_a_prefix() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Options::new().memtable_bytes(64 << 10).workers(2);
    let db = options().open(dir.path().join("db")).unwrap();
    let writer = db.clone();
    let writing = thread::spawn(move || {
        for number in 0..40_000_u32 {
            writer.put(number.to_be_bytes(), [number as u8; 50]).unwrap();
        }
    });
    let mut made = 0;
    while !writing.is_finished() || made < 3 {
        let before = db.stats().sequence;
        let path = dir.path().join(format!("copy {made}"));
        let sequence = db.checkpoint(&path).unwrap().sequence;
        assert!(sequence >= before, "{sequence} after {before}");
        let copy = options().open(&path).unwrap();
        let found = contents(&copy);
        assert_eq!(found.len() as u64, sequence);
        for (number, (key, value)) in found.iter().enumerate() {
            assert_eq!(key[..], (number as u32).to_be_bytes());
            assert_eq!(value[..], [number as u8; 50]);
        }
        made += 1;
    }
    writing.join().unwrap();
}

/// Of two families that commits write to together, one is chosen; the other is not there, and the
/// default family is empty.
#[test]
fn a_checkpoint_of_chosen_families_holds_these_alone() {
    let fs = MemFs::new();
    let db = open(&fs, "db");
    let (users, logs) = (
        db.create_family("users", FamilyOptions::new()).unwrap(),
        db.create_family("logs", FamilyOptions::new()).unwrap(),
    );
    fill(&db, 1);
    db.flush().unwrap();
    let mut batch = WriteBatch::new();
    for family in [&users, &logs, &db.default_family()] {
        batch.put(family, "key", "value").unwrap();
    }
    db.write(&batch).unwrap();
    let options = CheckpointOptions::new().families(["users"]);
    let made = db.checkpoint_with("copy", &options, &mut go_on).unwrap();
    assert_eq!((made.sequence, made.copied_files), (603, 0));
    assert!(made.linked_files >= 1, "{made:?}");
    users.put("key", "later").unwrap();
    let copy = open(&fs, "copy");
    assert_eq!(copy.families(), ["default", "users"]);
    assert!(contents(&copy).is_empty());
    assert_eq!(copy.family("users").unwrap().get("key").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(copy.stats().sequence, 603);
    // It goes on as any database, and after a kill, too.
    copy.put("key", "new").unwrap();
    let made = copy.create_family("logs", FamilyOptions::new()).unwrap();
    assert_ne!(made.id(), logs.id());
    let killed = fs.crash_clone(Crash::Kill);
    let copy = open(&killed, "copy");
    assert_eq!(copy.get("key").unwrap().as_deref(), Some(&b"new"[..]));
    assert!(copy.check(&mut |_| ()).unwrap().errors.is_empty());
    // With the default one named, it is as the database has it.
    let options = CheckpointOptions::new().families(["default"]);
    db.checkpoint_with("default", &options, &mut go_on).unwrap();
    assert_eq!(contents(&open(&fs, "default")), contents(&db));
    let error = db.checkpoint_with("none", &options.families(["absent"]), &mut go_on);
    assert_eq!(error.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(fs.metadata(Path::new("none")).unwrap().is_none());
    assert!(fs.metadata(Path::new("none.partial")).unwrap().is_none());
}

/// A branch and `main` hold different values under the same names. A checkpoint of the branch is a
/// database of its own, whose default family is that of the branch.
#[test]
fn a_checkpoint_of_a_branch_holds_its_families_as_its_own() {
    let fs = MemFs::new();
    let db = open(&fs, "db");
    let users = db.create_family("users", FamilyOptions::new()).unwrap();
    fill(&db, 1);
    users.put("who", "main").unwrap();
    let fix = db.create_branch("fix").unwrap();
    fix.family("default").unwrap().put("key", "of the branch").unwrap();
    fix.family("users").unwrap().put("who", "branch").unwrap();
    db.put("key", "of main").unwrap();
    let checkpoint = |dir: &str, options: CheckpointOptions| {
        db.checkpoint_with(dir, &options, &mut go_on).map(|_| open(&fs, dir))
    };
    let all = checkpoint("all", CheckpointOptions::new().branch("fix")).unwrap();
    assert_eq!(all.families(), ["default", "users"]);
    assert!(all.branches().is_empty());
    assert_eq!(all.get("key").unwrap().as_deref(), Some(&b"of the branch"[..]));
    assert_eq!(all.count(..).unwrap(), 601);
    let who = |db: &Db| db.family("users").unwrap().get("who").unwrap().unwrap().to_vec();
    assert_eq!(who(&all), b"branch");
    // It is written, compacted and recovered as any database.
    all.put("key", "later").unwrap();
    all.compact().unwrap();
    drop(all);
    let again = open(&fs.crash_clone(Crash::Kill), "all");
    assert_eq!(again.get("key").unwrap().as_deref(), Some(&b"later"[..]));
    assert!(again.check(&mut |_| ()).unwrap().errors.is_empty());
    let options = CheckpointOptions::new().branch("fix").families(["users"]);
    let chosen = checkpoint("chosen", options).unwrap();
    assert_eq!((chosen.count(..).unwrap(), who(&chosen)), (0, b"branch".to_vec()));
    let of_main = checkpoint("main", CheckpointOptions::new().branch("main")).unwrap();
    assert_eq!((of_main.branches().len(), who(&of_main)), (0, b"main".to_vec()));
    assert_eq!(of_main.get("key").unwrap().as_deref(), Some(&b"of main"[..]));
    for options in [
        CheckpointOptions::new().branch("absent"),
        CheckpointOptions::new().branch("fix").families(["absent"]),
    ] {
        assert_eq!(checkpoint("none", options).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(fs.metadata(Path::new("none")).unwrap().is_none());
    }
}

#[test]
fn a_copy_into_a_database_or_its_cold_directory_is_refused_by_name() {
    let fs = MemFs::new();
    let options = Options::new().fs(Arc::new(fs.clone())).workers(0).cold_directory("../cold");
    let db = options.open("db").unwrap();
    fill(&db, 1);
    db.default_family().freeze().unwrap();
    let list = |dir: &str| -> Vec<String> {
        fs.list(Path::new(dir)).unwrap().into_iter().map(|entry| entry.name).collect()
    };
    let before = [list("db"), list("cold")];
    for (dir, words) in [("db", "belongs to a database"), ("cold", "the cold directory of")] {
        let place = |name: &str| format!("{dir}/{name}");
        let refused = [
            db.checkpoint(place("copy")).map(drop),
            db.backup(place("backups")).map(drop),
            db.backup(dir).map(drop),
            db.archive(place("all.siltar")).map(drop),
        ];
        for result in refused {
            let error = result.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{dir}: {error}");
            assert!(error.message().contains(words), "{dir}: {error}");
        }
    }
    assert_eq!([list("db"), list("cold")], before);
    db.checkpoint("copy").unwrap();
}

#[test]
fn a_checkpoint_of_copies_links_nothing_and_can_be_cancelled() {
    let fs = MemFs::new();
    let db = open(&fs, "db");
    fill(&db, 1);
    db.flush().unwrap();
    let expected = contents(&db);
    let options = CheckpointOptions::new().copy(true);
    let mut seen = Vec::new();
    let made = db.checkpoint_with("copy", &options, &mut |progress| {
        seen.push(progress.bytes_done);
        ControlFlow::Continue(())
    });
    let made = made.unwrap();
    assert_eq!(made.linked_files, 0);
    assert!(seen.is_sorted() && seen.last() > Some(&4_000), "{seen:?}");
    assert!(seen.last().is_some_and(|last| *last <= made.copied_bytes), "{seen:?}");
    // Damage to a file of the copy is not that of the database.
    let entries = fs.list(Path::new("copy")).unwrap();
    let table = entries.iter().find(|entry| entry.name.ends_with(".table")).unwrap();
    fs.bytes_flip(&Path::new("copy").join(&table.name), 10, 1).unwrap();
    assert!(db.check(&mut |_| ()).unwrap().errors.is_empty());
    assert_eq!(contents(&db), expected);
    assert_eq!(open(&fs, "copy").check(&mut |_| ()).unwrap().errors.len(), 1);
    let stopped = db.checkpoint_with("stopped", &options, &mut |_| ControlFlow::Break(()));
    assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Cancelled);
    assert!(fs.metadata(Path::new("stopped")).unwrap().is_none());
    db.checkpoint("stopped").unwrap();
    assert_eq!(contents(&open(&fs, "stopped")), expected);
}

fn go_on(_: CopyProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Each call fails once, and then the power is lost: what is left of the attempt is no database,
/// and is not in the way of the next one.
#[test]
fn a_power_loss_after_a_failed_attempt_leaves_nothing_in_the_way_of_the_next() {
    let mut failed = 0;
    for nth in 1.. {
        let fs = MemFs::new();
        let db = open(&fs, "db");
        fill(&db, 1);
        let (span, error) = (FaultSpan::Once, FaultError::Io);
        fs.set_fault(Some(Fault { kind: None, nth, span, error }));
        let made = db.checkpoint("copy");
        let faults = fs.faults();
        if faults == 0 {
            break;
        }
        failed += usize::from(made.is_err());
        for seed in 0..8 {
            let fs = fs.crash_clone(Crash::PowerLoss { seed });
            let db = open(&fs, "db");
            match fs.metadata(Path::new("copy")).unwrap() {
                None => drop(db.checkpoint("copy").unwrap()),
                Some(_) => drop(db.checkpoint("other").unwrap()),
            }
        }
    }
    assert!(failed > 10, "{failed} attempts failed");
}

/// The attempt is killed before the new name is durable. What is written there afterwards stays
/// there: the next attempt at that name would otherwise remove it.
#[test]
fn an_opening_makes_the_name_of_a_copy_durable() {
    for seed in 0..50 {
        let fs = MemFs::new();
        let db = open(&fs, "db");
        fill(&db, 1);
        let killed = Arc::new(Mutex::new(None));
        let (disk, at) = (fs.clone(), Arc::clone(&killed));
        fs.on_call(Some(Arc::new(move |call| {
            let is_named = disk.metadata(Path::new("copy")).unwrap().is_some();
            if is_named && call.kind == CallKind::SyncDir {
                at.lock().unwrap().get_or_insert_with(|| disk.crash_clone(Crash::Kill));
            }
        })));
        db.checkpoint("copy").unwrap();
        fs.on_call(None);
        let fs = killed.lock().unwrap().take().unwrap();
        let copy = open(&fs, "copy");
        copy.put("more", "value").unwrap();
        copy.sync_wal().unwrap();
        let fs = fs.crash_clone(Crash::PowerLoss { seed });
        assert!(open(&fs, "copy").contains("more").unwrap(), "{seed}");
    }
}
