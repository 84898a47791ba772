//! The verbs of typed families: each has the effect of its twin on bytes, and none is missing.

use siltdb::{
    Db, ErrorKind, Expiry, FamilyOptions, Isolation, KeyOrder, Options, Read, SubscribeOptions,
    Swap, TypedChange, TypedEvent, TypedFamily, WriteBatch, WriteOptions, merge, testing::MemFs,
};
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

type Stock = TypedFamily<String, u32>;

fn open() -> (MemFs, Db, Stock) {
    let fs = MemFs::new();
    let sum = merge::associative("sum", |_, older, newer| {
        let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
        Ok((number(older) + number(newer)).to_le_bytes().to_vec())
    });
    let options = Options::new().workers(0).seed(1).fs(Arc::new(fs.clone()));
    let db = options.merge_operator(sum.clone()).open("db").unwrap();
    let family = FamilyOptions::new().key_order(KeyOrder::of::<String>()).merge_operator(sum);
    let stock = db.create_family("stock", family).unwrap().typed().unwrap();
    (fs, db, stock)
}

/// A key whose value is no number of four bytes.
const DAMAGED: &str = "damaged";

fn damage(stock: &Stock) {
    stock.source().put(DAMAGED, "abc").unwrap();
}

/// The public methods in `impl` blocks and traits of the sources whose first line is one of
/// `heads`.
fn verbs(heads: &[&str]) -> BTreeSet<String> {
    fn collect(dir: &Path, heads: &[&str], verbs: &mut BTreeSet<String>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, heads, verbs);
                continue;
            }
            let mut is_in = false;
            for line in fs::read_to_string(&path).unwrap().lines() {
                if line.starts_with("impl") || line.starts_with("pub trait") || line == "}" {
                    is_in = heads.iter().any(|head| line.starts_with(head));
                }
                let public = line.strip_prefix("    pub fn ");
                let in_trait =
                    || line.strip_prefix("    fn ").filter(|_| heads[0].contains("trait"));
                if let Some(rest) = public.or_else(in_trait)
                    && is_in
                {
                    let end = rest.find(['(', '<']).unwrap();
                    verbs.insert(rest[..end].to_owned());
                }
            }
        }
    }
    let mut found = BTreeSet::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), heads, &mut found);
    found
}

#[test]
fn every_verb_of_a_family_has_a_typed_twin_or_concerns_neither_keys_nor_values() {
    let twins = verbs(&[
        "impl<K: Key, V: Value> TypedFamily<K, V>",
        "impl<S: Read, K: Key, V: Value> TypedSource<S, K, V>",
        "impl<S: AtomicTarget, K: Key, V: Value> TypedSource<S, K, V>",
    ]);
    // Of the family as a whole.
    let whole = [
        "id",
        "branch",
        "name",
        "key_order",
        "options",
        "set_options",
        "flush",
        "compact",
        "compact_with",
        "stats",
        "compression_stats",
        "freeze",
        "freeze_with",
        "thaw",
        "thaw_with",
        "reclaim_buckets",
    ];
    // A stream of bytes is no value of a type. Buckets have keys of their own.
    let bytes = ["put_reader", "put_reader_with", "bucket", "typed"];
    let family = verbs(&["impl Family {"]);
    assert!(family.len() > 40, "the sources are written otherwise: {family:?}");
    for verb in whole.iter().chain(&bytes) {
        assert!(family.contains(*verb), "no verb of a family is called {verb}");
        assert!(!twins.contains(*verb), "{verb} has a twin");
    }
    let missing: Vec<_> = family
        .iter()
        .filter(|verb| !whole.contains(&verb.as_str()) && !bytes.contains(&verb.as_str()))
        .filter(|verb| !twins.contains(*verb))
        .collect();
    assert!(missing.is_empty(), "a typed family lacks {missing:?}");
}

#[test]
fn every_verb_of_reads_batches_and_ingestions_has_a_typed_twin() {
    let twins = verbs(&["impl<S: Read, K: Key, V: Value> TypedSource<S, K, V>"]);
    let mut reads = verbs(&["pub trait Read:"]);
    assert!(reads.len() > 15, "{reads:?}");
    // `get` decodes in place; the ranges of `keys` and `cursor_of` are those of the options. A
    // stream of bytes is no value of a type.
    for verb in ["read", "get_into", "iter_with", "cursor_with", "get_reader"] {
        reads.remove(verb);
    }
    assert_eq!(reads.difference(&twins).collect::<Vec<_>>(), Vec::<&String>::new());

    let twins = verbs(&["impl<'a, K: Key, V: Value> TypedBatch<'a, K, V>"]);
    let on_keys = |verb: &String| {
        ["put", "delete", "merge", "single"].iter().any(|start| verb.starts_with(start))
    };
    let batch: BTreeSet<_> = verbs(&["impl WriteBatch {"]).into_iter().filter(on_keys).collect();
    assert!(batch.len() > 6, "{batch:?}");
    assert_eq!(batch.difference(&twins).collect::<Vec<_>>(), Vec::<&String>::new());

    let twins = verbs(&["impl<K: Key, V: Value> TypedIngestion<K, V>"]);
    assert_eq!(verbs(&["impl Ingestion {"]), twins);
}

#[test]
fn a_typed_family_swaps_updates_takes_and_pops() {
    let (_fs, db, stock) = open();
    assert!(stock.compare_and_swap("pen", None, Some(&7)).unwrap().is_swapped());
    assert_eq!(stock.compare_and_swap("pen", Some(&8), None).unwrap(), Swap::Differs(Some(7)));
    assert_eq!(stock.compare_and_swap("ink", Some(&8), None).unwrap(), Swap::Differs(None));
    assert_eq!(stock.put_if_absent("pen", &9).unwrap(), Some(7));
    assert_eq!(stock.put_if_absent("ink", &2).unwrap(), None);
    let add = |old: Option<u32>| Some(old.unwrap_or(0) + 1);
    assert_eq!(stock.fetch_and_update("pen", add).unwrap(), Some(7));
    assert_eq!(stock.update_and_fetch("pen", add).unwrap(), Some(9));
    stock.merge("pen", &10).unwrap();
    assert_eq!(stock.get("pen").unwrap(), Some(19));
    assert_eq!(stock.take("pen").unwrap(), Some(19));
    assert_eq!(stock.take("pen").unwrap(), None);
    for (key, value) in [("a", 1), ("z", 26)] {
        stock.put(key, &value).unwrap();
    }
    assert_eq!(stock.pop_first().unwrap(), Some(("a".to_owned(), 1)));
    assert_eq!(stock.pop_last().unwrap(), Some(("z".to_owned(), 26)));
    assert_eq!(stock.pop_last().unwrap(), Some(("ink".to_owned(), 2)));
    assert_eq!(stock.pop_first().unwrap(), None);
    assert!(stock.is_empty().unwrap());
    let ids = db.typed::<String, u64>("ids").unwrap();
    assert_eq!([ids.next_id("job").unwrap(), ids.next_id("job").unwrap()], [1, 2]);
    stock.put("pen", &1).unwrap();
    stock.clear().unwrap();
    assert_eq!(stock.count(..).unwrap(), 0);
}

#[test]
fn a_typed_family_in_a_transaction_has_the_verbs_of_one_key_too() {
    let (_fs, db, stock) = open();
    stock.put("pen", &7).unwrap();
    let transaction = db.begin(Isolation::Serializable);
    let inside = stock.in_transaction(&transaction).unwrap();
    assert!(inside.compare_and_swap("pen", Some(&7), Some(&8)).unwrap().is_swapped());
    assert_eq!(inside.update_and_fetch("pen", |old| old.map(|old| old + 1)).unwrap(), Some(9));
    inside.merge("pen", &1).unwrap();
    assert_eq!(inside.get_for_update("pen").unwrap(), Some(10));
    assert_eq!(inside.put_if_absent("ink", &1).unwrap(), None);
    assert_eq!(inside.pop_first().unwrap(), Some(("ink".to_owned(), 1)));
    assert!(inside.touch("pen", Duration::from_secs(60)).unwrap());
    assert_eq!(inside.take("gone").unwrap(), None);
    assert_eq!(stock.get("pen").unwrap(), Some(7), "nothing is committed yet");
    transaction.commit().unwrap();
    let (value, expiry) = stock.get_expiring("pen").unwrap().unwrap();
    assert!(value == 10 && expiry != Expiry::Never && stock.count(..).unwrap() == 1);
}

#[test]
fn a_value_that_does_not_decode_is_not_taken() {
    let (_fs, db, stock) = open();
    damage(&stock);
    let corruption = |kind: ErrorKind| assert_eq!(kind, ErrorKind::Corruption);
    corruption(stock.take(DAMAGED).unwrap_err().kind());
    corruption(stock.pop_first().unwrap_err().kind());
    corruption(stock.pop_last().unwrap_err().kind());
    corruption(stock.put_if_absent(DAMAGED, &1).unwrap_err().kind());
    corruption(stock.fetch_and_update(DAMAGED, |_| None).unwrap_err().kind());
    corruption(stock.compare_and_swap(DAMAGED, None, Some(&1)).unwrap_err().kind());
    let transaction = db.begin(Isolation::Snapshot);
    let inside = stock.in_transaction(&transaction).unwrap();
    corruption(inside.take(DAMAGED).unwrap_err().kind());
    corruption(inside.pop_first().unwrap_err().kind());
    transaction.commit().unwrap();
    assert_eq!(stock.source().get(DAMAGED).unwrap().unwrap(), b"abc");
}

#[test]
fn a_typed_batch_and_a_typed_ingest_write_what_the_verbs_on_bytes_do() {
    let (_fs, db, stock) = open();
    let mut batch = WriteBatch::new();
    let mut typed = stock.in_batch(&mut batch);
    let lease = WriteOptions::new().ttl(Duration::from_secs(60));
    typed.put_with("a", &1, &lease).unwrap();
    typed.put_until("b", &2, SystemTime::now() + Duration::from_secs(60)).unwrap();
    typed.merge("c", &3).unwrap();
    db.write(&batch).unwrap();
    assert_ne!(stock.expires_at("a").unwrap(), Some(Expiry::Never));
    assert_ne!(stock.expires_at("b").unwrap(), Some(Expiry::Never));
    assert_eq!(stock.get("c").unwrap(), Some(3));

    let entries = ["x", "y", "z"].map(|key| (key.to_owned(), 9));
    assert_eq!(stock.ingest_sorted(entries).unwrap().entries, 3);
    let mut ingestion = stock.ingest().unwrap();
    ingestion.delete("y").unwrap();
    assert_eq!(ingestion.put("a", &1).unwrap_err().kind(), ErrorKind::InvalidArgument);
    ingestion.put_with("yes", &8, &lease).unwrap();
    assert_eq!(ingestion.entries(), 2);
    ingestion.finish().unwrap();
    let keys: Vec<_> = stock.keys("x".to_owned()..).unwrap().map(|key| key.unwrap()).collect();
    assert_eq!(keys, ["x", "yes", "z"]);
    assert_ne!(stock.size_of("x".to_owned()..).unwrap().entries, 0);
    stock.compact_range("x".to_owned()..).unwrap();
}

#[test]
fn a_typed_feed_yields_what_was_committed_to_its_family() {
    let (_fs, db, stock) = open();
    let mut feed = stock.subscribe(&SubscribeOptions::new()).unwrap();
    db.put("elsewhere", "v").unwrap();
    let mut batch = WriteBatch::new();
    batch.put(&db.default_family(), "elsewhere", "w").unwrap();
    let mut typed = stock.in_batch(&mut batch);
    typed.put("pen", &7).unwrap();
    typed.merge("pen", &1).unwrap();
    typed.delete("ink").unwrap();
    typed.delete_prefix("p").unwrap();
    db.write(&batch).unwrap();
    let (pen, ink) = ("pen".to_owned(), "ink".to_owned());
    let Some(TypedEvent::Commit { changes, last, .. }) = feed.try_next().unwrap() else {
        panic!("a commit changed the family")
    };
    let expected = [
        TypedChange::Put { key: pen.clone(), value: 7, expiry: Expiry::Never },
        TypedChange::Merge { key: pen.clone(), operand: 1 },
        TypedChange::Delete { key: ink.clone() },
        TypedChange::DeleteRange { start: b"p".to_vec(), end: b"q".to_vec() },
    ];
    assert_eq!(changes, expected);
    let covering = |key: &String| -> Vec<bool> {
        expected.iter().map(|change: &TypedChange<String, u32>| change.covers(key)).collect()
    };
    assert_eq!(covering(&pen), [true, true, false, true]);
    assert_eq!(covering(&ink), [false, false, true, false]);
    assert_eq!(feed.position(), last + 1);
    // A commit that does not decode is an error, and the feed goes on behind it.
    damage(&stock);
    stock.put("pen", &8).unwrap();
    assert_eq!(feed.try_next().unwrap_err().kind(), ErrorKind::Corruption);
    assert!(matches!(feed.try_next(), Ok(Some(TypedEvent::Commit { .. }))));
    assert!(feed.try_next().unwrap().is_none());
}

#[test]
fn a_typed_family_opens_by_its_name_and_keeps_the_type_of_its_keys() {
    let fs = MemFs::new();
    let options = || Options::new().workers(0).seed(1).fs(Arc::new(fs.clone()));
    let db = options().open("db").unwrap();
    db.typed::<u64, String>("names").unwrap().put(&7, &"Ada".to_owned()).unwrap();
    let refused = db.typed::<i64, String>("names").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    db.close().unwrap();
    let db = options().read_only(true).open("db").unwrap();
    let names = db.typed::<u64, String>("names").unwrap();
    assert_eq!(names.get(&7).unwrap(), Some("Ada".to_owned()));
    assert_eq!(db.typed::<u64, u64>("none").unwrap_err().kind(), ErrorKind::ReadOnly);
}
