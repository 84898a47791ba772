//! What changes make of a version, and which are refused.

use super::*;
use crate::{
    files::table_sum::TableSum,
    fixture::{FAMILY, TestRandom, add, numbers, open_files, range, reference, version},
};
use siltdb_base::{
    error::ErrorKind,
    fs::mem::MemFs,
    id::{FileNumber, SequenceNumber},
    shared_list::Sum,
};
use siltdb_disk::edit::TableReference;

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
    outside.key_slice = Some(range(b"x", b"z"));
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
    table.key_slice = Some(range(b"a", b"f"));
    table.visible_to = Some(SequenceNumber(7));
    let open = files.reference(table).unwrap();
    assert_eq!(*open.range(), range(b"b", b"f"));
    assert_eq!((open.sequence_min().0, open.sequence_max().0), (5, 7));
    assert!(!open.is_whole());
}

#[test]
fn what_a_reference_leaves_out_and_its_range_tombstones_are_known_without_the_table() {
    let files = open_files(&Arc::new(MemFs::new()));
    let flags = |file: u64, change: fn(&mut TableReference)| {
        let mut table = reference(file, (b"b", b"m"), (5, 9), 10);
        change(&mut table);
        let open = files.reference(table).unwrap();
        (open.is_whole(), open.has_range_tombstones())
    };
    assert_eq!(flags(1, |_| {}), (true, false));
    assert_eq!(flags(2, |table| table.visible_to = Some(SequenceNumber(9))), (false, false));
    let slice = |table: &mut TableReference| table.key_slice = Some(range(b"b", b"m"));
    assert_eq!(flags(3, slice), (false, false));
    let numbered = |table: &mut TableReference| table.global_sequence = Some(SequenceNumber(7));
    assert_eq!(flags(4, numbered), (false, false));
    assert_eq!(flags(5, |table| table.meta.range_tombstones = 1), (true, true));
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

/// The levels of a version as vectors, put in order anew at each edit: the plain way.
type Plain = [Vec<Arc<OpenReference>>; LEVELS];

fn plain_level(number: usize, mut tables: Vec<Arc<OpenReference>>) -> Vec<Arc<OpenReference>> {
    match number {
        0 => tables.sort_by_key(|table| std::cmp::Reverse((table.sequence_max(), table.id()))),
        _ => tables.sort_by(|a, b| a.range().first.cmp(&b.range().first)),
    }
    tables
}

/// Compares a version with a plain one: its order, what is found in it, and its sums.
fn is_as(version: &Version, plain: &Plain, random: &mut TestRandom) {
    version.check().unwrap();
    for (number, tables) in plain.iter().enumerate() {
        let level = &version.levels()[number];
        assert_eq!(numbers(level.tables()), numbers(tables));
        let sum = TableSum::of_elements(tables);
        assert_eq!((sum.totals, sum.extremes), (level.sum().totals, level.sum().extremes));
        assert_eq!((&sum.range, sum.stretches), (&level.sum().range, level.sum().stretches));
        for (index, table) in tables.iter().enumerate() {
            assert_eq!(level.index_of(table), index);
            assert_eq!(
                version.find(table.id()).map(|(level, found)| (level, found.id())),
                Some((number, table.id()))
            );
        }
        let end = random.below(tables.len() as u64 + 1) as usize;
        let start = random.below(end as u64 + 1) as usize;
        let bytes: u64 = tables[start..end].iter().map(|table| table.bytes()).sum();
        assert_eq!(level.bytes_within(start..end), bytes);
        let key = (random.below(KEYS) as u32).to_be_bytes();
        let wanted = crate::fixture::range(&key, &(random.below(KEYS) as u32 | 1).to_be_bytes());
        if number == 0 || wanted.first > wanted.last {
            continue;
        }
        let holder = tables.iter().find(|table| table.range().contains(&key));
        assert_eq!(level.find(&key).map(|table| table.id()), holder.map(|table| table.id()));
        let expected: Vec<usize> =
            (0..tables.len()).filter(|&index| tables[index].range().overlaps(&wanted)).collect();
        assert_eq!(level.overlapping(&wanted), expected);
        let overlapped = expected.iter().map(|&index| tables[index].id());
        assert!(level.overlapped(&wanted).map(|table| table.id()).eq(overlapped));
    }
}

/// Keys of the runs below: four bytes, with a long prefix in common within a node.
const KEYS: u64 = 6_000;

#[test]
fn random_edits_make_of_a_version_what_they_make_of_vectors() {
    for seed in 1..=4 {
        println!("seed {seed}");
        let files = open_files(&Arc::new(MemFs::new()));
        let mut random = TestRandom::new(seed);
        let mut plain: Plain = array::from_fn(|_| Vec::new());
        let mut version = Version::empty();
        let mut file = 0;
        // Grows to thousands of tables, and shrinks to a tenth of them.
        for step in 0..120 {
            let (mut changes, mut next) = (Vec::new(), plain.clone());
            let most = if step % 3 == 0 { 400 } else { 4 };
            for (number, tables) in next.iter_mut().enumerate() {
                let leaves = if step < 90 { 4 } else { 1 };
                tables.retain(|table| {
                    let stays = random.below(2000) >= most || random.below(leaves) > 0;
                    if !stays {
                        changes.push(remove(number as u8, table.id().file.0));
                    }
                    stays
                });
            }
            for _ in 0..if step < 90 { random.below(most) } else { 0 } {
                file += 1;
                let number = random.below(3) as usize * 3;
                let first = random.below(KEYS) as u32 * 2;
                let last = first + 1;
                let (first, last) = (first.to_be_bytes(), last.to_be_bytes());
                let mut table = reference(file, (&first, &last), (file, file), random.below(900));
                table.meta.point_tombstones = random.below(3);
                let table = files.reference(table).unwrap();
                let overlaps = |other: &Arc<OpenReference>| other.range().overlaps(table.range());
                if number > 0 && next[number].iter().any(overlaps) {
                    continue;
                }
                changes.push(add(number as u8, table.reference().clone()));
                next[number].push(table);
            }
            let before = version.count();
            let edited = version.apply(&files, FAMILY, &changes).unwrap();
            assert_eq!((before, version.check().is_ok()), (version.count(), true));
            plain = array::from_fn(|number| plain_level(number, std::mem::take(&mut next[number])));
            is_as(&edited, &plain, &mut random);
            version = edited;
        }
    }
}

#[test]
fn a_table_that_comes_and_goes_is_not_referred_to() {
    let files = open_files(&Arc::new(MemFs::new()));
    let mut outside = reference(1, (b"a", b"c"), (1, 1), 10);
    // Referring to it would fail.
    outside.key_slice = Some(range(b"x", b"z"));
    let version = Version::empty().apply(&files, FAMILY, &[add(0, outside), remove(0, 1)]);
    assert!(version.unwrap().is_empty());
}
