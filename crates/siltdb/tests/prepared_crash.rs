//! Prepared transactions and crashes: at each call that changes a file, and between random steps, a
//! kill and a power loss leave each transaction undecided, committed or gone, never half, and never
//! less than was acknowledged.

use crate::maps::Random;
use siltdb::{
    Db, Durability, ErrorKind, FamilyOptions, Isolation, Options, Read, TransactionOptions,
    WriteOptions,
};
use siltdb_base::{
    clock::ManualClock,
    fs::mem::{Call, Crash, MemFs},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

fn open(fs: &MemFs) -> Db {
    let options = Options::new()
        .fs(Arc::new(fs.clone()))
        .clock(Arc::new(ManualClock::at(Duration::from_millis(1_000))));
    let options = options.workers(0).seed(3).memtable_bytes(4 << 10).memory_budget(1 << 20);
    options.lock_timeout(Duration::ZERO).open("db").unwrap()
}

/// What may have become of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    /// Not prepared, or rolled back.
    Gone,
    Undecided,
    Committed,
}

use Fate::{Committed, Gone, Undecided};

/// The fates that a crash may leave, by the kind of crash.
#[derive(Clone, Debug)]
struct Fates {
    kill: Vec<Fate>,
    power: Vec<Fate>,
}

impl Fates {
    fn certain(fate: Fate) -> Self {
        Self { kill: vec![fate], power: vec![fate] }
    }
}

type Expected = BTreeMap<String, Fates>;

/// What a crash left, and what it may have left.
struct State {
    fs: MemFs,
    crash: Crash,
    expected: Expected,
    call: String,
}

/// A database whose file system is cloned at each call.
struct World {
    fs: MemFs,
    db: Option<Db>,
    expected: Arc<Mutex<Expected>>,
    states: Arc<Mutex<Vec<State>>>,
}

/// Prepares a transaction over two families, which also deletes a key that every state has.
fn prepare(db: &Db, id: &str) {
    let family = db.family("f").unwrap();
    let options = TransactionOptions::new().isolation(Isolation::Serializable);
    let transaction = db.begin_with(&options.lock_timeout(Duration::ZERO));
    transaction.put(id, [b'v'; 300]).unwrap();
    transaction.delete(format!("old {id}")).unwrap();
    transaction.family(&family).unwrap().put(id, "f").unwrap();
    transaction.prepare(id).unwrap();
}

/// The fate of a transaction, as a database shows it; half of one is a failure.
fn fate(db: &Db, id: &str) -> Fate {
    let is_listed = db.prepared().iter().any(|prepared| prepared.id() == id.as_bytes());
    let family = db.family("f").unwrap();
    let effects = [
        db.contains(id).unwrap(),
        family.contains(id).unwrap(),
        !db.contains(format!("old {id}")).unwrap(),
    ];
    match (is_listed, effects) {
        (true, [false, false, false]) => Undecided,
        (false, [true, true, true]) => Committed,
        (false, [false, false, false]) => Gone,
        half => panic!("half of {id}: {half:?}"),
    }
}

impl World {
    fn new(ids: &[&str]) -> Self {
        let fs = MemFs::new();
        let db = open(&fs);
        db.create_family("f", FamilyOptions::new()).unwrap();
        for id in ids {
            db.put(format!("old {id}"), "").unwrap();
        }
        db.sync_wal().unwrap();
        let none = ids.iter().map(|id| ((*id).to_owned(), Fates::certain(Gone)));
        let expected = Arc::new(Mutex::new(none.collect()));
        Self { fs, db: Some(db), expected, states: Arc::default() }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().unwrap()
    }

    /// From now on a kill and a power loss are kept at each call.
    fn watch(&self) {
        let (fs, expected, states) =
            (self.fs.clone(), Arc::clone(&self.expected), Arc::clone(&self.states));
        self.fs.on_call(Some(Arc::new(move |call: Call<'_>| {
            for crash in [Crash::Kill, Crash::PowerLoss { seed: call.number }] {
                let expected = expected.lock().unwrap().clone();
                let call = format!("{:?} {}", call.kind, call.path.display());
                let fs = fs.crash_clone(crash);
                states.lock().unwrap().push(State { fs, crash, expected, call });
            }
        })));
    }

    fn expect(&self, id: &str, fates: Fates) {
        self.expected.lock().unwrap().insert(id.to_owned(), fates);
    }

    fn prepare(&self, id: &str) {
        self.expect(id, Fates { kill: vec![Gone, Undecided], power: vec![Gone, Undecided] });
        prepare(self.db(), id);
        self.expect(id, Fates::certain(Undecided));
    }

    fn decide(&self, id: &str, decided: Fate, durability: Durability) {
        let either = vec![Undecided, decided];
        self.expect(id, Fates { kill: either.clone(), power: either.clone() });
        let options = WriteOptions::new().durability(durability);
        match decided {
            Committed => drop(self.db().commit_prepared_with(id, &options).unwrap()),
            _ => self.db().rollback_prepared_with(id, &options).unwrap(),
        }
        let power = if durability == Durability::Synced { vec![decided] } else { either };
        self.expect(id, Fates { kill: vec![decided], power });
    }

    fn sync(&self) {
        self.db().sync_wal().unwrap();
        for fates in self.expected.lock().unwrap().values_mut() {
            fates.power.clone_from(&fates.kill);
        }
    }

    /// So much that a generation is frozen.
    fn fill(&self, prefix: &str) {
        for number in 0..30 {
            self.db().put(format!("{prefix}{number}"), [b'x'; 200]).unwrap();
        }
    }

    fn reopen(&mut self) {
        self.db.take().unwrap().close().unwrap();
        self.db = Some(open(&self.fs));
    }
}

/// Opens what a crash left, compares it, decides what waits, and crashes and opens it once more.
fn verify(state: State) -> Vec<Fate> {
    let State { fs, crash, expected, call } = state;
    let db = open(&fs);
    let mut fates = Vec::new();
    for (id, allowed) in &expected {
        let allowed = if crash == Crash::Kill { &allowed.kill } else { &allowed.power };
        let found = fate(&db, id);
        assert!(
            allowed.contains(&found),
            "{id} is {found:?}, not {allowed:?}: {crash:?} at {call}"
        );
        fates.push(found);
        if found == Undecided {
            assert_eq!(db.put(id, "other").unwrap_err().kind(), ErrorKind::Busy, "{id}");
        }
    }
    let mut decided = BTreeMap::new();
    for (index, prepared) in db.prepared().iter().enumerate() {
        let id = String::from_utf8(prepared.id().to_vec()).unwrap();
        if (index + call.len()).is_multiple_of(2) {
            prepared.commit().unwrap();
            decided.insert(id, Committed);
        } else {
            prepared.rollback().unwrap();
            decided.insert(id, Gone);
        }
    }
    if call.len().is_multiple_of(3) {
        db.flush().unwrap();
    }
    let again = open(&fs.crash_clone(Crash::PowerLoss { seed: 5 }));
    assert!(again.prepared().is_empty(), "{crash:?} at {call}");
    for (id, expected) in decided {
        assert_eq!(fate(&again, &id), expected, "{id}, decided after {crash:?} at {call}");
    }
    fates
}

#[test]
fn a_crash_at_each_call_leaves_each_transaction_whole() {
    let mut world = World::new(&["a", "b", "c", "d", "e", "g"]);
    world.watch();
    world.prepare("a");
    world.fill("1");
    world.prepare("b");
    world.db().flush().unwrap();
    world.prepare("c");
    world.decide("a", Committed, Durability::Synced);
    world.fill("2");
    world.decide("b", Gone, Durability::Synced);
    world.db().flush().unwrap();
    world.decide("c", Committed, Durability::Buffered);
    world.prepare("d");
    // Its generation is flushed while the decision lies in a later one that is not synced.
    world.fill("3");
    world.decide("d", Committed, Durability::Buffered);
    world.db().run_job().unwrap();
    world.sync();
    world.prepare("e");
    world.reopen();
    world.fill("4");
    world.db().flush().unwrap();
    world.reopen();
    world.decide("e", Gone, Durability::Buffered);
    world.fill("5");
    world.db().flush().unwrap();
    world.db().settle().unwrap();
    world.sync();
    world.prepare("g");
    world.db().compact().unwrap();
    world.decide("g", Committed, Durability::Synced);
    world.reopen();
    world.fs.on_call(None);
    let states = std::mem::take(&mut *world.states.lock().unwrap());
    let count = states.len();
    let mut seen = [BTreeSet::new(), BTreeSet::new()];
    for state in states {
        let kind = usize::from(state.crash == Crash::Kill);
        seen[kind].extend(verify(state));
    }
    assert!(count > 300, "only {count} crash states");
    assert!(seen.iter().all(|fates| fates.len() == 3), "{seen:?}");
}

#[test]
fn many_transactions_at_random_are_as_a_model_says_after_each_crash() {
    let (mut crashes, mut undecided, mut decided) = (0, 0, 0);
    for seed in 0..25 {
        let mut random = Random(seed);
        let mut fs = MemFs::new();
        let mut db = open(&fs);
        db.create_family("f", FamilyOptions::new()).unwrap();
        let mut model: BTreeMap<String, Fate> = BTreeMap::new();
        for step in 0..120 {
            let waiting: Vec<_> = model.iter().filter(|(_, fate)| **fate == Undecided).collect();
            let waiting: Vec<String> = waiting.into_iter().map(|(id, _)| id.clone()).collect();
            match random.below(12) {
                0..4 => {
                    let id = format!("{step:04}");
                    db.put(format!("old {id}"), "").unwrap();
                    prepare(&db, &id);
                    model.insert(id, Undecided);
                }
                4..7 if !waiting.is_empty() => {
                    let id = &waiting[random.below(waiting.len() as u64) as usize];
                    if random.below(2) == 0 {
                        db.commit_prepared(id).unwrap();
                        model.insert(id.clone(), Committed);
                    } else {
                        db.rollback_prepared(id).unwrap();
                        model.insert(id.clone(), Gone);
                    }
                    decided += 1;
                }
                7 => db.flush().unwrap(),
                8 => drop(db.run_job().unwrap()),
                9 | 10 => {
                    for number in 0..20 {
                        db.put(format!("x{step}-{number}"), [b'x'; 100]).unwrap();
                    }
                }
                _ => {
                    let crash = match random.below(3) {
                        0 => Crash::Kill,
                        _ => Crash::PowerLoss { seed: random.below(1 << 30) },
                    };
                    fs = fs.crash_clone(crash);
                    db = open(&fs);
                    crashes += 1;
                    for (id, expected) in &model {
                        assert_eq!(fate(&db, id), *expected, "seed {seed}, step {step}: {id}");
                    }
                    undecided += waiting.len();
                }
            }
        }
        assert!(db.prepared().is_sorted_by_key(|prepared| prepared.id().to_vec()));
    }
    assert!(crashes > 100 && undecided > 500 && decided > 200, "{crashes} {undecided} {decided}");
}
