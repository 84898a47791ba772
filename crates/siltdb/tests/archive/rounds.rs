//! What was exported is read from the archive, and from the families that are made of it.

use super::world::{
    BEGIN_MS, DB, DIR, FILE, Map, Random, archived, assert_sound, at, change, clock, contents,
    export, files, filled, import, key, open, open_at, options, shown, small, verify,
};
use siltdb::{
    Db, ErrorKind, Family, FamilyOptions, Read,
    archive::{Archive, ArchiveOptions, ImportOptions},
    testing::{Clock, Crash, Fs, MemFs},
};
use std::{ops::ControlFlow, path::Path, time::Duration};

fn go_on(_: siltdb::CopyProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn families_against_maps_through_an_archive_now_and_later() {
    let mut expired = 0;
    for seed in 0..12 {
        println!("seed {seed}");
        let (fs, clock, random) = (MemFs::new(), clock(), &mut Random(seed));
        let db = open_at(&fs, DB, &clock);
        let mut families: Vec<(Family, Map)> = vec![(db.default_family(), Map::new())];
        for number in 0..4 {
            let family = db.create_family(&format!("f{number}"), small()).unwrap();
            families.push((family, Map::new()));
        }
        // One of them stays empty.
        for _ in 0..6 {
            let index = random.below(4) as usize;
            let (family, map) = &mut families[index];
            change(&db, (family, map), random, BEGIN_MS);
        }
        let info = export(&fs, &db).unwrap();
        assert_eq!(info.families.len(), 5);
        assert_eq!((info.created_ms, info.source.as_str()), (BEGIN_MS, DB));
        assert_eq!(info.sequence, db.stats().sequence);
        assert_eq!(info, Archive::open_with(FILE, &options(&fs, &clock)).unwrap().info());
        verify(&fs, FILE).unwrap();
        for ((family, map), info) in families.iter().zip(&info.families) {
            assert_eq!(info.name, family.name());
            assert_eq!(info.entries, at(map, BEGIN_MS).len() as u64);
            assert_eq!(info.expiry_min_ms, map.values().filter_map(|(_, expiry)| *expiry).min());
            assert_eq!(info.merge_operator.as_deref(), Some("append"));
        }
        let copy = open_at(&fs, "copy", &clock);
        let report = import(&copy, &ImportOptions::new()).unwrap();
        assert_eq!(report.entries(), info.entries());
        compare(&fs, &copy, &families, &clock);
        let before = report.entries();
        clock.advance(Duration::from_millis(5000));
        compare(&fs, &copy, &families, &clock);
        expired += before - shown_count(&copy);
        // What has expired by now is not imported again.
        let later = open_at(&fs, "later", &clock);
        let report = import(&later, &ImportOptions::new()).unwrap();
        assert_eq!(report.entries(), shown_count(&later));
        compare(&fs, &later, &families, &clock);
        // The copies go on as any database.
        for (family, map) in families.iter().take(2) {
            let now_ms = clock.wall_ms();
            let mut map: Map = map.clone();
            map.retain(|_, (_, expiry)| expiry.is_none_or(|expiry_ms| expiry_ms > now_ms));
            let family = copy.family(&family.name()).unwrap();
            change(&copy, (&family, &mut map), random, now_ms);
            copy.compact().unwrap();
            assert_eq!(shown(&family), at(&map, clock.wall_ms()));
        }
    }
    assert!(expired > 100, "{expired}");
}

fn shown_count(db: &Db) -> u64 {
    contents(db).values().map(|pairs| pairs.len() as u64).sum()
}

/// Compares a database, its reopening, and the archive with the maps.
fn compare(
    fs: &MemFs,
    db: &Db,
    families: &[(Family, Map)],
    clock: &std::sync::Arc<siltdb::testing::ManualClock>,
) {
    let archived = archived(fs, FILE, clock).unwrap();
    let archive = Archive::open_with(FILE, &options(fs, clock)).unwrap();
    for (family, map) in families {
        let (name, expected) = (family.name(), at(map, clock.wall_ms()));
        let found = db.family(&name).unwrap();
        assert!(shown(&found) == expected, "{name}");
        let backwards: Vec<_> =
            found.iter().unwrap().rev().map(|pair| pair.unwrap().0.to_vec()).collect();
        assert!(backwards.iter().eq(expected.iter().rev().map(|(key, _)| key)), "{name}");
        assert!(archived[&name] == expected, "{name} of the archive");
        let of_archive = archive.family(&name).unwrap();
        for number in (0..330).step_by(11) {
            let key = key(number);
            let value = expected.iter().find(|(found, _)| *found == key).map(|(_, value)| value);
            assert_eq!(found.get(&key).unwrap().as_deref(), value.map(|value| &value[..]));
            assert_eq!(of_archive.get(&key).unwrap().as_deref(), value.map(|value| &value[..]));
        }
        let (from, to) = (key(50), key(99));
        let inside = expected.iter().filter(|(key, _)| (&from..=&to).contains(&key)).count();
        assert_eq!(of_archive.range(&from[..]..=&to[..]).unwrap().count(), inside);
        assert_eq!(of_archive.range(&to[..]..&from[..]).unwrap().count(), 0);
    }
}

#[test]
fn what_was_imported_is_durable_on_return_and_older_than_every_later_write() {
    let (fs, clock) = (MemFs::new(), clock());
    let expected = contents(&filled(&fs));
    let db = open(&fs);
    export(&fs, &db).unwrap();
    let copy = open_at(&fs, "copy", &clock);
    // Commits that only memory and an unsynced log have.
    let mine = copy.create_family("mine", FamilyOptions::new()).unwrap();
    for number in 0..50 {
        mine.put(key(number), b"mine").unwrap();
    }
    import(&copy, &ImportOptions::new()).unwrap();
    let mut with_mine = expected.clone();
    with_mine.insert("mine".to_owned(), shown(&mine));
    for crash in [Crash::Kill, Crash::PowerLoss { seed: 3 }, Crash::PowerLoss { seed: 8 }] {
        let after = fs.crash_clone(crash);
        let copy = open_at(&after, "copy", &clock);
        assert!(contents(&copy) == with_mine, "{crash:?}");
        for name in ["default", "users"] {
            let family = copy.family(name).unwrap();
            let present = shown(&family);
            let (first, last) = (&present[0].0, &present[present.len() - 1].0);
            family.delete(first).unwrap();
            family.put(last, b"new").unwrap();
            copy.flush().unwrap();
            copy.compact().unwrap();
            assert_eq!(family.get(first).unwrap(), None, "{crash:?}");
            assert_eq!(family.get(last).unwrap().as_deref(), Some(&b"new"[..]), "{crash:?}");
        }
        copy.close().unwrap();
        let check = options(&after, &clock).check("copy", &mut |_| {}).unwrap();
        assert!(check.is_clean(), "{check:?}");
    }
}

#[test]
fn buckets_and_counters_come_along() {
    let fs = MemFs::new();
    let db = open(&fs);
    let family = db.create_family("tree", small()).unwrap();
    let bucket = family.bucket(["a", "b"]).unwrap();
    bucket.create_if_missing().unwrap();
    bucket.put("inner", "value").unwrap();
    let ids: Vec<u64> = (0..5).map(|_| family.next_id("counter").unwrap()).collect();
    let of_bucket = bucket.next_id().unwrap();
    export(&fs, &db).unwrap();
    let copy = open_at(&fs, "copy", &clock());
    import(&copy, &ImportOptions::new().family("tree", "wood")).unwrap();
    assert_eq!(copy.families(), ["default", "wood"]);
    let family = copy.family("wood").unwrap();
    let bucket = family.bucket(["a", "b"]).unwrap();
    assert_eq!(bucket.get("inner").unwrap().as_deref(), Some(&b"value"[..]));
    assert!(family.next_id("counter").unwrap() > ids[4]);
    assert!(bucket.next_id().unwrap() > of_bucket);
    bucket.remove().unwrap();
    assert!(!bucket.exists().unwrap());
}

#[test]
fn chosen_families_at_a_snapshot_and_their_options() {
    let fs = MemFs::new();
    let db = open(&fs);
    let plain = FamilyOptions::new().compression(siltdb::Compression::None).table_bytes(5000);
    let users = db.create_family("users", plain).unwrap();
    db.create_family("logs", small()).unwrap().put("l", "1").unwrap();
    users.put("ada", "1815").unwrap();
    let snapshot = db.snapshot();
    users.put("ada", "later").unwrap();
    users.put("bob", "later").unwrap();
    db.create_family("young", small()).unwrap().put("y", "1").unwrap();
    fs.create_dir_all(Path::new(DIR)).unwrap();
    let options = ArchiveOptions::new().families(["young", "users", "users"]).snapshot(&snapshot);
    let info = db.archive_with(FILE, &options, &mut go_on).unwrap();
    assert_eq!(info.sequence, snapshot.sequence());
    let names: Vec<&str> = info.families.iter().map(|family| &family.name[..]).collect();
    assert_eq!(names, ["users", "young"]);
    // A family that is younger than the snapshot is empty.
    assert_eq!((info.families[0].entries, info.families[1].entries), (1, 0));
    let copy = open_at(&fs, "copy", &clock());
    import(&copy, &ImportOptions::new()).unwrap();
    let found = copy.family("users").unwrap();
    assert_eq!(shown(&found), [(b"ada".to_vec(), b"1815".to_vec())]);
    for name in ["compression", "table_bytes", "block_bytes"] {
        assert_eq!(found.options().get(name).unwrap(), users.options().get(name).unwrap());
    }
    assert_eq!(copy.families(), ["default", "users", "young"]);
}

#[test]
fn families_are_imported_under_other_names_and_in_the_place_of_old_ones() {
    let fs = MemFs::new();
    let db = filled(&fs);
    let expected = contents(&db);
    export(&fs, &db).unwrap();
    let other = ImportOptions::new().family("users", "people").family("default", "main");
    let report = import(&db, &other).unwrap();
    let names: Vec<_> = report.families.iter().map(|f| (&f.from[..], &f.name[..])).collect();
    assert_eq!(names, [("default", "main"), ("users", "people")]);
    assert_eq!(contents(&db)["people"], expected["users"]);
    assert_eq!(contents(&db)["main"], expected["default"]);
    let before = contents(&db);
    let error = import(&db, &ImportOptions::new().family("users", "people")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    let old = db.family("people").unwrap();
    old.clear().unwrap();
    old.put("other", "value").unwrap();
    let tables = files(&fs, DB);
    import(&db, &ImportOptions::new().family("users", "people").replace(true)).unwrap();
    assert!(contents(&db) == before);
    assert_eq!(old.get("other").unwrap_err().kind(), ErrorKind::NotFound);
    assert_ne!(old.id(), db.family("people").unwrap().id());
    drop(old);
    db.flush().unwrap();
    for again in [fs.crash_clone(Crash::Kill), fs.crash_clone(Crash::PowerLoss { seed: 1 })] {
        assert!(contents(&open(&again)) == before);
        assert_sound(&again, &clock());
    }
    db.close().unwrap();
    let db = open(&fs);
    assert!(contents(&db) == before);
    // The files of the family that is gone are gone.
    assert!(tables.iter().any(|name| !files(&fs, DB).contains(name)), "{tables:?}");
}

#[test]
fn a_branch_is_exported_with_its_own_families() {
    let fs = MemFs::new();
    let db = filled(&fs);
    let before = contents(&db);
    let branch = db.create_branch("draft").unwrap();
    branch.family("users").unwrap().put("ada", "on the branch").unwrap();
    db.family("users").unwrap().put("ada", "on main").unwrap();
    fs.create_dir_all(Path::new(DIR)).unwrap();
    let options = ArchiveOptions::new().branch("draft");
    let info = db.archive_with(FILE, &options, &mut go_on).unwrap();
    assert_eq!(info.families.len(), before.len());
    let copy = open_at(&fs, "copy", &clock());
    import(&copy, &ImportOptions::new()).unwrap();
    let users = copy.family("users").unwrap();
    assert_eq!(users.get("ada").unwrap().as_deref(), Some(&b"on the branch"[..]));
    assert_eq!(contents(&copy)["default"], before["default"]);
    // The database itself has no families of branches.
    db.archive("archives/main.siltar").unwrap();
    let main = archived(&fs, "archives/main.siltar", &clock()).unwrap();
    assert!(main == contents(&db));
    let absent = ArchiveOptions::new().branch("absent");
    let error = db.archive_with("archives/b.siltar", &absent, &mut go_on).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[test]
fn a_database_that_is_only_read_can_be_exported() {
    let (fs, clock) = (MemFs::new(), clock());
    let expected = contents(&filled(&fs));
    let db = options(&fs, &clock).read_only(true).open(DB).unwrap();
    export(&fs, &db).unwrap();
    assert!(archived(&fs, FILE, &clock).unwrap() == expected);
    drop(db);
    let writer = open(&fs);
    let follower = options(&fs, &clock).open_follower(DB).unwrap();
    follower.db().archive("archives/b.siltar").unwrap();
    assert!(archived(&fs, "archives/b.siltar", &clock).unwrap() == expected);
    assert_eq!(files(&fs, DIR), ["a.siltar", "b.siltar"]);
    let error = follower.db().import_archive(FILE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    drop(writer);
}

#[test]
fn a_value_is_what_it_was_when_it_was_folded() {
    let (fs, clock) = (MemFs::new(), clock());
    let db = open_at(&fs, DB, &clock);
    db.default_family().put_for("k", "base", Duration::from_secs(1)).unwrap();
    db.merge("k", "+").unwrap();
    db.default_family().put_for("expires", "soon", Duration::from_secs(1)).unwrap();
    export(&fs, &db).unwrap();
    let copy = open_at(&fs, "copy", &clock);
    import(&copy, &ImportOptions::new()).unwrap();
    clock.advance(Duration::from_secs(1));
    // The base has expired in the database, and its operand is all that is left there.
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"+"[..]));
    assert_eq!(copy.get("k").unwrap().as_deref(), Some(&b"base+"[..]));
    assert_eq!(copy.get("expires").unwrap(), None);
    assert_eq!(shown(&copy).len(), 1);
    assert_eq!(archived(&fs, FILE, &clock).unwrap()["default"].len(), 1);
}

#[test]
fn many_families_and_a_large_value() {
    let (fs, clock) = (MemFs::new(), clock());
    let db = open_at(&fs, DB, &clock);
    for number in 0..300 {
        let family = db.create_family(&format!("family {number}"), small()).unwrap();
        family.put(number.to_string(), vec![7; number]).unwrap();
    }
    let large = Random(1).bytes(3 << 20);
    db.put("large", &large).unwrap();
    let info = export(&fs, &db).unwrap();
    assert_eq!((info.families.len(), info.entries()), (301, 301));
    let copy = open_at(&fs, "copy", &clock);
    import(&copy, &ImportOptions::new()).unwrap();
    assert!(contents(&copy) == contents(&db));
    assert!(copy.get("large").unwrap().as_deref() == Some(&large[..]));
}

#[test]
fn progress_reaches_its_end_and_cancels() {
    let (fs, clock) = (MemFs::new(), clock());
    let db = open_at(&fs, DB, &clock);
    for number in 0..4000 {
        db.put(key(number), Random(number).bytes(60)).unwrap();
    }
    fs.create_dir_all(Path::new(DIR)).unwrap();
    let mut seen = Vec::new();
    let mut note = |progress: siltdb::CopyProgress| {
        seen.push(progress);
        ControlFlow::Continue(())
    };
    db.archive_with(FILE, &ArchiveOptions::new(), &mut note).unwrap();
    let archive = Archive::open_with(FILE, &options(&fs, &clock)).unwrap();
    archive.verify(&mut note).unwrap();
    let copy = open_at(&fs, "copy", &clock);
    copy.import_archive_with(FILE, &ImportOptions::new(), &mut note).unwrap();
    let ends = seen.iter().filter(|p| p.bytes_done == p.bytes_total && p.bytes_total > 0).count();
    assert!(ends >= 3 && seen.len() > 20, "{ends} of {}", seen.len());
    // Any call may be the last.
    let (mut exports, mut imports) = (0, 0);
    for last in (0..).step_by(29) {
        let mut calls = 0;
        let mut stop = |_| {
            calls += 1;
            if calls > last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        match db.archive_with("archives/b.siltar", &ArchiveOptions::new(), &mut stop) {
            Ok(_) => break,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}"),
        }
        assert_eq!(files(&fs, DIR), ["a.siltar"]);
        exports += 1;
    }
    assert!(exports > 5, "{exports}");
    let other = open_at(&fs, "other", &clock);
    let before = files(&fs, "other");
    for last in 0.. {
        let mut calls = 0;
        let mut stop = |_| {
            calls += 1;
            if calls > last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        match other.import_archive_with(FILE, &ImportOptions::new(), &mut stop) {
            Ok(_) => break,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}"),
        }
        assert_eq!(files(&fs, "other"), before, "after {last} calls");
        assert_eq!(shown(&other), []);
        imports += 1;
    }
    assert!(imports > 2, "{imports}");
    assert!(contents(&other) == contents(&db));
}

#[test]
fn a_rate_is_kept_to() {
    let (fs, clock) = (MemFs::new(), clock());
    let db = open_at(&fs, DB, &clock);
    for number in 0..4000 {
        db.put(key(number), Random(number).bytes(60)).unwrap();
    }
    fs.create_dir_all(Path::new(DIR)).unwrap();
    let begin = clock.monotonic_ns();
    let options = ArchiveOptions::new().rate(100_000);
    let info = db.archive_with(FILE, &options, &mut go_on).unwrap();
    let took_ms = (clock.monotonic_ns() - begin) / 1_000_000;
    // Header, directory and footer are not counted.
    let expected_ms = info.bytes / 100;
    assert!(took_ms + took_ms / 10 > expected_ms, "{took_ms} of {expected_ms}");
    assert!(took_ms < expected_ms + expected_ms / 4, "{took_ms} of {expected_ms}");
}
