//! Drops that are no commits, beside commits that have read the dropped family: each is before or
//! after the other, for all readers.
//!
//! # Seeded faults
//! `drop_without_a_number_passes`: a commit looks for drops before it has its place only.
//! `drop_without_a_number_waits_for_none`: a drop does not wait for the commits before it.

use siltdb::{
    Db, ErrorKind, FamilyOptions, Isolation, Options, Read, Result,
    archive::ImportOptions,
    testing::{CallKind, MemFs},
};
use std::{
    ops::ControlFlow,
    sync::{
        Arc, Mutex,
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::Duration,
};

/// Longer than any test takes that is not stuck.
const STUCK: Duration = Duration::from_secs(20);

/// A way to drop the family "users" of the database, or of its branch.
struct Verb {
    branch: Option<&'static str>,
    run: fn(&Db) -> Result<()>,
}

const VERBS: [Verb; 3] = [
    Verb { branch: None, run: |db| db.drop_family("users") },
    Verb { branch: Some("draft"), run: |db| db.drop_branch("draft") },
    Verb {
        branch: None,
        run: |db| {
            let options = ImportOptions::new().replace(true).family("users", "users");
            let go_on = &mut |_| ControlFlow::Continue(());
            db.import_archive_with("users.siltar", &options, go_on).map(drop)
        },
    },
];

struct World {
    fs: MemFs,
    db: Db,
    reached: Receiver<()>,
    release: Sender<()>,
}

impl World {
    /// A database whose next call of `kind` on a log file stops.
    fn stopped_at(kind: CallKind) -> Self {
        let fs = MemFs::new();
        let db = Options::new().workers(0).fs(Arc::new(fs.clone())).open("db").unwrap();
        let users = db.create_family("users", FamilyOptions::new()).unwrap();
        users.put("1", "alice").unwrap();
        db.archive("users.siltar").unwrap();
        db.create_branch("draft").unwrap();
        db.put("k", "v").unwrap();
        let (stopped, reached) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let gate = Mutex::new(Some((stopped, released)));
        fs.on_call(Some(Arc::new(move |call| {
            let is_it = call.kind == kind && call.path.extension().is_some_and(|e| e == "log");
            let gate = if is_it { gate.lock().unwrap().take() } else { None };
            if let Some((stopped, released)) = gate {
                stopped.send(()).unwrap();
                let _ = released.recv();
            }
        })));
        Self { fs, db, reached, release }
    }

    /// A transaction that has read the family and writes `seen`.
    fn reader(&self, verb: &Verb, value: Vec<u8>) -> siltdb::Transaction {
        let users = match verb.branch {
            None => self.db.family("users").unwrap(),
            Some(branch) => self.db.branch(branch).unwrap().family("users").unwrap(),
        };
        let transaction = self.db.begin(Isolation::Serializable);
        assert!(transaction.family(&users).unwrap().contains("1").unwrap());
        transaction.put("seen", value).unwrap();
        transaction
    }
}

/// Otherwise a reader between the two would see the drop, and not the commit that relies on the
/// family.
#[test]
fn a_drop_is_noticed_by_a_commit_that_was_checked_before_it_and_has_no_place_yet() {
    for verb in VERBS {
        let world = World::stopped_at(CallKind::Prepare);
        // It needs a new window of the log.
        let transaction = world.reader(&verb, vec![0; 4 << 20]);
        let committing = thread::spawn(move || transaction.commit().map(drop));
        world.reached.recv_timeout(STUCK).unwrap();
        (verb.run)(&world.db).unwrap();
        let after = world.db.snapshot();
        world.release.send(()).unwrap();
        let error = committing.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert!(!after.contains("seen").unwrap() && !world.db.contains("seen").unwrap());
    }
}

/// A snapshot that is taken after the drop sees every commit before it.
#[test]
fn a_drop_waits_for_the_commits_that_have_a_place() {
    for verb in VERBS {
        let world = World::stopped_at(CallKind::Fill);
        let transaction = world.reader(&verb, vec![0; 4]);
        let committing = thread::spawn(move || transaction.commit().map(drop));
        world.reached.recv_timeout(STUCK).unwrap();
        let db = world.db.clone();
        let dropping = thread::spawn(move || {
            (verb.run)(&db).unwrap();
            db.snapshot()
        });
        thread::sleep(Duration::from_millis(20));
        assert!(!dropping.is_finished(), "it did not wait");
        world.release.send(()).unwrap();
        committing.join().unwrap().unwrap();
        assert!(dropping.join().unwrap().contains("seen").unwrap());
    }
}

/// A drop that fails leaves the family as it was: later commits that read it succeed.
#[test]
fn a_drop_that_fails_is_in_the_way_of_no_commit() {
    let world = World::stopped_at(CallKind::Lock);
    world.fs.set_space_limit(Some(world.fs.space_used()));
    let dropped = world.db.drop_family("users");
    world.fs.set_space_limit(None);
    assert_eq!(dropped.unwrap_err().kind(), ErrorKind::NoSpace);
    world.reader(&VERBS[0], vec![0; 4]).commit().unwrap();
    world.db.drop_family("users").unwrap();
}

/// Its locks do not stop a drop: it commits what it wrote elsewhere, now or after a reopen.
#[test]
fn a_family_that_a_prepared_transaction_has_read_can_be_dropped() {
    for verb in VERBS {
        for is_reopened in [false, true] {
            let fs = MemFs::new();
            let open = || Options::new().workers(0).fs(Arc::new(fs.clone())).open("db").unwrap();
            let mut db = open();
            let users = db.create_family("users", FamilyOptions::new()).unwrap();
            users.put("1", "alice").unwrap();
            db.archive("users.siltar").unwrap();
            let family = match verb.branch {
                Some(name) => db.create_branch(name).unwrap().family("users").unwrap(),
                None => users,
            };
            let transaction = db.begin(Isolation::Serializable);
            assert!(transaction.family(&family).unwrap().get("1").unwrap().is_some());
            transaction.put("greeting", "alice").unwrap();
            transaction.prepare("t").unwrap();
            (verb.run)(&db).unwrap();
            if is_reopened {
                db.close().unwrap();
                drop(family);
                db = open();
            }
            db.commit_prepared("t").unwrap();
            assert_eq!(db.get("greeting").unwrap().as_deref(), Some(&b"alice"[..]));
        }
    }
}
