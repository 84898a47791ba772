//! Branches against maps: each family of each branch against a map of its own, differences against
//! those of the maps, and merges against a merge of three maps.
//!
//! # Seeded fault
//! `branch_merge_overwrites_a_conflict`: a merge that is to refuse conflicts takes the other side.

use crate::maps::{Map, Random, Writes, contents, key, small};
use siltdb::{
    Branch, BranchOptions, CheckpointOptions, Db, ErrorKind, Family, Isolation, KeyDifference,
    MergeOptions, OnConflict, Options, Read, WriteBatch, salvage,
    testing::{Crash, MemFs},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// By the name of the family.
type Maps = BTreeMap<String, Map>;

const MAIN: &str = "main";

/// Branches at once.
const BRANCHES_MAX: usize = 6;

/// Few values, so that both sides of a merge make the same change at times.
const WRITES: Writes = Writes { keys: 200, range: 20, values: 4, repeat: 5 };

fn options(fs: &MemFs) -> Options {
    let options = Options::new().fs(Arc::new(fs.clone())).workers(0).seed(5);
    let options = options.memtable_bytes(32 << 10).memory_budget(8 << 20);
    options.default_family(small())
}

fn open(fs: &MemFs) -> Db {
    options(fs).open("db").unwrap()
}

fn all_of(branch: &Branch) -> Maps {
    let held = |name: String| (name.clone(), contents(&branch.family(&name).unwrap()));
    branch.families().unwrap().into_iter().map(held).collect()
}

/// A branch as it should be.
#[derive(Clone)]
struct Model {
    id: u64,
    name: String,
    /// The id of the branch that it began with; that of `main` is 0.
    parent: u64,
    maps: Maps,
    bases: Maps,
}

/// The merge of three maps: the result, how many keys are written, and the conflicts.
fn merged(base: &Map, from: &Map, into: &Map, rule: OnConflict) -> (Map, u64, u64) {
    let keys: BTreeSet<_> = base.keys().chain(from.keys()).chain(into.keys()).collect();
    let (mut result, mut written, mut conflicts) = (into.clone(), 0, 0);
    for key in keys {
        let (base, from, into) = (base.get(key), from.get(key), into.get(key));
        if from == base || from == into {
            continue;
        }
        if into != base {
            conflicts += 1;
            if rule != OnConflict::Theirs {
                continue;
            }
        }
        written += 1;
        match from {
            Some(value) => result.insert(key.clone(), value.clone()),
            None => result.remove(key),
        };
    }
    (result, written, conflicts)
}

/// A database, and what it should hold.
struct World {
    fs: MemFs,
    db: Db,
    random: Random,
    /// `main` is the first.
    branches: Vec<Model>,
    checked_out: u64,
    ids: u64,
    counts: BTreeMap<&'static str, u64>,
}

impl World {
    fn new(seed: u64) -> Self {
        println!("seed {seed}");
        let fs = MemFs::new();
        let db = open(&fs);
        db.create_family("other", small()).unwrap();
        let maps: Maps = ["default", "other"].map(|name| (name.to_owned(), Map::new())).into();
        let (name, bases) = (MAIN.to_owned(), Maps::new());
        let branches = vec![Model { id: 0, name, parent: 0, maps, bases }];
        let (random, counts) = (Random(seed), BTreeMap::new());
        Self { fs, db, random, branches, checked_out: 0, ids: 0, counts }
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn family(&self, branch: usize, name: &str) -> Family {
        self.db.branch(&self.branches[branch].name).unwrap().family(name).unwrap()
    }

    /// A branch or `main`.
    fn pick(&mut self) -> usize {
        self.random.below(self.branches.len() as u64) as usize
    }

    fn write(&mut self) {
        let index = self.pick();
        let names: Vec<String> = self.branches[index].maps.keys().cloned().collect();
        let name = &names[self.random.below(names.len() as u64) as usize];
        let family = self.family(index, name);
        let map = self.branches[index].maps.get_mut(name).unwrap();
        for _ in 0..self.random.below(30) {
            WRITES.write(&mut self.random, &family, map);
        }
    }

    fn create(&mut self) {
        if self.branches.len() > BRANCHES_MAX {
            return;
        }
        self.ids += 1;
        let parent = self.pick();
        let mut model = self.branches[parent].clone();
        let mut options = BranchOptions::new().from(&model.name);
        if self.random.below(3) == 0 {
            let snapshot = self.db.snapshot();
            self.write();
            options = options.at(&snapshot);
            self.count("at a snapshot");
        }
        if self.random.below(3) == 0 && model.maps.contains_key("default") {
            model.maps.retain(|name, _| name == "default");
            options = options.families(["default"]);
            self.count("of chosen families");
        }
        (model.parent, model.id) = (model.id, self.ids);
        (model.name, model.bases) = (format!("branch{}", self.ids), model.maps.clone());
        self.db.create_branch_with(&model.name, &options).unwrap();
        self.branches.push(model);
        self.count("created");
    }

    fn drop_one(&mut self) {
        if self.branches.len() < 3 {
            return;
        }
        let index = 1 + self.random.below(self.branches.len() as u64 - 1) as usize;
        let dropped = self.db.drop_branch(&self.branches[index].name);
        if self.branches[index].id == self.checked_out {
            assert_eq!(dropped.unwrap_err().kind(), ErrorKind::InvalidArgument);
            return;
        }
        dropped.unwrap();
        self.branches.remove(index);
        self.count("dropped");
    }

    fn rename(&mut self) {
        if self.branches.len() < 2 {
            return;
        }
        self.ids += 1;
        let index = 1 + self.random.below(self.branches.len() as u64 - 1) as usize;
        let name = format!("renamed{}", self.ids);
        self.db.rename_branch(&self.branches[index].name, &name).unwrap();
        self.branches[index].name = name;
    }

    fn check_out(&mut self) {
        let index = self.pick();
        self.db.checkout(&self.branches[index].name).unwrap();
        self.checked_out = self.branches[index].id;
    }

    fn by_id(&self, id: u64) -> Option<usize> {
        self.branches.iter().position(|model| model.id == id)
    }

    /// Whether `branch` began with `ancestor` by way of others, or may have.
    fn descends(&self, branch: usize, ancestor: u64) -> bool {
        let mut parent = self.branches[branch].parent;
        while parent > ancestor {
            match self.by_id(parent) {
                Some(index) => parent = self.branches[index].parent,
                None => return true,
            }
        }
        parent == ancestor
    }

    fn merge(&mut self) {
        let (from, into) = (self.pick(), self.pick());
        let rules = [OnConflict::Refuse, OnConflict::Ours, OnConflict::Theirs];
        let rule = rules[self.random.below(3) as usize];
        let (from_id, into_id) = (self.branches[from].id, self.branches[into].id);
        let options = MergeOptions::new().into_branch(&self.branches[into].name).on_conflict(rule);
        let is_child = into_id != 0 && self.branches[into].parent == from_id;
        let is_refused = from == into
            || !is_child && (from_id == 0 || into_id != 0 && self.descends(into, from_id));
        let report = self.db.merge_branch_with(&self.branches[from].name, &options);
        if is_refused {
            assert_eq!(report.unwrap_err().kind(), ErrorKind::InvalidArgument);
            self.count("not related");
            return;
        }
        let (owner, other) = if is_child { (into, from) } else { (from, into) };
        let names: Vec<String> = self.branches[owner].maps.keys().cloned().collect();
        if names.iter().any(|name| !self.branches[other].maps.contains_key(name)) {
            assert_eq!(report.unwrap_err().kind(), ErrorKind::NotFound);
            return;
        }
        let (mut results, mut expected) = (Maps::new(), (0, 0));
        for name in &names {
            let base = &self.branches[owner].bases[name];
            let (from, into) = (&self.branches[from].maps[name], &self.branches[into].maps[name]);
            let (result, written, conflicts) = merged(base, from, into, rule);
            expected = (expected.0 + written, expected.1 + conflicts);
            results.insert(name.clone(), result);
        }
        let report = report.unwrap();
        assert_eq!((report.written, report.conflicts), expected);
        let is_applied = expected.1 == 0 || rule != OnConflict::Refuse;
        assert_eq!(report.is_applied, is_applied);
        self.count(if expected.1 > 0 { "with conflicts" } else { "without conflicts" });
        if is_applied {
            self.branches[into].maps.extend(results);
            if is_child || into_id == self.branches[from].parent {
                let moved =
                    names.iter().map(|name| (name.clone(), self.branches[from].maps[name].clone()));
                self.branches[owner].bases = moved.collect();
                self.count("bases moved");
            }
        }
    }

    fn diff(&mut self) {
        let (left, right) = (self.pick(), self.pick());
        let (left, right) = (&self.branches[left], &self.branches[right]);
        let mut expected = Vec::new();
        for (name, map) in &left.maps {
            let Some(other) = right.maps.get(name) else { continue };
            let keys: BTreeSet<_> = map.keys().chain(other.keys()).collect();
            let differing = keys.into_iter().filter(|key| map.get(*key) != other.get(*key));
            expected.extend(differing.map(|key| {
                (name.clone(), key.clone(), map.get(key).cloned(), other.get(key).cloned())
            }));
        }
        let found = self.db.diff(&left.name, &right.name).unwrap().map(|difference| {
            let KeyDifference { family, key, left, right, .. } = difference.unwrap();
            let value =
                |value: Option<siltdb::BranchValue>| value.map(|value| value.value.to_vec());
            (family, key.to_vec(), value(left), value(right))
        });
        let found: Vec<_> = found.collect();
        assert!(found == expected, "{} differences for {}", found.len(), expected.len());
    }

    fn compare(&self) {
        for model in &self.branches {
            let branch = self.db.branch(&model.name).unwrap();
            let found = all_of(&branch);
            assert!(found == model.maps, "branch {}", model.name);
        }
        let listed: Vec<_> = self.db.branches().into_iter().map(|info| info.name).collect();
        let mut names: Vec<_> = self.branches[1..].iter().map(|model| model.name.clone()).collect();
        names.sort();
        assert_eq!(listed, names);
        let checked_out = self.by_id(self.checked_out).unwrap();
        assert_eq!(self.db.checked_out(), self.branches[checked_out].name);
        assert_eq!(self.db.families(), ["default", "other"]);
    }

    fn reopen(&mut self) {
        if self.random.below(2) == 0 {
            let killed = self.fs.crash_clone(Crash::Kill);
            self.db = open(&killed);
            self.fs = killed;
        } else {
            let db = std::mem::replace(&mut self.db, open(&MemFs::new()));
            db.close().unwrap();
            self.db = open(&self.fs);
        }
        self.compare();
        self.count("reopened");
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..45 => self.write(),
            45..53 => self.create(),
            53..56 => self.drop_one(),
            56..58 => self.rename(),
            58..60 => self.check_out(),
            60..76 => self.merge(),
            76..82 => self.diff(),
            82..88 => self.db.flush().unwrap(),
            88..93 => drop(self.db.run_job().unwrap()),
            93..95 => self.db.compact().unwrap(),
            95..98 => self.compare(),
            _ => self.reopen(),
        }
    }
}

#[test]
fn branches_and_their_merges_are_those_of_maps() {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..12 {
        let mut world = World::new(seed);
        for _ in 0..250 {
            world.step();
        }
        world.compare();
        let report = world.db.check(&mut |_| {}).unwrap();
        assert!(report.is_clean(), "{:?}", report.errors);
        for (what, count) in world.counts {
            *counts.entry(what).or_default() += count;
        }
    }
    println!("{counts:?}");
    for what in [
        "created",
        "at a snapshot",
        "of chosen families",
        "dropped",
        "with conflicts",
        "without conflicts",
        "bases moved",
        "not related",
        "reopened",
    ] {
        assert!(counts.get(what).is_some_and(|count| *count >= 5), "{what}: {counts:?}");
    }
}

/// `main` with two families, and the branch `feature`, both changed.
fn changed(fs: &MemFs) -> Db {
    let db = open(fs);
    let other = db.create_family("other", small()).unwrap();
    for number in 0..200 {
        db.put(key(number), b"base").unwrap();
        other.put(key(number), b"base").unwrap();
    }
    let branch = db.create_branch("feature").unwrap();
    branch.default_family().unwrap().put(key(1), b"feature").unwrap();
    branch.family("other").unwrap().delete(key(2)).unwrap();
    db.put(key(3), b"main").unwrap();
    db.create_branch_with("child", &BranchOptions::new().from("feature")).unwrap();
    db.checkout("feature").unwrap();
    db
}

fn picture(db: &Db) -> (Vec<siltdb::BranchInfo>, Vec<Maps>) {
    let names = [MAIN, "feature", "child"];
    (db.branches(), names.map(|name| all_of(&db.branch(name).unwrap())).into())
}

#[test]
fn a_copy_of_the_database_has_its_branches() {
    let fs = MemFs::new();
    let db = changed(&fs);
    let expected = picture(&db);
    db.checkpoint("copy").unwrap();
    let copy = options(&fs).open("copy").unwrap();
    assert!(picture(&copy) == expected);
    assert_eq!(copy.merge_branch("feature").unwrap().written, 2);
    // One of chosen families has no branches.
    let chosen = CheckpointOptions::new().families(["other"]);
    let mut go_on = |_| std::ops::ControlFlow::Continue(());
    db.checkpoint_with("chosen", &chosen, &mut go_on).unwrap();
    let copy = options(&fs).open("chosen").unwrap();
    assert_eq!((copy.branches(), copy.checked_out()), (Vec::new(), MAIN.to_owned()));
    assert_eq!(copy.families(), ["default", "other"]);
    assert!(copy.is_empty().unwrap() && copy.family("other").unwrap().count(..).unwrap() == 200);
    assert!(copy.check(&mut |_| {}).unwrap().is_clean());
    let read_only = options(&fs).read_only(true);
    db.close().unwrap();
    let db = read_only.open("db").unwrap();
    assert!(picture(&db) == expected);
    assert_eq!(db.diff(MAIN, "feature").unwrap().count(), 3);
    assert_eq!(db.merge_branch("feature").unwrap_err().kind(), ErrorKind::ReadOnly);
}

#[test]
fn a_follower_sees_branches_and_merges() {
    let fs = MemFs::new();
    let db = changed(&fs);
    let follower = options(&fs).open_follower("db").unwrap();
    assert!(picture(&follower.db()) == picture(&db));
    assert_eq!(db.merge_branch("feature").unwrap().written, 2);
    db.rename_branch("child", "later").unwrap();
    db.rename_branch("later", "child").unwrap();
    follower.catch_up().unwrap();
    assert!(picture(&follower.db()) == picture(&db));
    assert_eq!(follower.db().diff(MAIN, "feature").unwrap().count(), 1);
}

#[test]
fn what_is_recovered_has_the_branches_with_their_bases() {
    let fs = MemFs::new();
    let db = changed(&fs);
    let (infos, maps) = picture(&db);
    db.close().unwrap();
    let report = salvage::salvage("db", "saved", options(&fs), &mut |_| {}).unwrap();
    assert!(report.lost.is_empty(), "{:?}", report.lost);
    let saved = options(&fs).open("saved").unwrap();
    let (found_infos, found) = picture(&saved);
    assert!(found == maps);
    assert_eq!(found_infos, infos);
    assert_eq!(saved.checked_out(), "feature");
    assert_eq!(saved.families(), ["default", "other"]);
    let merged = saved.merge_branch("feature").unwrap();
    assert_eq!((merged.written, merged.conflicts), (2, 0));
    assert_eq!(saved.get(key(3)).unwrap().as_deref(), Some(&b"main"[..]));
    let merged =
        saved.merge_branch_with("child", &MergeOptions::new().into_branch("feature")).unwrap();
    assert_eq!((merged.written, merged.is_applied), (0, true));
}

#[test]
fn a_batch_and_a_transaction_reach_over_branches() {
    let fs = MemFs::new();
    let db = options(&fs).lock_timeout(std::time::Duration::from_millis(10)).open("db").unwrap();
    let branch = db.create_branch("feature").unwrap().default_family().unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&db.default_family(), "key", "main").unwrap();
    batch.put(&branch, "key", "feature").unwrap();
    db.write(&batch).unwrap();
    let transaction = db.begin(Isolation::Serializable);
    let on_branch = transaction.family(&branch).unwrap();
    assert_eq!(on_branch.get("key").unwrap().as_deref(), Some(&b"feature"[..]));
    transaction.put("moved", "1").unwrap();
    on_branch.delete("key").unwrap();
    transaction.commit().unwrap();
    assert!(db.contains("moved").unwrap() && branch.is_empty().unwrap());
    let refused = batch.drop_family(&branch).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    // A locked key makes a merge wait, and fail with its own error.
    branch.put("fresh", "1").unwrap();
    let holder = db.begin(Isolation::Serializable);
    holder.lock_key("fresh", siltdb::LockMode::Exclusive).unwrap();
    assert_eq!(db.merge_branch("feature").unwrap_err().kind(), ErrorKind::Busy);
    holder.rollback().unwrap();
    assert_eq!(db.merge_branch("feature").unwrap().written, 1);
}

#[test]
fn handles_of_a_branch_follow_its_name_and_end_with_it() {
    let fs = MemFs::new();
    let db = changed(&fs);
    let branch = db.branch("child").unwrap();
    let family = branch.family("other").unwrap();
    let differences = db.diff("child", MAIN).unwrap();
    db.rename_branch("child", "renamed").unwrap();
    assert_eq!(branch.name().unwrap(), "renamed");
    assert_eq!(family.name(), "other");
    db.drop_branch("renamed").unwrap();
    for kind in [
        branch.name().map(drop).unwrap_err().kind(),
        branch.families().map(drop).unwrap_err().kind(),
        branch.family("other").map(drop).unwrap_err().kind(),
        family.put("key", "value").unwrap_err().kind(),
        db.branch("renamed").map(drop).unwrap_err().kind(),
    ] {
        assert_eq!(kind, ErrorKind::NotFound);
    }
    // What began before goes on.
    assert_eq!(differences.map(Result::unwrap).count(), 3);
    let other = open(&MemFs::new());
    let snapshot = other.snapshot();
    let foreign = BranchOptions::new().at(&snapshot);
    for (options, kind) in [
        (foreign, ErrorKind::InvalidArgument),
        (BranchOptions::new().from("unknown"), ErrorKind::NotFound),
        (BranchOptions::new().families(["unknown"]), ErrorKind::NotFound),
        (BranchOptions::new().families(["other", "other"]), ErrorKind::InvalidArgument),
        (BranchOptions::new().families(Vec::<String>::new()), ErrorKind::InvalidArgument),
    ] {
        assert_eq!(db.create_branch_with("new", &options).unwrap_err().kind(), kind);
    }
    let twice = ["other".to_owned(), "other".to_owned()];
    let refused = db.diff_families(MAIN, "feature", &twice).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert_eq!(db.diff_families(MAIN, "feature", &twice[1..]).unwrap().count(), 1);
}

/// A subscription tells of the keys that a merge writes, and of no families.
#[test]
fn a_merge_is_a_commit_of_the_feed() {
    let fs = MemFs::new();
    let db = changed(&fs);
    let mut feed = db.subscribe(&siltdb::SubscribeOptions::new()).unwrap();
    while feed.try_next().unwrap().is_some() {}
    assert_eq!(db.merge_branch("feature").unwrap().written, 2);
    let Some(siltdb::Event::Commit(commit)) = feed.try_next().unwrap() else {
        panic!("a merge is a commit")
    };
    assert!(commit.families().is_empty());
    assert_eq!(commit.changes().count(), 2);
    assert!(feed.try_next().unwrap().is_none());
}

#[test]
fn buckets_are_merged_unless_both_sides_have_changed_their_tree() {
    let fs = MemFs::new();
    let db = open(&fs);
    let bucket = |family: &Family, path: &str| family.bucket([path]).unwrap();
    let main = db.default_family();
    bucket(&main, "old").create().unwrap();
    bucket(&main, "old").put("key", "base").unwrap();
    let branch = db.create_branch("feature").unwrap().default_family().unwrap();
    // Data on both sides, key by key.
    bucket(&branch, "old").put("key", "feature").unwrap();
    bucket(&main, "old").put("other", "main").unwrap();
    assert_eq!(db.merge_branch("feature").unwrap().written, 1);
    // A tree on one side.
    bucket(&branch, "new").create().unwrap();
    bucket(&branch, "new").put("key", "feature").unwrap();
    assert!(db.merge_branch("feature").unwrap().is_applied);
    assert_eq!(bucket(&main, "new").get("key").unwrap().as_deref(), Some(&b"feature"[..]));
    let up_to_date = MergeOptions::new().into_branch("feature");
    assert!(db.merge_branch_with(MAIN, &up_to_date).unwrap().is_applied);
    assert_eq!(bucket(&branch, "old").count(..).unwrap(), 2);
    // Two new buckets would have one id.
    bucket(&branch, "theirs").create().unwrap();
    bucket(&main, "ours").create().unwrap();
    let refused = |rule: OnConflict| {
        let options = MergeOptions::new().on_conflict(rule);
        let error = db.merge_branch_with("feature", &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("buckets"), "{error}");
    };
    [OnConflict::Refuse, OnConflict::Ours, OnConflict::Theirs].into_iter().for_each(refused);
    // Nor is a key written to a bucket that the other side has deleted.
    bucket(&main, "ours").remove().unwrap();
    bucket(&branch, "theirs").remove().unwrap();
    bucket(&branch, "old").remove().unwrap();
    bucket(&main, "old").put("key", "later").unwrap();
    refused(OnConflict::Theirs);
    assert_eq!(bucket(&main, "old").count(..).unwrap(), 2);
}
