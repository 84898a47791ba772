//! Deletions of ranges with bounds of every kind, and batches that are examined and sent.

use crate::draw::Draw;
use siltdb::{
    Action, Db, Durability, ErrorKind, FamilyOptions, KEY_BYTES_MAX, Operation, Options, Read,
    WriteBatch, WriteOptions, testing::MemFs,
};
use std::{
    collections::BTreeMap,
    ops::{Bound, RangeBounds},
    sync::Arc,
    time::Duration,
};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

impl Draw {
    /// Short keys over few byte values, and the longest possible key.
    fn edge_key(&mut self) -> Vec<u8> {
        let byte = [0, b'a', b'b', 0xfe, 0xff][self.below(5) as usize];
        match self.below(12) {
            0 => vec![byte; KEY_BYTES_MAX],
            1 => [&vec![byte; KEY_BYTES_MAX - 1][..], b"b"].concat(),
            _ => (0..self.below(4)).map(|_| b"\0ab\xff"[self.below(4) as usize]).collect(),
        }
    }

    fn bound(&mut self) -> Bound<Vec<u8>> {
        let key = self.edge_key();
        [Bound::Unbounded, Bound::Included(key.clone()), Bound::Excluded(key)]
            [self.below(3) as usize]
            .clone()
    }
}

fn options(fs: &MemFs) -> Options {
    Options::new().fs(Arc::new(fs.clone())).workers(0)
}

fn pairs(db: &Db) -> siltdb::Result<Map> {
    let owned = |(key, value): (siltdb::Slice, siltdb::Slice)| (key.to_vec(), value.to_vec());
    db.iter()?.map(|pair| pair.map(owned)).collect()
}

#[test]
fn ranges_with_bounds_of_every_kind_delete_what_a_map_would_lose() {
    for seed in 0..12 {
        let mut draw = Draw::new(seed);
        let fs = MemFs::new();
        let mut db = options(&fs).open("db").unwrap();
        let mut map = Map::new();
        for step in 0..60 {
            for _ in 0..8 {
                let (key, value) = (draw.edge_key(), vec![step; 3]);
                db.put(&key, &value).unwrap();
                map.insert(key, value);
            }
            if draw.below(3) == 0 {
                let prefix = draw.edge_key();
                db.delete_prefix(&prefix).unwrap();
                map.retain(|key, _| !key.starts_with(&prefix));
            } else {
                let range = (draw.bound(), draw.bound());
                if draw.below(2) == 0 {
                    db.delete_range(&range).unwrap();
                } else {
                    let mut batch = WriteBatch::new();
                    batch.delete_range(&db.default_family(), &range).unwrap();
                    db.write(&batch).unwrap();
                }
                map.retain(|key, _| !range.contains(key));
            }
            assert_eq!(pairs(&db).unwrap(), map);
            match draw.below(12) {
                0 => db.flush().unwrap(),
                1 => db.compact().unwrap(),
                2 => {
                    drop(db);
                    db = options(&fs).open("db").unwrap();
                }
                _ => {}
            }
        }
        db.default_family().clear().unwrap();
        assert!(db.is_empty().unwrap());
        db.compact().unwrap();
        assert_eq!(db.stats().table_bytes, [0; 7]);
    }
}

#[test]
fn a_range_that_is_too_long_or_empty_leaves_a_batch_as_it_was() {
    let db = options(&MemFs::new()).open("db").unwrap();
    let family = db.default_family();
    let mut batch = WriteBatch::new();
    batch.put(&family, "a", "1").unwrap();
    let before = batch.as_bytes().to_vec();
    let long = vec![b'k'; KEY_BYTES_MAX + 1];
    let refused = [
        batch.delete_range(&family, &long..),
        batch.delete_range(&family, "a"..&String::from_utf8_lossy(&long)),
        batch.delete_prefix(&family, &long),
    ];
    for refused in refused {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    batch.delete_range(&family, "b".."a").unwrap();
    assert_eq!((batch.as_bytes(), batch.len()), (&before[..], 1));
    assert_eq!(db.delete_range(&long..).unwrap_err().kind(), ErrorKind::InvalidArgument);
    db.delete_range("b".."a").unwrap();
    assert_eq!(db.snapshot().sequence(), 0);
}

#[test]
fn a_dropped_family_is_told_of_by_deletions_of_every_kind() {
    let db = options(&MemFs::new()).open("db").unwrap();
    let users = db.create_family("users", FamilyOptions::new()).unwrap();
    db.drop_family("users").unwrap();
    for refused in [
        users.clear(),
        users.delete_prefix("a"),
        users.delete_range("a".."b"),
        users.delete_range("a"..),
        users.delete_range("b".."a"),
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotFound);
    }
}

#[test]
fn clear_is_one_commit_that_snapshots_do_not_see() {
    let fs = MemFs::new();
    let db = options(&fs).open("db").unwrap();
    let users = db.create_family("users", FamilyOptions::new()).unwrap();
    for number in 0..100_u8 {
        users.put([number], "value").unwrap();
        db.put([number], "value").unwrap();
    }
    let before = db.snapshot();
    users.clear().unwrap();
    assert!(users.is_empty().unwrap());
    assert_eq!(before.family(&users).unwrap().count(..).unwrap(), 100);
    assert_eq!(db.count(..).unwrap(), 100);
    users.put("new", "value").unwrap();
    assert_eq!(users.count(..).unwrap(), 1);
}

/// A batch with an operation of every kind.
fn every_kind(db: &Db, users: &siltdb::Family) -> siltdb::Result<WriteBatch> {
    let mut batch = WriteBatch::new();
    batch.put(&db.default_family(), "a", "1")?;
    let expiry = std::time::UNIX_EPOCH + Duration::from_millis(77);
    batch.put_until(users, "b", "2", expiry)?;
    batch.delete(users, "c")?;
    batch.single_delete(users, "d")?;
    batch.delete_range(users, "e".."f")?;
    batch.merge(users, "g", "3")?;
    Ok(batch)
}

#[test]
fn a_batch_shows_its_operations_in_order() {
    let db = options(&MemFs::new()).open("db").unwrap();
    let users = db.create_family("users", FamilyOptions::new()).unwrap();
    let batch = every_kind(&db, &users).unwrap();
    let actions: Vec<_> = batch.operations().map(|o| (o.family, o.key, o.action)).collect();
    let default = db.default_family().id();
    let expected = [
        (default, &b"a"[..], Action::Put(b"1")),
        (users.id(), b"b", Action::PutUntil { value: b"2", expiry_ms: 77 }),
        (users.id(), b"c", Action::Delete),
        (users.id(), b"d", Action::SingleDelete),
        (users.id(), b"e", Action::DeleteRange(b"f")),
        (users.id(), b"g", Action::Merge(b"3")),
    ];
    assert_eq!(actions, expected);
    assert_eq!(db.family_by_id(users.id()).unwrap().name(), "users");
}

#[test]
fn the_bytes_of_a_batch_make_the_same_batch_in_an_equal_database() {
    let made = || {
        let db = options(&MemFs::new()).open("db").unwrap();
        let users = db.create_family("users", FamilyOptions::new()).unwrap();
        (db, users)
    };
    let ((db, users), (other, other_users)) = (made(), made());
    let batch = every_kind(&db, &users).unwrap();
    let sent = other.batch_from_bytes(batch.as_bytes()).unwrap();
    assert_eq!((sent.len(), sent.as_bytes()), (batch.len(), batch.as_bytes()));
    let operations: Vec<Operation<'_>> = sent.operations().collect();
    assert_eq!(operations, batch.operations().collect::<Vec<_>>());
    // The batch belongs to the other database now, which has no merge operator.
    assert_eq!(other.write(&sent).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let mut puts = WriteBatch::new();
    puts.put(&users, "k", "v").unwrap();
    other.write(&other.batch_from_bytes(puts.as_bytes()).unwrap()).unwrap();
    assert!(other_users.contains("k").unwrap() && !users.contains("k").unwrap());
    other.drop_family("users").unwrap();
    let missing = other.batch_from_bytes(puts.as_bytes()).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

#[test]
fn bytes_that_are_no_batch_are_refused_at_any_length_and_any_change() {
    let db = options(&MemFs::new()).open("db").unwrap();
    let users = db.create_family("users", FamilyOptions::new()).unwrap();
    let bytes = every_kind(&db, &users).unwrap().as_bytes().to_vec();
    let mut whole = 0;
    for end in 0..bytes.len() {
        // A cut at the end of an operation leaves a valid batch.
        whole += usize::from(db.batch_from_bytes(&bytes[..end]).is_ok());
    }
    assert_eq!(whole, 6);
    for index in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[index] ^= 1 << bit;
            // The result may be a different batch, but never a panic.
            if let Ok(batch) = db.batch_from_bytes(&changed) {
                assert_eq!(batch.operations().count(), batch.len());
            }
        }
    }
    // A reference to a value in a file of the original database.
    assert!(db.batch_from_bytes(&[7, 0, 1, 0, b'k']).is_err());
}

#[test]
fn the_database_takes_every_write_of_its_default_family() {
    let db = options(&MemFs::new()).open("db").unwrap();
    let synced = WriteOptions::new().durability(Durability::Synced);
    db.put("a", "1").unwrap();
    db.put_with("b", "1", &synced).unwrap();
    db.put_for("c", "1", Duration::from_secs(3600)).unwrap();
    db.put_for_with("d", "1", Duration::from_secs(3600), &synced).unwrap();
    assert_eq!(db.count(..).unwrap(), 4);
    db.delete("a").unwrap();
    db.delete_with("b", &synced).unwrap();
    db.delete_range("c".."d").unwrap();
    assert_eq!(db.count(..).unwrap(), 1);
    db.delete_range_with(.."d", &synced).unwrap();
    db.delete_prefix("x").unwrap();
    assert_eq!(db.count(..).unwrap(), 1);
    db.delete_prefix_with("d", &synced).unwrap();
    assert!(db.is_empty().unwrap());
    for refused in [db.merge("a", "1"), db.merge_with("a", "1", &synced)] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}
