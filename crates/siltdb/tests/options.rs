//! Options that change while in use, maintenance of parts, and sizes of ranges.

use siltdb::{
    Compression, Create, Db, ErrorKind, Family, FamilyOptions, Options, Read, merge,
    testing::{Crash, MemFs},
};
use std::sync::Arc;

fn options(fs: &MemFs) -> Options {
    Options::new().fs(Arc::new(fs.clone())).workers(0)
}

fn fill(family: &Family, keys: std::ops::Range<u32>) -> siltdb::Result<()> {
    for number in keys {
        let value = [number.to_le_bytes(); 30].concat();
        family.put(format!("key:{number:06}"), value)?;
    }
    Ok(())
}

fn table_bytes(family: &Family) -> u64 {
    family.stats().table_bytes.iter().sum()
}

#[test]
fn options_that_change_hold_for_what_is_written_next_and_after_a_crash() {
    let fs = MemFs::new();
    let db = options(&fs).open("db").unwrap();
    let users = db.create_family("users", FamilyOptions::new()).unwrap();
    fill(&users, 0..5000).unwrap();
    users.compact().unwrap();
    let compressed = table_bytes(&users);
    let changed = users.options().compression(Compression::None).level0_runs(3);
    users.set_options(&changed).unwrap();
    assert_eq!(users.options().entries(), changed.entries());
    // Existing tables stay unchanged.
    assert_eq!(table_bytes(&users), compressed);
    fill(&users, 5000..10_000).unwrap();
    users.compact().unwrap();
    assert!(table_bytes(&users) > 2 * compressed, "{} of {compressed}", table_bytes(&users));
    // The options of other families stay.
    assert_eq!(db.default_family().options().entries(), FamilyOptions::new().entries());
    for crash in [Crash::Kill, Crash::PowerLoss { seed: 1 }, Crash::PowerLoss { seed: 2 }] {
        let after = options(&fs.crash_clone(crash)).create(Create::Never).open("db").unwrap();
        let found = after.family("users").unwrap().options();
        assert_eq!(found.entries(), changed.entries());
    }
}

#[test]
fn options_out_of_range_and_for_dropped_families_are_refused() {
    let fs = MemFs::new();
    let db = options(&fs).open("db").unwrap();
    let users = db.create_family("users", FamilyOptions::new()).unwrap();
    let before = users.options().entries();
    for bad in [users.options().block_bytes(1), users.options().level_size_ratio(1)] {
        assert_eq!(users.set_options(&bad).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    assert_eq!(users.options().entries(), before);
    db.drop_family("users").unwrap();
    let refused = users.set_options(&FamilyOptions::new()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    let kept = db.default_family();
    db.close().unwrap();
    assert_eq!(kept.set_options(&FamilyOptions::new()).unwrap_err().kind(), ErrorKind::Closed);
    let read = options(&fs).read_only(true).open("db").unwrap();
    let refused = read.default_family().set_options(&FamilyOptions::new()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
}

#[test]
fn a_family_is_given_a_merge_operator_once_and_keeps_it() {
    let joined = || merge::associative("joined", |_, a, b| Ok([a, b].concat()));
    let fs = MemFs::new();
    let db = options(&fs).merge_operator(joined()).open("db").unwrap();
    let users = db.create_family("users", FamilyOptions::new()).unwrap();
    users.put("k", "1").unwrap();
    assert_eq!(users.merge("k", "2").unwrap_err().kind(), ErrorKind::InvalidArgument);
    users.set_options(&users.options().merge_operator(joined())).unwrap();
    users.merge("k", "2").unwrap();
    // Options without an operator keep the family's, and another operator is refused.
    users.set_options(&FamilyOptions::new().level0_runs(2)).unwrap();
    users.merge("k", "3").unwrap();
    assert_eq!(users.get("k").unwrap().as_deref(), Some(&b"123"[..]));
    assert_eq!(users.options().merge_operator_name(), Some("joined"));
    let other = merge::full("other", |_, _, _| Ok(Vec::new()));
    let refused = users.set_options(&FamilyOptions::new().merge_operator(other)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    db.close().unwrap();
    assert_eq!(options(&fs).open("db").unwrap_err().kind(), ErrorKind::InvalidArgument);
    let db = options(&fs).merge_operator(joined()).open("db").unwrap();
    let users = db.family("users").unwrap();
    assert_eq!(users.get("k").unwrap().as_deref(), Some(&b"123"[..]));
}

#[test]
fn the_options_of_a_database_are_those_it_was_opened_with() {
    let mut wanted = options(&MemFs::new());
    wanted.set("memtable_bytes", "1MiB").unwrap();
    wanted.set("memory_budget", "16MiB").unwrap();
    wanted.set("durability", "interval:50").unwrap();
    let entries = wanted.entries();
    let db = wanted.open("db").unwrap();
    assert_eq!(db.options().entries(), entries);
}

#[test]
fn a_family_with_nothing_in_memory_is_not_flushed() {
    let db = options(&MemFs::new()).open("db").unwrap();
    let users = db.create_family("users", FamilyOptions::new()).unwrap();
    db.put("a", "1").unwrap();
    users.flush().unwrap();
    assert_eq!(db.stats().flushes, 0);
    users.put("a", "1").unwrap();
    users.flush().unwrap();
    let stats = db.stats();
    assert_eq!((stats.flushes, stats.memtable_entries), (1, 0));
    users.flush().unwrap();
    assert_eq!(db.stats().flushes, 1);
}

#[test]
fn a_range_is_compacted_without_what_lies_beside_it() {
    let db = options(&MemFs::new()).open("db").unwrap();
    let family = db.default_family();
    family.set_options(&family.options().table_bytes(16 << 10)).unwrap();
    fill(&family, 0..20_000).unwrap();
    db.compact().unwrap();
    let size = |range: std::ops::Range<&str>| family.size_of(range).unwrap();
    let (kept, gone) = (size("key:005000".."key:020000"), size("key:001000".."key:003000"));
    assert!(gone.entries >= 1900 && kept.entries > 14_900, "{gone:?}, {kept:?}");
    // Single deletions, because a range deletion would drop tables without reading them.
    for number in (1000..3000).filter(|number| number % 100 != 0) {
        db.delete(format!("key:{number:06}")).unwrap();
    }
    let before = db.stats().compacted_bytes;
    family.compact_range("key:001000".."key:003000").unwrap();
    let rewritten = db.stats().compacted_bytes - before;
    let after = size("key:001000".."key:003000");
    // Of tables that extend beyond the range, blocks at its ends count as halves.
    assert!(after.entries < 150, "{after:?}");
    assert_eq!(size("key:005000".."key:020000"), kept);
    assert!(rewritten > 0 && rewritten < table_bytes(&family) / 2, "{rewritten}");
    assert_eq!(db.count(..).unwrap(), 20_000 - 2000 + 20);
    // Empty ranges, and ranges without bounds.
    family.compact_range("x".."a").unwrap();
    family.compact_range("zzz"..).unwrap();
    family.compact_range(.."key:000010").unwrap();
    family.compact_range(..).unwrap();
    assert_eq!(family.size_of(..).unwrap().entries, 18_020);
}

#[test]
fn the_sizes_of_parts_come_to_that_of_the_whole() {
    let db: Db = options(&MemFs::new()).open("db").unwrap();
    let family = db.default_family();
    assert_eq!(family.size_of(..).unwrap(), Default::default());
    family.set_options(&family.options().table_bytes(64 << 10)).unwrap();
    fill(&family, 0..6_000).unwrap();
    db.compact().unwrap();
    fill(&family, 6_000..9_000).unwrap();
    db.flush().unwrap();
    fill(&family, 9_000..10_000).unwrap();
    let whole = family.size_of(..).unwrap();
    assert_eq!(whole.entries, 10_000);
    assert_eq!(whole.table_bytes, table_bytes(&family));
    assert_eq!(whole.memory_bytes, 1000 * (10 + 120));
    for middle in [0, 1, 500, 5_999, 6_000, 8_000, 9_500, 10_000] {
        let middle = format!("key:{middle:06}");
        let (left, right) =
            (family.size_of(..&middle).unwrap(), family.size_of(&middle..).unwrap());
        let near = |a: u64, b: u64| a.abs_diff(b) <= b / 50;
        assert!(near(left.entries + right.entries, whole.entries), "{left:?} {right:?}");
        let bytes = left.table_bytes + right.table_bytes;
        // Index, filter and footer of a table that is split count in neither part.
        assert!(bytes.abs_diff(whole.table_bytes) <= whole.table_bytes / 10, "{left:?} {right:?}");
        assert_eq!(left.memory_bytes + right.memory_bytes, whole.memory_bytes);
        let exact = db.count(..&middle).unwrap();
        assert!(left.entries.abs_diff(exact) <= 60, "{} of {exact}", left.entries);
    }
    assert_eq!(family.size_of("b".."a").unwrap(), Default::default());
    assert_eq!(family.size_of("x"..).unwrap(), Default::default());
}

/// The permissions of everything below a directory, by name.
#[cfg(unix)]
fn modes(dir: &std::path::Path) -> std::collections::BTreeMap<std::path::PathBuf, u32> {
    use std::os::unix::fs::PermissionsExt;
    let mut modes = std::collections::BTreeMap::new();
    for entry in std::fs::read_dir(dir).expect("the directory is readable") {
        let entry = entry.expect("the directory is readable");
        let metadata = entry.metadata().expect("the entry is there");
        modes.insert(entry.path(), metadata.permissions().mode() & 0o777);
        if metadata.is_dir() {
            modes.extend(self::modes(&entry.path()));
        }
    }
    modes
}

#[cfg(unix)]
#[test]
fn everything_that_is_created_has_the_permissions_of_file_mode() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let options = || Options::new().file_mode(0o600);
    let family = FamilyOptions::new().value_threshold(100).cold_from_level(0);
    let cold = path("deep/cold");
    let db = options().cold_directory(&cold).default_family(family).open(path("a/db")).unwrap();
    for number in 0..200_u32 {
        db.put(number.to_le_bytes(), [number as u8; 200]).unwrap();
    }
    db.put("inline", "value").unwrap();
    db.compact().unwrap();
    db.settle().unwrap();
    db.put("logged", "value").unwrap();
    db.checkpoint(path("copies/linked")).unwrap();
    let copied = siltdb::CheckpointOptions::new().copy(true);
    let mut go_on = |_| std::ops::ControlFlow::Continue(());
    db.checkpoint_with(path("copies/copied"), &copied, &mut go_on).unwrap();
    db.backup(path("b/backups")).unwrap();
    std::fs::create_dir(path("archives")).unwrap();
    db.archive(path("archives/all.siltar")).unwrap();
    let backups = siltdb::backup::Backups::with_options(path("b/backups"), options());
    backups.restore(None, path("r/restored")).unwrap();
    options().open_follower(path("a/db")).unwrap().backup(path("b/followed")).unwrap();
    options().open(path("r/restored")).unwrap().put("more", "value").unwrap();
    let modes = modes(dir.path());
    assert!(modes.len() > 30, "{modes:?}");
    for (path, mode) in modes.iter().filter(|(path, _)| !path.ends_with("archives")) {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(*mode, expected, "{}: {mode:o}", path.display());
    }
    for bad in [0o400, 0o700, 0o1600, 0] {
        let refused = Options::new().file_mode(bad).open(path("refused")).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{bad:o}");
    }
    assert!(!path("refused").exists());
}
