//! A merge is whole or not there, overwrites nothing that it did not see, and is not repeated.

use super::*;
use crate::check::check;
use siltdb_base::{
    error::ErrorKind,
    fs::mem::{Crash, MemFs},
    key::EntryKind,
};
use siltdb_engine::{
    catalog::branches::MAIN,
    copies::branch::{self, check_out, create_branch},
    engine::Engine,
    fixture::{
        Pairs, commit_payload, compact_all, create_family, flush, killed, open, pairs, put_range,
        snapshot, sync_wal, tree_options,
    },
    read::{PinnedReader, ReadRange},
    write::commit::Payload,
};
use std::sync::Mutex;

fn id_of(engine: &Engine, name: &str) -> BranchId {
    let families = engine.database().catalog.families.load();
    families.branches().named(name).unwrap().map_or(BranchId::MAIN, |record| record.id)
}

fn create(engine: &Engine, name: &str, parent: &str) {
    let parent = id_of(engine, parent);
    let sources = heads(&engine.database().catalog, parent).unwrap();
    let now = snapshot(engine);
    let create =
        |database: Writable<'_>| create_branch(&database.job_rooms(), name, parent, &sources, &now);
    engine.at_work(create).unwrap();
}

fn drop_branch(engine: &Engine, name: &str) {
    engine.at_work(|database| branch::drop_branch(&database.installer(), name)).unwrap();
}

fn write(engine: &Engine, branch: &str, kind: EntryKind, pair: (&[u8], &[u8])) {
    let family = head(&engine.database().catalog, id_of(engine, branch), "default").unwrap();
    commit_payload(engine, &Payload::one(&family, kind, pair.0, pair.1)).unwrap();
}

fn put(engine: &Engine, branch: &str, key: &str, value: &str) {
    write(engine, branch, EntryKind::Put, (key.as_bytes(), value.as_bytes()));
}

fn delete(engine: &Engine, branch: &str, key: &str) {
    write(engine, branch, EntryKind::Delete, (key.as_bytes(), b""));
}

fn held(engine: &Engine, branch: &str) -> Pairs {
    let family = head(&engine.database().catalog, id_of(engine, branch), "default").unwrap();
    let reader = PinnedReader::new(&engine.database().read_rooms(), &family, None).unwrap();
    pairs(reader.cursor(ReadRange::default()).unwrap())
}

fn get(engine: &Engine, branch: &str, key: &str) -> Option<String> {
    let found = held(engine, branch).into_iter().find(|(other, _)| other == key.as_bytes())?;
    Some(String::from_utf8(found.1).unwrap())
}

fn merged(engine: &Engine, sides: MergeSides, request: &MergeRequest) -> Result<MergeReport> {
    engine.at_work(|database| merge_branch(database, sides, request))
}

fn merge_by(
    engine: &Engine,
    (from, into): (&str, &str),
    on_conflict: OnConflict,
) -> Result<MergeReport> {
    let request = MergeRequest { on_conflict, ..MergeRequest::default() };
    let sides = MergeSides { from: id_of(engine, from), into: id_of(engine, into) };
    merged(engine, sides, &request)
}

fn merge(engine: &Engine, from: &str, into: &str) -> MergeReport {
    merge_by(engine, (from, into), OnConflict::Refuse).unwrap()
}

/// Keys `a00000` to `a00099` on `main` and on `feature`, in tables.
fn filled(fs: &MemFs) -> Engine {
    let engine = open(fs);
    put_range(&engine, "a", 0..100, b"base");
    compact_all(&engine).unwrap();
    create(&engine, "feature", MAIN);
    engine
}

#[test]
fn the_rule_of_merging_is_that_of_three_ways() {
    let values = [None, Some(1), Some(2)];
    let mut counts = [0; 3];
    for base in values {
        for from in values {
            for into in values {
                let (changed_from, changed_into) = (from != base, into != base);
                let expected = match (changed_from, changed_into) {
                    (true, true) if from != into => Outcome::Conflict,
                    (true, false) => Outcome::Take,
                    _ => Outcome::Keep,
                };
                assert_eq!(outcome(&base, &from, &into), expected);
                counts[expected as usize] += 1;
            }
        }
    }
    assert_eq!(counts, [15, 6, 6]);
}

#[test]
fn a_merge_applies_what_the_branch_changed_and_keeps_what_the_other_side_changed() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    put(&engine, "feature", "a00010", "feature");
    delete(&engine, "feature", "a00020");
    put(&engine, "feature", "new", "feature");
    write(&engine, "feature", EntryKind::RangeDelete, (b"a00030", b"a00033"));
    put(&engine, MAIN, "a00040", "main");
    delete(&engine, MAIN, "a00050");
    // Both in the same way.
    put(&engine, "feature", "a00060", "same");
    put(&engine, MAIN, "a00060", "same");
    let dry = MergeRequest { goal: MergeGoal::Report, ..MergeRequest::default() };
    let before = held(&engine, MAIN);
    let sides = MergeSides { from: id_of(&engine, "feature"), into: BranchId::MAIN };
    let would = merged(&engine, sides, &dry).unwrap();
    assert!(held(&engine, MAIN) == before && !would.is_applied);
    let report = merge(&engine, "feature", MAIN);
    assert_eq!((report.written, report.conflicts, report.is_applied), (6, 0, true));
    assert_eq!((would.written, would.conflicts), (6, 0));
    for (key, expected) in [
        ("a00010", Some("feature")),
        ("a00020", None),
        ("new", Some("feature")),
        ("a00030", None),
        ("a00032", None),
        ("a00033", Some("base")),
        ("a00040", Some("main")),
        ("a00050", None),
        ("a00060", Some("same")),
    ] {
        assert_eq!(get(&engine, MAIN, key).as_deref(), expected, "{key}");
    }
    let expected = (held(&engine, MAIN), held(&engine, "feature"));
    let again = open(&killed(&fs));
    assert!((held(&again, MAIN), held(&again, "feature")) == expected);
    assert!(check(again.database(), &mut |_| {}).unwrap().is_clean());
}

#[test]
fn each_rule_for_conflicts_does_what_it_says() {
    for rule in [OnConflict::Refuse, OnConflict::Ours, OnConflict::Theirs] {
        let fs = MemFs::new();
        let engine = filled(&fs);
        put(&engine, "feature", "a00001", "feature");
        put(&engine, MAIN, "a00001", "main");
        delete(&engine, "feature", "a00002");
        put(&engine, MAIN, "a00002", "main");
        put(&engine, "feature", "free", "feature");
        let before = held(&engine, MAIN);
        let report = merge_by(&engine, ("feature", MAIN), rule).unwrap();
        let keys = ["a00001", "a00002"]
            .map(|key| ConflictingKey { family: "default".to_owned(), key: key.into() });
        assert_eq!((report.conflicts, &report.conflicting_keys[..]), (2, &keys[..]));
        assert_eq!(report.is_applied, rule != OnConflict::Refuse);
        let found = ["a00001", "a00002", "free"].map(|key| get(&engine, MAIN, key));
        let found = found.each_ref().map(Option::as_deref);
        match rule {
            OnConflict::Refuse => assert!(held(&engine, MAIN) == before),
            OnConflict::Ours => assert_eq!(found, [Some("main"), Some("main"), Some("feature")]),
            OnConflict::Theirs => assert_eq!(found, [Some("feature"), None, Some("feature")]),
        }
        if rule != OnConflict::Refuse {
            // The conflict was decided.
            assert_eq!(merge(&engine, "feature", MAIN).conflicts, 0);
        }
    }
}

#[test]
fn a_second_merge_does_not_repeat_the_first() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    put(&engine, "feature", "a00001", "feature");
    assert_eq!(merge(&engine, "feature", MAIN).written, 1);
    // Taken back, and that is what counts.
    put(&engine, MAIN, "a00001", "base");
    let report = merge(&engine, "feature", MAIN);
    assert_eq!((report.written, report.conflicts, report.is_applied), (0, 0, true));
    assert_eq!(get(&engine, MAIN, "a00001").as_deref(), Some("base"));
    put(&engine, "feature", "a00002", "later");
    let engine = open(&killed(&fs));
    assert_eq!(merge(&engine, "feature", MAIN).written, 1);
    assert_eq!(get(&engine, MAIN, "a00001").as_deref(), Some("base"));
    // A base takes the place of another: nothing is left over.
    assert_eq!(engine.database().catalog.families.load().len(), 3);
}

#[test]
fn a_branch_is_brought_up_to_date_with_its_parent() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    put(&engine, "feature", "a00001", "feature");
    put(&engine, MAIN, "a00002", "main");
    assert_eq!(merge(&engine, MAIN, "feature").written, 1);
    assert_eq!(get(&engine, "feature", "a00002").as_deref(), Some("main"));
    assert_eq!(get(&engine, "feature", "a00001").as_deref(), Some("feature"));
    // What came from main does not count as changed on the branch.
    put(&engine, MAIN, "a00002", "main again");
    let report = merge(&engine, "feature", MAIN);
    assert_eq!((report.written, report.conflicts), (1, 0));
    assert_eq!(get(&engine, MAIN, "a00002").as_deref(), Some("main again"));
    assert_eq!(get(&engine, MAIN, "a00001").as_deref(), Some("feature"));
}

#[test]
fn between_siblings_the_bases_stay() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    create(&engine, "sibling", MAIN);
    put(&engine, "feature", "a00001", "feature");
    assert_eq!(merge(&engine, "feature", "sibling").written, 1);
    assert_eq!(merge(&engine, "feature", "sibling").written, 0);
    // The parent still lacks it.
    assert_eq!(merge(&engine, "feature", MAIN).written, 1);
    put(&engine, "sibling", "a00001", "sibling");
    assert_eq!(merge(&engine, "feature", "sibling").written, 0);
    assert_eq!(get(&engine, "sibling", "a00001").as_deref(), Some("sibling"));
}

#[test]
fn an_expiry_is_a_part_of_the_value() {
    let fs = MemFs::new();
    let engine = open(&fs);
    let expiring = |branch: &str, key: &str, expiry_ms: u64| {
        let payload = [&expiry_ms.to_le_bytes()[..], b"value"].concat();
        write(&engine, branch, EntryKind::PutExpiring, (key.as_bytes(), &payload));
    };
    expiring(MAIN, "a", 5_000_000);
    expiring(MAIN, "b", 5_000_000);
    put(&engine, MAIN, "c", "value");
    create(&engine, "feature", MAIN);
    expiring("feature", "a", 6_000_000);
    expiring("feature", "b", 6_000_000);
    expiring(MAIN, "b", 7_000_000);
    expiring("feature", "c", 6_000_000);
    let report = merge_by(&engine, ("feature", MAIN), OnConflict::Ours).unwrap();
    assert_eq!((report.written, report.conflicts), (2, 1));
    flush(&engine).unwrap();
    let family = head(&engine.database().catalog, BranchId::MAIN, "default").unwrap();
    let snapshot = snapshot(&engine);
    let mut walk =
        BranchWalk::new(&engine.database().read_rooms(), [&family, &family], &snapshot.point())
            .unwrap();
    assert!(!walk.advance().unwrap(), "a family does not differ from itself");
    let branch = head(&engine.database().catalog, id_of(&engine, "feature"), "default").unwrap();
    let mut walk =
        BranchWalk::new(&engine.database().read_rooms(), [&family, &branch], &snapshot.point())
            .unwrap();
    let mut found = Vec::new();
    while walk.advance().unwrap() {
        let [main, feature] = walk.values().unwrap().map(|value| value.unwrap().expiry_ms.unwrap());
        found.push((walk.key().to_vec(), main, feature));
    }
    let expected = [("a", 6, 6), ("b", 7, 6), ("c", 6, 6)];
    let expected =
        expected.map(|(key, main, feature)| (key.into(), main * 1_000_000, feature * 1_000_000));
    assert_eq!(found, expected);
}

#[test]
fn a_write_during_the_merge_is_not_overwritten() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    put(&engine, "feature", "a00001", "feature");
    let feature = id_of(&engine, "feature");
    let record =
        Arc::clone(engine.database().catalog.families.load().branches().get(feature).unwrap());
    let at = snapshot(&engine);
    let source = head(&engine.database().catalog, feature, "default").unwrap();
    let main = head(&engine.database().catalog, BranchId::MAIN, "default").unwrap();
    let mut batch = BatchBytes::new();
    batch.put(main.id, b"a00001", b"feature").unwrap();
    let conditions = Conditions {
        snapshot: Some(at.sequence()),
        first_expiry: None,
        reads: None,
        writes: Writes::Checked,
        writer: Writer::plain(&engine.database().options),
    };
    let sources = [(source.id, source)];
    // Another merge of the branch begins and ends in between.
    let begun =
        begin_bases(&engine.writable().unwrap().job_rooms(), &record, &sources, &at).unwrap();
    let later =
        begin_bases(&engine.writable().unwrap().job_rooms(), &record, &sources, &at).unwrap();
    let error =
        commit_with_bases(engine.writable().unwrap(), &batch, &begun, &conditions).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(get(&engine, MAIN, "a00001").as_deref(), Some("base"));
    put(&engine, MAIN, "a00001", "meanwhile");
    let error =
        commit_with_bases(engine.writable().unwrap(), &batch, &later, &conditions).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(get(&engine, MAIN, "a00001").as_deref(), Some("meanwhile"));
    // The base has not moved: it still is a conflict.
    assert_eq!(merge(&engine, "feature", MAIN).conflicts, 1);
    let report = merge_by(&engine, ("feature", MAIN), OnConflict::Theirs).unwrap();
    assert_eq!((report.written, report.conflicts), (1, 1));
    // A merge that began before that one finds its base moved.
    let error =
        begin_bases(&engine.writable().unwrap().job_rooms(), &record, &sources, &at).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(engine.database().catalog.families.load().len(), 3);
}

/// The power is lost, or the process killed, before each call.
#[test]
fn a_merge_is_whole_or_not_there() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    put(&engine, "feature", "a00001", "feature");
    delete(&engine, "feature", "a00002");
    put(&engine, MAIN, "a00003", "main");
    sync_wal(&engine).unwrap();
    let before = held(&engine, MAIN);
    let (states, disk) = (Arc::new(Mutex::new(Vec::new())), fs.clone());
    let seen = Arc::clone(&states);
    fs.on_call(Some(Arc::new(move |call| {
        for crash in [Crash::Kill, Crash::PowerLoss { seed: call.number }] {
            lock(&seen).push(disk.crash_clone(crash));
        }
    })));
    assert_eq!(merge(&engine, "feature", MAIN).written, 2);
    fs.on_call(None);
    let mut states = std::mem::take(&mut *lock(&states));
    let (inside, after) = (states.len(), held(&engine, MAIN));
    assert!(inside > 10 && before != after, "{inside}");
    states.extend((0..5).map(|seed| fs.crash_clone(Crash::PowerLoss { seed })));
    let mut whole = 0;
    for (number, state) in states.iter().enumerate() {
        let engine = open(state);
        let found = held(&engine, MAIN);
        let is_merged = found == after;
        assert!(is_merged || found == before && number < inside, "state {number}");
        whole += usize::from(is_merged);
        assert!(check(engine.database(), &mut |_| {}).unwrap().is_clean());
        // A base that moved without the commit would lose the changes, and one that did not move
        // with it would repeat them.
        delete(&engine, MAIN, "a00001");
        put(&engine, MAIN, "a00001", "base");
        let report = merge(&engine, "feature", MAIN);
        assert_eq!(report.written, if is_merged { 0 } else { 2 }, "state {number}");
        assert_eq!(report.conflicts, 0, "state {number}");
        assert_eq!(engine.database().catalog.families.load().len(), 3, "state {number}");
    }
    assert!(whole > 5 && whole < states.len(), "{whole} of {}", states.len());
}

#[test]
fn merges_of_chosen_families_move_their_bases_alone() {
    let fs = MemFs::new();
    let engine = open(&fs);
    create_family(&engine, "other", tree_options()).unwrap();
    create(&engine, "feature", MAIN);
    let feature = id_of(&engine, "feature");
    for name in ["default", "other"] {
        let family = head(&engine.database().catalog, feature, name).unwrap();
        commit_payload(&engine, &Payload::one(&family, EntryKind::Put, b"key", b"value")).unwrap();
    }
    let of = |names: &[&str]| MergeRequest {
        families: Some(names.iter().map(|name| (*name).to_owned()).collect()),
        ..MergeRequest::default()
    };
    let merge = |names: &[&str]| {
        merged(&engine, MergeSides { from: feature, into: BranchId::MAIN }, &of(names))
    };
    assert_eq!(merge(&["other"]).unwrap().written, 1);
    assert_eq!(merge(&["other"]).unwrap().written, 0);
    assert!(held(&engine, MAIN).is_empty());
    assert_eq!(merge(&["default"]).unwrap().written, 1);
    assert_eq!(held(&engine, MAIN).len(), 1);
    assert_eq!(merge(&["unknown"]).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(merge(&["other", "other"]).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn branches_that_cannot_be_merged_are_refused() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    create(&engine, "child", "feature");
    create(&engine, "grandchild", "child");
    check_out(&engine.writable().unwrap().installer(), "feature").unwrap();
    let kind = |from: &str, into: &str| {
        merge_by(&engine, (from, into), OnConflict::Refuse).unwrap_err().kind()
    };
    for name in [MAIN, "feature"] {
        assert_eq!(kind(name, name), ErrorKind::InvalidArgument);
    }
    // Not by way of another branch: what that one took back would come again.
    for (from, into) in [(MAIN, "child"), (MAIN, "grandchild"), ("feature", "grandchild")] {
        assert_eq!(kind(from, into), ErrorKind::InvalidArgument, "{from} into {into}");
    }
    // Upwards it can be: a branch has its base itself.
    put(&engine, "grandchild", "a00001", "grandchild");
    assert_eq!(merge(&engine, "grandchild", MAIN).written, 1);
    // Nor if the branch between them is gone.
    drop_branch(&engine, "child");
    assert_eq!(kind("feature", "grandchild"), ErrorKind::InvalidArgument);
    assert_eq!(merge(&engine, "grandchild", "feature").written, 1);
    drop_branch(&engine, "grandchild");
    let gone = MergeSides { from: BranchId(u32::MAX), into: BranchId::MAIN };
    let error = merged(&engine, gone, &MergeRequest::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn conflicts_are_counted_beyond_those_that_are_listed() {
    let fs = MemFs::new();
    let engine = open(&fs);
    create(&engine, "feature", MAIN);
    let count = BRANCH_CONFLICTS_LISTED_MAX + 1;
    for number in 0..count {
        put(&engine, "feature", &format!("{number:05}"), "feature");
        put(&engine, MAIN, &format!("{number:05}"), "main");
    }
    let report = merge(&engine, "feature", MAIN);
    assert_eq!(report.conflicts, count as u64);
    assert_eq!(report.conflicting_keys.len(), BRANCH_CONFLICTS_LISTED_MAX);
    assert_eq!(report.conflicting_keys[0].key, b"00000");
}

#[test]
fn what_a_merge_writes_has_a_bound_of_bytes() {
    let fs = MemFs::new();
    let engine = filled(&fs);
    let family = head(&engine.database().catalog, BranchId::MAIN, "default").unwrap();
    let [base, from, into] = [(); 3].map(|()| Arc::clone(&family));
    let family = MergedFamily { base, from, into, head: family.id };
    let mut merge = Merge::new(OnConflict::Refuse);
    merge.bytes = BRANCH_MERGE_BYTES_MAX - 8;
    let value = SeenValue { bytes: b"5678", expiry_ms: None };
    merge.take(&family, b"1234", Some(value)).unwrap();
    merge.take(&family, b"", None).unwrap();
    assert_eq!((merge.report.written, merge.batch.count()), (2, 2));
    let error = merge.take(&family, b"9", None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("too large for one commit"), "{error}");
}
