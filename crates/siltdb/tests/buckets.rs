//! Buckets compared with nested maps, at their bounds, and under concurrent use.

use crate::maps::Random;
use siltdb::{
    BUCKET_DEPTH_MAX, BUCKET_IDS_KEY, BUCKET_KEY_PREFIX, BUCKET_NAME_BYTES_MAX, Bucket,
    BucketTarget, Db, Error, ErrorKind, Family, FamilyOptions, Isolation, Read, Result,
    Transaction,
};
use std::{collections::BTreeMap, thread};

fn open() -> (tempfile::TempDir, Db, Family) {
    let dir = tempfile::tempdir().expect("it is there");
    let db = Db::open(dir.path()).expect("it is there");
    let family = db.create_family("nested", FamilyOptions::new()).expect("it is there");
    (dir, db, family)
}

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.expect_err("it fails").kind()
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    data: BTreeMap<Vec<u8>, Vec<u8>>,
    children: BTreeMap<Vec<u8>, Model>,
    next: u64,
}

impl Model {
    fn at(&mut self, path: &[Vec<u8>]) -> Option<&mut Self> {
        path.iter().try_fold(self, |model, name| model.children.get_mut(name))
    }

    fn create(&mut self, path: &[Vec<u8>]) -> std::result::Result<(), ErrorKind> {
        let (name, before) = path.split_last().ok_or(ErrorKind::InvalidArgument)?;
        let parent = self.at(before).ok_or(ErrorKind::NotFound)?;
        if parent.children.contains_key(name) {
            return Err(ErrorKind::AlreadyExists);
        }
        parent.children.insert(name.clone(), Self { next: 1, ..Self::default() });
        Ok(())
    }

    fn remove(&mut self, path: &[Vec<u8>]) -> std::result::Result<Self, ErrorKind> {
        let (name, before) = path.split_last().ok_or(ErrorKind::InvalidArgument)?;
        let parent = self.at(before).ok_or(ErrorKind::NotFound)?;
        parent.children.remove(name).ok_or(ErrorKind::NotFound)
    }

    fn rename(&mut self, from: &[Vec<u8>], to: &[Vec<u8>]) -> std::result::Result<(), ErrorKind> {
        let (name, before) = to.split_last().ok_or(ErrorKind::InvalidArgument)?;
        if from.is_empty() {
            return Err(ErrorKind::InvalidArgument);
        }
        self.at(from).ok_or(ErrorKind::NotFound)?;
        self.at(before).ok_or(ErrorKind::NotFound)?;
        if before.starts_with(from) {
            return Err(ErrorKind::InvalidArgument);
        }
        if self.at(to).is_some() {
            return Err(ErrorKind::AlreadyExists);
        }
        let moved = self.remove(from)?;
        self.at(before).expect("it is there").children.insert(name.clone(), moved);
        Ok(())
    }
}

/// Reads everything below a bucket.
fn read_all(family: &Family, path: &[Vec<u8>]) -> Model {
    let bucket = family.bucket(path).expect("it is there");
    let mut model = Model::default();
    if !path.is_empty() {
        for pair in bucket.range(..).expect("it is there") {
            let (key, value) = pair.expect("it is there");
            model.data.insert(key.to_vec(), value.to_vec());
        }
        let back: Vec<_> = bucket
            .range(..)
            .expect("it is there")
            .rev()
            .map(|pair| pair.expect("it is there").0.to_vec())
            .collect();
        assert!(back.iter().rev().eq(model.data.keys()));
        assert_eq!(bucket.count(..).expect("it is there"), model.data.len() as u64);
        model.next = 1;
    }
    for name in bucket.children().expect("it is there") {
        let child = [path, std::slice::from_ref(&name)].concat();
        model.children.insert(name, read_all(family, &child));
    }
    model
}

/// The model without the next ids, which can only be read by taking one.
fn without_ids(model: &Model) -> Model {
    let children = model.children.iter().map(|(name, child)| (name.clone(), without_ids(child)));
    let children: BTreeMap<_, _> = children.collect();
    Model { data: model.data.clone(), children, next: 1 }
}

fn random_path(random: &mut Random) -> Vec<Vec<u8>> {
    let depth = random.below(5);
    (0..depth)
        .map(|_| [&b"a"[..], b"b", b"\0", b"\xff/"][random.below(4) as usize].to_vec())
        .collect()
}

fn step<S: BucketTarget>(
    random: &mut Random,
    model: &mut Model,
    open: impl Fn(&[Vec<u8>]) -> Bucket<S>,
) {
    let path = random_path(random);
    let bucket = open(&path);
    let key = [random.below(6) as u8, 0xff][..random.below(3) as usize].to_vec();
    let value = random.below(1000).to_string().into_bytes();
    let of_data = |model: &mut Model| match model.at(&path).is_some() {
        _ if path.is_empty() => Err(ErrorKind::InvalidArgument),
        true => Ok(()),
        false => Err(ErrorKind::NotFound),
    };
    let outcome = |result: Result<()>| result.map_err(|error| error.kind());
    match random.below(12) {
        0..3 => assert_eq!(outcome(bucket.create()), model.create(&path), "create {path:?}"),
        3 => {
            let made = outcome(bucket.create_if_missing());
            if path.is_empty() {
                assert_eq!(made, Err(ErrorKind::InvalidArgument));
            } else {
                made.expect("it is there");
                for depth in 1..=path.len() {
                    let _exists = model.create(&path[..depth]);
                }
            }
        }
        4 => assert_eq!(outcome(bucket.remove()), model.remove(&path).map(|_| ()), "{path:?}"),
        5 => {
            let to = random_path(random);
            let moved = outcome(bucket.rename(&to).map(|_| ()));
            assert_eq!(moved, model.rename(&path, &to), "{path:?} to {to:?}");
        }
        6..9 => {
            assert_eq!(outcome(bucket.put(&key, &value)), of_data(model));
            if of_data(model).is_ok() {
                model.at(&path).expect("it is there").data.insert(key, value);
            }
        }
        9 => {
            assert_eq!(outcome(bucket.delete_range(&key..)), of_data(model));
            if of_data(model).is_ok() {
                model.at(&path).expect("it is there").data.split_off(&key);
            }
        }
        10 => {
            let taken = bucket.take(&key).map_err(|error| error.kind());
            let expected =
                of_data(model).map(|()| model.at(&path).expect("it is there").data.remove(&key));
            assert_eq!(taken.map(|value| value.map(|value| value.to_vec())), expected);
        }
        _ => {
            let id = bucket.next_id().map_err(|error| error.kind());
            let expected = of_data(model).map(|()| {
                let model = model.at(&path).expect("it is there");
                model.next += 1;
                model.next - 1
            });
            assert_eq!(id, expected);
        }
    }
}

#[test]
fn buckets_are_nested_maps() {
    for seed in [1, 2, 3] {
        println!("seed {seed}");
        let (_dir, db, family) = open();
        let (mut random, mut model) = (Random(seed), Model::default());
        // Keys of the family outside of buckets are left alone.
        family.put("plain", "1").unwrap();
        family.put([0xff; 20], "2").unwrap();
        for round in 0..60 {
            if random.below(2) == 0 {
                for _ in 0..20 {
                    step(&mut random, &mut model, |path| family.bucket(path).unwrap());
                }
            } else {
                let mut changed = model.clone();
                let all = db.begin(Isolation::Serializable);
                let tx = all.family(&family).unwrap();
                for _ in 0..20 {
                    step(&mut random, &mut changed, |path| tx.bucket(path).unwrap());
                }
                if random.below(2) == 0 {
                    all.commit().unwrap();
                    model = changed;
                } else {
                    all.rollback().unwrap();
                }
            }
            match round % 20 {
                5 => db.flush().unwrap(),
                15 => family.compact().unwrap(),
                _ => {}
            }
            assert_eq!(read_all(&family, &[]), Model { next: 0, ..without_ids(&model) });
        }
        for name in family.bucket([""; 0]).unwrap().children().unwrap() {
            family.bucket([name]).unwrap().remove().unwrap();
        }
        family.reclaim_buckets().unwrap();
        // Left are the two plain keys and the counter of ids: no key is orphaned.
        assert_eq!(family.count(..).unwrap(), 3);
    }
}

#[test]
fn a_removed_tree_is_gone_at_once_and_its_keys_are_reclaimed_in_steps() {
    let (_dir, db, family) = open();
    let top = family.bucket(["top"]).unwrap();
    top.create().unwrap();
    db.update(|tx| {
        let tx = tx.family(&family)?;
        for number in 0..600 {
            let child = tx.bucket(["top".to_owned(), number.to_string(), "deep".to_owned()])?;
            child.create_if_missing()?;
            child.put("k", "v")?;
        }
        Ok::<(), Error>(())
    })
    .unwrap();
    let before = db.snapshot();
    let writes = db.snapshot().sequence();
    let tx = db.begin(Isolation::Serializable);
    tx.family(&family).unwrap().bucket(["top"]).unwrap().remove().unwrap();
    tx.commit().unwrap();
    assert!(db.snapshot().sequence() - writes <= 4, "it does not depend on what is in it");
    assert!(!top.exists().unwrap());
    assert_eq!(kind(family.bucket(["top", "7", "deep"]).unwrap().get("k")), ErrorKind::NotFound);
    let old = before.family(&family).unwrap().bucket(["top", "7", "deep"]).unwrap();
    assert_eq!(old.get("k").unwrap().unwrap(), b"v");
    assert!(family.count(..).unwrap() > 600);
    // A new bucket of the same name starts empty, even before its predecessor is reclaimed.
    top.create().unwrap();
    assert!(top.children().unwrap().is_empty());
    assert!(family.reclaim_buckets().unwrap() >= 1200);
    assert_eq!(family.reclaim_buckets().unwrap(), 0);
    assert_eq!(family.count(..).unwrap(), 2);
}

#[test]
fn no_bucket_lies_too_deep() {
    let (_dir, _db, family) = open();
    let names = |depth: usize| vec![vec![0xff; BUCKET_NAME_BYTES_MAX]; depth];
    let deepest = family.bucket(names(BUCKET_DEPTH_MAX)).unwrap();
    deepest.create_if_missing().unwrap();
    deepest.put("k", "v").unwrap();
    assert_eq!(kind(family.bucket(names(BUCKET_DEPTH_MAX + 1))), ErrorKind::InvalidArgument);
    let long = vec![b'a'; BUCKET_NAME_BYTES_MAX + 1];
    assert_eq!(kind(family.bucket([long])), ErrorKind::InvalidArgument);
    assert_eq!(kind(family.bucket([""])), ErrorKind::InvalidArgument);
    // A tree of height fourteen fits one level below the top, and not two.
    let tree = family.bucket(names(3)).unwrap();
    family.bucket(["x", "y"]).unwrap().create_if_missing().unwrap();
    let moved = tree.rename(["x", "y", "z"]).unwrap();
    let within_itself = moved.rename(["x", "y", "z", "z"]);
    assert!(within_itself.unwrap_err().message().contains("into itself"));
    family.bucket(["x", "y", "w"]).unwrap().create().unwrap();
    assert_eq!(kind(moved.rename(["x", "y", "w", "z"])), ErrorKind::InvalidArgument);
    assert!(moved.exists().unwrap());
    let down = moved.rename(["z"]).unwrap();
    let path: Vec<Vec<u8>> = down.path().map(<[u8]>::to_vec).chain(names(13)).collect();
    assert_eq!(family.bucket(path).unwrap().get("k").unwrap().unwrap(), b"v");
}

#[test]
fn the_root_holds_buckets_only() {
    let (_dir, _db, family) = open();
    let root = family.bucket([""; 0]).unwrap();
    assert!(root.exists().unwrap());
    let invalid = ErrorKind::InvalidArgument;
    assert_eq!(kind(root.create()), invalid);
    assert_eq!(kind(root.remove()), invalid);
    assert_eq!(kind(root.put("k", "v")), invalid);
    assert_eq!(kind(root.get("k")), invalid);
    assert_eq!(kind(root.rename(["a"])), invalid);
    assert_eq!(kind(root.next_id()), invalid);
}

/// Such keys would turn into data of buckets, or be taken for their paths.
#[test]
fn a_family_whose_own_keys_look_like_those_of_buckets_gets_none() {
    let (_dir, _db, family) = open();
    let own = [&BUCKET_KEY_PREFIX[..], b"own"].concat();
    family.put(&own, "v").unwrap();
    let bucket = family.bucket(["a"]).unwrap();
    let error = bucket.create().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(kind(family.bucket(["a", "b"]).unwrap().create_if_missing()), error.kind());
    assert_eq!(family.count(..).unwrap(), 1);
    family.delete(&own).unwrap();
    bucket.create().unwrap();
    family.bucket(["b"]).unwrap().create().unwrap();
    bucket.remove().unwrap();
    family.bucket(["b"]).unwrap().remove().unwrap();
    // What is left of the first buckets is not the program's own.
    bucket.create().unwrap();
    assert!(family.contains(BUCKET_IDS_KEY).unwrap());
}

#[test]
fn a_cursor_deletes_within_its_bucket() {
    let (_dir, db, family) = open();
    for name in ["a", "b", "c"] {
        let bucket = family.bucket([name]).unwrap();
        bucket.create().unwrap();
        for key in ["1", "2", "3"] {
            bucket.put(key, name).unwrap();
        }
    }
    let delete_even = |cursor: &mut siltdb::BucketCursor<Transaction>| -> Result<()> {
        cursor.seek_to_first()?;
        while let Some(key) = cursor.key() {
            if key != b"2" {
                cursor.delete()?;
            }
            cursor.next()?;
        }
        cursor.delete()
    };
    let all = db.begin(Isolation::RepeatableRead);
    let mut cursor = all.family(&family).unwrap().bucket(["b"]).unwrap().cursor().unwrap();
    assert_eq!(kind(delete_even(&mut cursor)), ErrorKind::InvalidArgument);
    all.commit().unwrap();
    let keys = |name| -> Vec<Vec<u8>> {
        let bucket = family.bucket([name]).unwrap();
        bucket.range(..).unwrap().map(|pair| pair.unwrap().0.to_vec()).collect()
    };
    assert_eq!((keys("a").len(), keys("b"), keys("c").len()), (3, vec![b"2".to_vec()], 3));
    let bucket = family.bucket(["a"]).unwrap();
    let mut cursor = bucket.cursor().unwrap();
    cursor.seek_for_prev("25").unwrap();
    assert_eq!(cursor.entry(), Some((&b"2"[..], &b"a"[..])));
    cursor.prev().unwrap();
    cursor.seek_to_last().unwrap();
    assert_eq!(cursor.key(), Some(&b"3"[..]));
    // A new bucket of the same name is a different one.
    bucket.remove().unwrap();
    bucket.create().unwrap();
    bucket.put("3", "new").unwrap();
    assert_eq!(kind(cursor.delete()), ErrorKind::NotFound);
    assert!(bucket.contains("3").unwrap());
}

#[test]
fn nothing_is_written_to_a_bucket_that_another_transaction_deletes() {
    let (_dir, db, family) = open();
    let deep = family.bucket(["a", "b", "c"]).unwrap();
    for isolation in [Isolation::RepeatableRead, Isolation::Serializable] {
        deep.create_if_missing().unwrap();
        let all = db.begin(isolation);
        let tx = all.family(&family).unwrap();
        tx.bucket(["a", "b", "c"]).unwrap().put("k", "v").unwrap();
        family.bucket(["a"]).unwrap().remove().unwrap();
        assert_eq!(kind(all.commit()), ErrorKind::Conflict);
    }
    assert_eq!(kind(deep.put("k", "v")), ErrorKind::NotFound);
    family.reclaim_buckets().unwrap();
    assert_eq!(family.count(..).unwrap(), 1);
    for isolation in [Isolation::ReadUncommitted, Isolation::ReadCommitted, Isolation::Snapshot] {
        let tx = db.begin(isolation).family(&family).unwrap();
        assert_eq!(kind(tx.bucket(["a"]).unwrap().create()), ErrorKind::InvalidArgument);
        assert!(!tx.bucket(["a"]).unwrap().exists().unwrap());
    }
}

#[test]
fn a_change_that_fails_leaves_nothing_in_the_transaction() {
    let (_dir, db, family) = open();
    let options = siltdb::TransactionOptions::new().memory_bytes(2000);
    let all = db.begin_with(&options);
    let tx = all.family(&family).unwrap();
    let names = vec![vec![b'n'; BUCKET_NAME_BYTES_MAX]; BUCKET_DEPTH_MAX];
    assert_eq!(kind(tx.bucket(names).unwrap().create_if_missing()), ErrorKind::InvalidArgument);
    assert_eq!(all.written(), 0);
}

#[test]
fn eight_threads_make_move_and_remove_buckets() {
    let (_dir, _db, family) = open();
    family.bucket(["all"]).unwrap().create().unwrap();
    thread::scope(|scope| {
        for thread in 0..8_u32 {
            let family = &family;
            scope.spawn(move || {
                let mine = thread.to_string();
                for _ in 0..20 {
                    let bucket = family.bucket(["all", &mine]).unwrap();
                    bucket.create().unwrap();
                    family.bucket(["all", &mine, "in"]).unwrap().create().unwrap();
                    bucket.put("k", &mine).unwrap();
                    family.bucket(["all"]).unwrap().next_id().unwrap();
                    let moved = bucket.rename([&mine]).unwrap();
                    assert_eq!(moved.get("k").unwrap().unwrap(), mine.as_bytes());
                    moved.remove().unwrap();
                }
            });
        }
    });
    assert_eq!(family.bucket(["all"]).unwrap().next_id().unwrap(), 161);
    family.bucket(["all"]).unwrap().remove().unwrap();
    family.reclaim_buckets().unwrap();
    assert_eq!(family.count(..).unwrap(), 1);
}
