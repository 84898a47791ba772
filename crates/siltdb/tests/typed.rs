//! Typed families against a map of the same types, and the order that a family keeps.

use siltdb::{
    Action, Caseless, Db, ErrorKind, Event, Family, FamilyOptions, Isolation, Key, KeyOrder,
    Options, Read, Result, RetentionFloor, SubscribeOptions, TypedFamily, Value, WriteBatch,
    WriteOptions,
    archive::{Archive, ImportOptions},
    testing::{Crash, MemFs},
};
use std::{
    cmp::Reverse,
    collections::BTreeMap,
    fmt::Debug,
    ops::{Bound, RangeBounds},
    sync::Arc,
    time::Duration,
};

const DIR: &str = "db";

/// Numbers that look random; the seed decides all of them.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 29)) % bound
    }

    fn text(&mut self) -> String {
        (0..self.below(4)).map(|_| ['\0', 'a', 'B', 'b'][self.below(4) as usize]).collect()
    }
}

fn on(fs: &MemFs) -> Options {
    let options = Options::new().memtable_bytes(8 << 10).memory_budget(4 << 20);
    options.workers(0).fs(Arc::new(fs.clone())).seed(1)
}

fn ordered<K: Key>() -> FamilyOptions {
    FamilyOptions::new().key_order(KeyOrder::of::<K>()).table_bytes(4 << 10)
}

fn all<K, V>(pairs: impl Iterator<Item = Result<(K, V)>>) -> Vec<(K, V)> {
    pairs.map(|pair| pair.unwrap()).collect()
}

type Model<K, V> = BTreeMap<K, V>;

fn modelled<K: Clone, V: Clone>(pair: Option<(&K, &V)>) -> Option<(K, V)> {
    pair.map(|(key, value)| (key.clone(), value.clone()))
}

/// Compares all reads of `family` with `model`, at the keys `probes`.
fn compare<K, V>(family: &TypedFamily<K, V>, model: &Model<K, V>, probes: &[K])
where
    K: Key + Ord + Clone + Debug,
    V: Value + PartialEq + Clone + Debug,
{
    let expected: Vec<_> = model.clone().into_iter().collect();
    assert_eq!(all(family.iter().unwrap()), expected);
    assert_eq!(
        all(family.iter().unwrap().rev()),
        expected.iter().rev().cloned().collect::<Vec<_>>()
    );
    assert_eq!(family.first().unwrap(), modelled(model.first_key_value()));
    assert_eq!(family.last().unwrap(), modelled(model.last_key_value()));
    let values: Vec<_> = probes.iter().map(|key| model.get(key).cloned()).collect();
    assert_eq!(family.get_many(probes).unwrap(), values);
    for (key, value) in probes.iter().zip(&values) {
        assert_eq!(family.get(key).unwrap(), *value, "{key:?}");
        assert_eq!(family.contains(key).unwrap(), value.is_some());
        let below = |end: Bound<K>| modelled(model.range((Bound::Unbounded, end)).next_back());
        let above = |start: Bound<K>| modelled(model.range((start, Bound::Unbounded)).next());
        assert_eq!(family.get_lt(key).unwrap(), below(Bound::Excluded(key.clone())));
        assert_eq!(family.get_le(key).unwrap(), below(Bound::Included(key.clone())));
        assert_eq!(family.get_gt(key).unwrap(), above(Bound::Excluded(key.clone())));
        assert_eq!(family.get_ge(key).unwrap(), above(Bound::Included(key.clone())));
        compare_cursor(family, model, key);
    }
    for pair in probes.windows(2) {
        let (a, b) = (pair[0].clone().min(pair[1].clone()), pair[0].clone().max(pair[1].clone()));
        compare_range(family, model, a.clone()..b.clone());
        compare_range(family, model, a.clone()..=b.clone());
        if a < b {
            compare_range(family, model, (Bound::Excluded(a), Bound::Excluded(b)));
        }
    }
}

fn compare_range<K, V, R>(family: &TypedFamily<K, V>, model: &Model<K, V>, range: R)
where
    K: Key + Ord + Clone + Debug,
    V: Value + PartialEq + Clone + Debug,
    R: RangeBounds<K> + Clone + Debug,
{
    let expected: Vec<_> =
        model.range(range.clone()).map(|pair| modelled(Some(pair)).unwrap()).collect();
    assert_eq!(all(family.range(range.clone()).unwrap()), expected, "{range:?}");
    assert_eq!(family.count(range.clone()).unwrap(), expected.len() as u64);
    let keys: Vec<_> = family.keys(range.clone()).unwrap().rev().map(|key| key.unwrap()).collect();
    assert_eq!(keys, expected.iter().rev().map(|(key, _)| key.clone()).collect::<Vec<_>>());
    let mut cursor = family.cursor_of(range).unwrap();
    cursor.seek_to_last().unwrap();
    assert_eq!(cursor.entry().unwrap(), expected.last().cloned());
    cursor.seek_to_first().unwrap();
    assert_eq!(cursor.entry().unwrap(), expected.first().cloned());
}

fn compare_cursor<K, V>(family: &TypedFamily<K, V>, model: &Model<K, V>, key: &K)
where
    K: Key + Ord + Clone + Debug,
    V: Value + PartialEq + Clone + Debug,
{
    let mut cursor = family.cursor().unwrap();
    cursor.seek(key).unwrap();
    for pair in model.range(key.clone()..).take(3) {
        assert_eq!(cursor.entry().unwrap(), modelled(Some(pair)));
        cursor.next().unwrap();
    }
    cursor.seek_for_prev(key).unwrap();
    for (expected, _) in model.range(..=key.clone()).rev().take(3) {
        assert_eq!(cursor.key().unwrap().as_ref(), Some(expected));
        cursor.prev().unwrap();
    }
}

/// Writes at random, by every kind of write, and compares with a map after each round.
fn run<K, V>(seed: u64, mut key: impl FnMut(&mut Draw) -> K, mut value: impl FnMut(&mut Draw) -> V)
where
    K: Key + Ord + Clone + Debug,
    V: Value + PartialEq + Clone + Debug,
{
    println!("seed {seed}");
    let (fs, mut draw, mut model) = (MemFs::new(), Draw(seed), Model::new());
    let mut db = on(&fs).open(DIR).unwrap();
    let mut family: TypedFamily<K, V> =
        db.family_or_create("f", ordered::<K>()).unwrap().typed().unwrap();
    for round in 0..12 {
        for _ in 0..40 {
            write(&db, &family, &mut model, (draw.below(8), key(&mut draw), value(&mut draw)));
        }
        let (a, b) = (key(&mut draw), key(&mut draw));
        let (a, b) = (a.clone().min(b.clone()), a.max(b));
        match round % 3 {
            0 => family.delete_range(a.clone()..b.clone()).unwrap(),
            1 => {
                let mut batch = WriteBatch::new();
                family.in_batch(&mut batch).delete_range(a.clone()..b.clone()).unwrap();
                db.write(&batch).unwrap();
            }
            _ => {
                let transaction = db.begin(Isolation::Serializable);
                let within = family.in_transaction(&transaction).unwrap();
                within.delete_range(a.clone()..b.clone()).unwrap();
                assert!(!within.contains(&a).unwrap() || a == b);
                transaction.commit().unwrap();
            }
        }
        model.retain(|key, _| *key < a || *key >= b);
        let snapshot = family.in_snapshot(&db.snapshot()).unwrap();
        let (before, probe) = (model.clone(), key(&mut draw));
        write(&db, &family, &mut model, (0, probe, value(&mut draw)));
        assert_eq!(all(snapshot.iter().unwrap()), before.into_iter().collect::<Vec<_>>());
        match round % 4 {
            0 => db.flush().unwrap(),
            1 => db.compact().unwrap(),
            2 => {
                drop((snapshot, family, db));
                db = on(&fs).open(DIR).unwrap();
                family = db.family("f").unwrap().typed().unwrap();
            }
            _ => {}
        }
        let probes: Vec<_> = (0..8).map(|_| key(&mut draw)).collect();
        compare(&family, &model, &probes);
    }
    assert!(model.len() > 3, "the model is nearly empty");
    db.flush().unwrap();
    let follower = on(&fs).open_follower(DIR).unwrap();
    let seen: TypedFamily<K, V> = follower.db().family("f").unwrap().typed().unwrap();
    compare(&seen, &model, &[]);
    drop((family, db, seen, follower));
    let db = on(&fs).read_only(true).open(DIR).unwrap();
    compare(&db.family("f").unwrap().typed::<K, V>().unwrap(), &model, &[]);
}

fn write<K, V>(
    db: &Db,
    family: &TypedFamily<K, V>,
    model: &mut Model<K, V>,
    (kind, key, value): (u64, K, V),
) where
    K: Key + Ord + Clone + Debug,
    V: Value + PartialEq + Clone + Debug,
{
    let time = Duration::from_secs(1 << 30);
    match kind {
        0 | 1 => family.put(&key, &value).unwrap(),
        2 => family.put_with(&key, &value, &WriteOptions::new()).unwrap(),
        3 => family.put_for(&key, &value, time).unwrap(),
        4 => {
            let mut batch = WriteBatch::new();
            let mut within = family.in_batch(&mut batch);
            within.delete(&key).unwrap();
            within.put(&key, &value).unwrap();
            within.put_for(&key, &value, time).unwrap();
            db.write(&batch).unwrap();
        }
        5 => {
            let transaction = db.begin(Isolation::RepeatableRead);
            let within = family.in_transaction(&transaction).unwrap();
            within.put(&key, &value).unwrap();
            within.put_for(&key, &value, time).unwrap();
            assert_eq!(within.get(&key).unwrap().as_ref(), Some(&value));
            transaction.commit().unwrap();
        }
        6 => {
            assert_eq!(family.take(&key).unwrap(), model.remove(&key));
            return;
        }
        _ => {
            let old = model.get(&key).cloned();
            let new = family.update_and_fetch(&key, |found| {
                assert_eq!(found, old);
                Some(value.clone())
            });
            assert_eq!(new.unwrap(), Some(value.clone()));
        }
    }
    model.insert(key, value);
}

#[test]
fn families_of_numbers_are_maps() {
    run(1, |draw| draw.below(60) as i64 - 30, |draw| draw.below(1000));
    run(2, |draw| Reverse(draw.below(60) as u16), |draw| (draw.below(9) as u8, draw.text()));
}

#[test]
fn families_of_text_with_zero_bytes_are_maps() {
    run(3, Draw::text, Draw::text);
    run(4, |draw| Caseless(draw.text()), |draw| draw.text().into_bytes());
}

#[test]
fn families_of_tuples_are_maps() {
    run(5, |draw| (draw.text(), draw.below(4) as i8 - 2), |draw| Some(draw.below(7) as u32));
    run(6, |draw| (Reverse(draw.text()), Some(draw.text())), |_| ());
}

#[test]
fn prefixes_select_the_first_fields() {
    let db = on(&MemFs::new()).open(DIR).unwrap();
    let options = ordered::<(String, u8, String)>();
    let family: TypedFamily<(String, u8, String), u64> =
        db.create_family("f", options).unwrap().typed().unwrap();
    let mut draw = Draw(7);
    let mut model = Model::new();
    for number in 0..300 {
        let key = (draw.text(), draw.below(3) as u8, draw.text());
        family.put(&key, &number).unwrap();
        model.insert(key, number);
    }
    for (a, b, _) in model.keys() {
        let one: Vec<_> = model.clone().into_iter().filter(|(key, _)| key.0 == *a).collect();
        assert_eq!(all(family.prefix(&(a.clone(),)).unwrap()), one);
        let two: Vec<_> = one.into_iter().filter(|(key, _)| key.1 == *b).collect();
        assert_eq!(all(family.prefix(&(a.clone(), *b)).unwrap()), two);
    }
    let first = model.keys().nth(model.len() / 2).unwrap().clone();
    family.delete_prefix(&(first.0.clone(), first.1)).unwrap();
    let mut batch = WriteBatch::new();
    family.in_batch(&mut batch).delete_prefix(&(String::new(),)).unwrap();
    db.write(&batch).unwrap();
    let transaction = db.begin(Isolation::Snapshot);
    family.in_transaction(&transaction).unwrap().delete_prefix(&("\0".to_owned(),)).unwrap();
    transaction.commit().unwrap();
    model.retain(|key, _| (&key.0, key.1) != (&first.0, first.1));
    model.retain(|key, _| !key.0.is_empty() && key.0 != "\0");
    assert_eq!(all(family.iter().unwrap()), model.into_iter().collect::<Vec<_>>());
}

#[test]
fn borrowed_text_finds_what_owned_text_wrote() {
    let db = on(&MemFs::new()).open(DIR).unwrap();
    let users: TypedFamily<String, u64> =
        db.create_family("users", ordered::<String>()).unwrap().typed().unwrap();
    users.put("alice", &1).unwrap();
    users.put(&"bob".to_owned(), &2).unwrap();
    assert_eq!(users.get("bob").unwrap(), Some(2));
    assert_eq!(users.prefix("al").unwrap().count(), 1);
    users.delete("alice").unwrap();
    assert_eq!(users.take("alice").unwrap(), None);
}

#[test]
fn the_feed_and_buckets_use_the_same_encodings() {
    let db = on(&MemFs::new()).open(DIR).unwrap();
    let events: TypedFamily<(i64, String), u64> =
        db.create_family("events", ordered::<(i64, String)>()).unwrap().typed().unwrap();
    let mut feed = db.subscribe(&SubscribeOptions::new().family(events.source())).unwrap();
    events.put(&(-7, "a\0".to_owned()), &300).unwrap();
    let Some(Event::Commit(commit)) = feed.try_next().unwrap() else { panic!("no commit") };
    let change = commit.changes().next().unwrap().operation;
    assert_eq!(<(i64, String)>::from_key(change.key).unwrap(), (-7, "a\0".to_owned()));
    let Action::Put(value) = change.action else { panic!("another action") };
    assert_eq!(u64::from_value(value).unwrap(), 300);

    let bucket = db.default_family().bucket(["readings"]).unwrap();
    bucket.create().unwrap();
    for degrees in [20_i32, -5, 3] {
        bucket.put(degrees.to_key(), degrees.to_value().unwrap()).unwrap();
    }
    let keys: Vec<_> =
        bucket.range(..).unwrap().map(|pair| i32::from_key(&pair.unwrap().0).unwrap()).collect();
    assert_eq!(keys, [-5, 3, 20]);
    let refused = events.source().bucket(["readings"]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let transaction = db.begin(Isolation::Serializable).family(events.source()).unwrap();
    assert!(transaction.bucket(["readings"]).is_err());
}

#[test]
fn bytes_that_do_not_decode_are_an_error_where_they_are_met() {
    let db = on(&MemFs::new()).open(DIR).unwrap();
    let family = db.create_family("f", ordered::<u16>()).unwrap();
    let typed: TypedFamily<u16, bool> = family.typed().unwrap();
    typed.put(&1, &true).unwrap();
    family.put([0, 2, 0], true.to_value().unwrap()).unwrap();
    family.put(3_u16.to_key(), [7]).unwrap();
    typed.put(&4, &false).unwrap();
    let kinds: Vec<_> = typed.iter().unwrap().map(|pair| pair.map_err(|e| e.kind())).collect();
    let damaged = Err(ErrorKind::Corruption);
    assert_eq!(kinds, [Ok((1, true)), damaged, damaged, Ok((4, false))]);
    assert_eq!(typed.get(&3).unwrap_err().kind(), ErrorKind::Corruption);
    assert!(typed.get_gt(&1).is_err());
    let mut changed = 0;
    let update = typed.update_and_fetch(&3, |_| {
        changed += 1;
        None
    });
    assert_eq!((update.unwrap_err().kind(), changed), (ErrorKind::Corruption, 0));
    assert_eq!(typed.keys(..).unwrap().filter(|key| key.is_err()).count(), 1);
}

/// The kind of error with which `family` refuses keys of type `K`.
fn refusal<K: Key>(family: &Family) -> Option<ErrorKind> {
    let error = family.typed::<K, ()>().err()?;
    assert!(error.to_string().contains(family.key_order().name()), "{error}");
    Some(error.kind())
}

#[test]
fn another_order_is_refused_where_a_family_is_opened() {
    let fs = MemFs::new();
    let order = KeyOrder::of::<u64>();
    let with = |order: KeyOrder| FamilyOptions::new().key_order(order);
    let check = |db: &Db| {
        let family = db.family("f").unwrap();
        assert_eq!(family.key_order(), order);
        assert_eq!(family.options().get("key_order").unwrap(), "u64");
        assert_eq!(family.typed::<u64, ()>().unwrap().count(..).unwrap(), 2);
        let refused = Some(ErrorKind::InvalidArgument);
        assert_eq!(refusal::<i64>(&family), refused);
        assert_eq!(refusal::<Vec<u8>>(&family), refused);
        assert_eq!(refusal::<Reverse<u64>>(&family), refused);
        assert_eq!(refusal::<u64>(&db.default_family()), refused);
        assert_eq!(refusal::<Vec<u8>>(&db.default_family()), None);
    };
    let db = on(&fs).open(DIR).unwrap();
    let family = db.create_family("f", with(order.clone())).unwrap();
    family.typed::<u64, ()>().unwrap().put(&7, &()).unwrap();
    db.flush().unwrap();
    family.typed::<u64, ()>().unwrap().put(&1, &()).unwrap();
    check(&db);

    let clone = db.clone_family(&family, "clone").unwrap();
    assert_eq!(clone.key_order(), order);
    let other = with(KeyOrder::of::<i64>());
    let kind = |result: Result<_>| result.map(|_: Family| ()).unwrap_err().kind();
    assert_eq!(kind(db.family_or_create("f", other.clone())), ErrorKind::InvalidArgument);
    assert_eq!(kind(db.family_or_create("default", other.clone())), ErrorKind::InvalidArgument);
    assert!(family.set_options(&other).is_err());
    assert!(db.default_family().set_options(&other).is_err());
    // Options without an order fit every family.
    family.set_options(&FamilyOptions::new().block_bytes(2048)).unwrap();
    db.family_or_create("f", FamilyOptions::new()).unwrap();
    db.family_or_create("f", with(order.clone())).unwrap();
    check(&db);
    db.sync_wal().unwrap();

    let crashed = fs.crash_clone(Crash::PowerLoss { seed: 1 });
    check(&on(&crashed).open(DIR).unwrap());
    drop((family, clone, db));
    check(&on(&fs).open(DIR).unwrap());
    check(&on(&fs).read_only(true).open(DIR).unwrap());
    let refused = on(&fs).default_family(with(order.clone())).open(DIR).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let refused = on(&fs).default_family(with(order.clone())).read_only(true).open(DIR);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    // Nothing has changed.
    check(&on(&fs).default_family(with(KeyOrder::bytewise())).open(DIR).unwrap());
}

#[test]
fn the_default_family_gets_its_order_with_the_database() {
    let fs = MemFs::new();
    let with_order = || on(&fs).default_family(ordered::<i8>());
    let db = with_order().open(DIR).unwrap();
    db.default_family().typed::<i8, u8>().unwrap().put(&-1, &7).unwrap();
    drop(db);
    for options in [with_order(), on(&fs)] {
        let db = options.open(DIR).unwrap();
        let family = db.default_family().typed::<i8, u8>().unwrap();
        assert_eq!(family.last().unwrap(), Some((-1, 7)));
    }
}

#[test]
fn a_name_that_is_none_is_refused_before_anything_is_written() {
    #[derive(Debug)]
    struct Unnamed;
    impl Key for Unnamed {
        fn order_name() -> String {
            "a name\n".to_owned()
        }
        fn encode(&self, _: &mut Vec<u8>) {}
        fn decode(_: &mut siltdb::KeyReader<'_>) -> Result<Self> {
            Ok(Self)
        }
    }
    let db = on(&MemFs::new()).open(DIR).unwrap();
    let refused = db.create_family("f", ordered::<Unnamed>()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert_eq!(db.families(), ["default"]);
    let refused = FamilyOptions::new().set("key_order", "u46").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn an_ingest_takes_files_of_the_order_of_the_family() {
    let fs = MemFs::new();
    let db = on(&fs).open(DIR).unwrap();
    let family = db.create_family("f", ordered::<Reverse<u64>>()).unwrap();
    let write = |name: &str, options: &FamilyOptions| {
        let mut table = on(&fs).table_file(name, options).unwrap();
        for number in [9_u64, 7] {
            table.put(Reverse(number).to_key(), number.to_value().unwrap()).unwrap();
        }
        table.finish().unwrap();
    };
    write("ordered.table", &ordered::<Reverse<u64>>());
    write("plain.table", &FamilyOptions::new());
    let default = db.default_family();
    for (to, name) in [(&family, "plain.table"), (&default, "ordered.table")] {
        let error = db.ingest(&[(to.clone(), name)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        let text = error.to_string();
        assert!(text.contains("reverse(u64)") && text.contains(name), "{text}");
    }
    assert!(family.is_empty().unwrap() && default.is_empty().unwrap());
    db.ingest(&[(family.clone(), "ordered.table"), (default.clone(), "plain.table")]).unwrap();
    assert_eq!(default.count(..).unwrap(), 2);
    family.ingest_sorted([(Reverse(5_u64).to_key(), 5_u64.to_value().unwrap())]).unwrap();
    let typed = family.typed::<Reverse<u64>, u64>().unwrap();
    let expected = [9, 7, 5].map(|number| (Reverse(number), number));
    assert_eq!(all(typed.iter().unwrap()), expected);
}

#[test]
fn branches_archives_and_followers_keep_the_order() {
    // Keys that begin as those of buckets do.
    let key = |last: u128| 0x00ff_6200_0000_0000_0000_0709 << 32 | last;
    let fs = MemFs::new();
    let db = on(&fs).open(DIR).unwrap();
    let typed = |family: &Family| family.typed::<u128, String>().unwrap();
    let family = db.create_family("f", ordered::<u128>()).unwrap();
    typed(&family).put(&key(1), &"old".to_owned()).unwrap();
    let there = db.create_branch("work").unwrap().family("f").unwrap();
    assert_eq!(there.key_order(), KeyOrder::of::<u128>());
    typed(&there).put(&key(2), &"branch".to_owned()).unwrap();
    typed(&family).put(&key(3), &"main".to_owned()).unwrap();
    typed(&family).delete(&key(1)).unwrap();
    // Not taken for buckets that both have changed.
    assert!(db.merge_branch("work").unwrap().is_applied);
    let expected = [(key(2), "branch".to_owned()), (key(3), "main".to_owned())];
    assert_eq!(all(typed(&family).iter().unwrap()), expected);

    db.archive("f.siltar").unwrap();
    let archived = Archive::open_with("f.siltar", &on(&fs)).unwrap().family("f").unwrap();
    assert_eq!(archived.key_order(), KeyOrder::of::<u128>());
    let other = on(&fs).open("other").unwrap();
    let as_default = ImportOptions::new().family("f", "default");
    let refused = other
        .import_archive_with("f.siltar", &as_default, &mut |_| std::ops::ControlFlow::Continue(()));
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    assert!(refused.to_string().contains("u128"), "{refused}");
    assert!(other.is_empty().unwrap());
    other.import_archive("f.siltar").unwrap();
    assert_eq!(all(typed(&other.family("f").unwrap()).iter().unwrap()), expected);

    db.sync_wal().unwrap();
    let follower = on(&fs).open_follower(DIR).unwrap();
    assert_eq!(all(typed(&follower.db().family("f").unwrap()).iter().unwrap()), expected);
    let refused = on(&fs).default_family(ordered::<u128>()).open_follower(DIR).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_snapshot_of_the_past_is_typed() {
    let fs = MemFs::new();
    let db = on(&fs).open(DIR).unwrap();
    db.set_retention_floor(RetentionFloor::Now).unwrap();
    let family = db.create_family("f", ordered::<Reverse<i32>>()).unwrap();
    let typed = family.typed::<Reverse<i32>, u8>().unwrap();
    typed.put(&Reverse(-1), &1).unwrap();
    let then = db.snapshot().sequence();
    typed.put(&Reverse(1), &2).unwrap();
    typed.delete(&Reverse(-1)).unwrap();
    db.compact().unwrap();
    let past = typed.in_snapshot(&db.snapshot_at(then).unwrap()).unwrap();
    assert_eq!(all(past.iter().unwrap()), [(Reverse(-1), 1)]);
    assert_eq!(all(typed.iter().unwrap()), [(Reverse(1), 2)]);
}
