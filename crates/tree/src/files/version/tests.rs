//! What changes make of a version, and which are refused.

use super::*;
use crate::fixture::{FAMILY, TestRandom, add, numbers, open_files, reference, version};
use siltdb_base::{
    error::ErrorKind,
    fs::mem::MemFs,
    id::{FileNumber, SequenceNumber},
};

fn remove(level: u8, file: u64) -> Change {
    Change::RemoveTable { family: FAMILY, level, file: FileNumber(file), offset: 0 }
}

#[test]
fn changes_make_a_new_version_and_leave_the_old_one() {
    let files = open_files(&Arc::new(MemFs::new()));
    let table = |file| reference(file, (b"a", b"c"), (file, file), 10);
    let old = version(&files, &[(0, table(1)), (0, table(2)), (6, table(3))]);
    let other = Change::AddTable { family: FamilyId(9), level: 0, table: table(8).into() };
    let changes = [remove(0, 1), other, add(1, table(4))];
    let new = old.apply(&files, FAMILY, &changes).unwrap();
    assert_eq!(numbers(old.tables().map(|(_, table)| table)), [2, 1, 3]);
    assert_eq!(numbers(new.tables().map(|(_, table)| table)), [2, 4, 3]);
    assert_eq!(new.bytes(), [10, 10, 0, 0, 0, 0, 10]);
    new.check().unwrap();
    // A level that did not change is shared.
    assert!(Arc::ptr_eq(&old.levels()[6], &new.levels()[6]));
}

#[test]
fn a_table_changes_its_level_in_one_edit() {
    let files = open_files(&Arc::new(MemFs::new()));
    let table = reference(1, (b"a", b"c"), (1, 1), 10);
    let old = version(&files, &[(0, table.clone())]);
    for changes in [[remove(0, 1), add(6, table.clone())], [add(6, table), remove(0, 1)]] {
        let new = old.apply(&files, FAMILY, &changes).unwrap();
        assert_eq!(new.bytes(), [0, 0, 0, 0, 0, 0, 10]);
    }
}

#[test]
fn changes_that_cannot_be_are_corruption() {
    let files = open_files(&Arc::new(MemFs::new()));
    let table = |file| reference(file, (b"a", b"c"), (file, file), 10);
    let old = version(&files, &[(0, table(1)), (3, table(3))]);
    let mut outside = table(7);
    outside.key_slice = Some(crate::fixture::range(b"x", b"z"));
    for changes in [
        vec![remove(0, 2)],
        vec![remove(1, 1)],
        vec![remove(0, 1), remove(0, 1)],
        vec![add(7, table(4))],
        vec![add(255, table(4))],
        vec![remove(7, 1)],
        vec![add(3, table(4))],
        vec![add(2, table(1))],
        vec![add(2, table(3))],
        vec![add(0, reference(5, (b"a", b"b"), (1, 1), 10))],
        vec![add(0, outside)],
    ] {
        let error = old.apply(&files, FAMILY, &changes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{changes:?}");
    }
}

#[test]
fn files_are_in_use_for_as_long_as_a_version_names_them() {
    let files = open_files(&Arc::new(MemFs::new()));
    let old = version(&files, &[(0, reference(1, (b"a", b"c"), (1, 1), 10))]);
    let new = old.apply(&files, FAMILY, &[remove(0, 1)]).unwrap();
    assert!(files.is_in_use(FileNumber(1)));
    drop(old);
    assert!(!files.is_in_use(FileNumber(1)) && new.is_empty());
}

#[test]
fn a_reference_narrows_keys_and_sequence_numbers() {
    let files = open_files(&Arc::new(MemFs::new()));
    let mut table = reference(1, (b"b", b"m"), (5, 9), 10);
    table.key_slice = Some(crate::fixture::range(b"a", b"f"));
    table.visible_to = Some(SequenceNumber(7));
    let open = files.reference(table).unwrap();
    assert_eq!(*open.range(), crate::fixture::range(b"b", b"f"));
    assert_eq!((open.sequence_min().0, open.sequence_max().0), (5, 7));
    assert!(!open.is_whole());
}

#[test]
fn many_edits_at_once_lead_to_the_same_version_as_one_by_one() {
    let files = open_files(&Arc::new(MemFs::new()));
    let mut random = TestRandom::new(5);
    let outline = |version: &Version| -> Vec<(usize, TableId)> {
        version.tables().map(|(level, table)| (level, table.id())).collect()
    };
    for _ in 0..50 {
        let start = version(&files, &[(0, reference(1, (b"a", b"c"), (1, 1), 10))]);
        let mut lying = vec![(0, reference(1, (b"a", b"c"), (1, 1), 10))];
        let (mut edits, mut step) = (Vec::new(), Version::empty());
        step = step.apply(&files, FAMILY, &[add(0, lying[0].1.clone())]).unwrap();
        for file in 2..30_u64 {
            let mut edit = Vec::new();
            while !lying.is_empty() && random.below(3) > 0 {
                let index = random.below(lying.len() as u64) as usize;
                let (level, table) = lying.swap_remove(index);
                edit.push(remove(level, table.file.0));
                // Some of them move.
                if random.below(2) == 0 {
                    let level = random.below(7) as u8;
                    edit.push(add(level, table.clone()));
                    lying.push((level, table));
                    break;
                }
            }
            let key = [file as u8];
            let table = reference(file, (&key, &key), (file, file), 10);
            let level = random.below(7) as u8;
            edit.push(add(level, table.clone()));
            lying.push((level, table));
            step = step.apply(&files, FAMILY, &edit).unwrap();
            edits.extend(edit);
        }
        let at_once = start.apply(&files, FAMILY, &edits).unwrap();
        assert_eq!(outline(&at_once), outline(&step));
        at_once.check().unwrap();
    }
}

#[test]
fn a_table_that_comes_and_goes_is_not_referred_to() {
    let files = open_files(&Arc::new(MemFs::new()));
    let mut outside = reference(1, (b"a", b"c"), (1, 1), 10);
    // Referring to it would fail.
    outside.key_slice = Some(crate::fixture::range(b"x", b"z"));
    let version = Version::empty().apply(&files, FAMILY, &[add(0, outside), remove(0, 1)]);
    assert!(version.unwrap().is_empty());
}
