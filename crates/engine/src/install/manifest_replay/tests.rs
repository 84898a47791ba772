//! What edits are folded into, and what the families are made of.

use super::*;
use crate::{
    catalog::{branches::FamilyRole, family_map::Families},
    fixture::{flush, open, put, tree_options},
    install::create_change,
};
use siltdb_base::{
    budget::Budget,
    fs::{ReadIo, mem::MemFs},
    id::{BranchId, SequenceNumber},
};
use siltdb_disk::{
    branch_record::{BranchChange, BranchFamily, BranchRecord},
    cache::{Cache, TableMemory},
};
use siltdb_tree::files::open_files::OpenFiles;

/// Where a replay puts families.
struct Place {
    families: Families,
    files: Arc<OpenFiles>,
    /// Three tables of a database, newest first.
    tables: Vec<Arc<TableReference>>,
}

impl Place {
    fn new() -> Self {
        let cache = Cache::new(Arc::new(Budget::new(usize::MAX)), 0, TableMemory::Beside);
        let files = OpenFiles::new(Arc::new(MemFs::new()), ReadIo::Read, cache);
        let engine = open(&MemFs::new());
        for key in [b"a", b"b", b"c"] {
            put(&engine, "default", key, b"value");
            flush(&engine).unwrap();
        }
        let family = engine.database().catalog.families.named("default").unwrap();
        let view = family.tree.view();
        let tables: Vec<_> =
            view.version.references().map(|(_, table)| Arc::clone(table)).collect();
        assert_eq!(tables.len(), 3);
        Self { families: Families::default(), files, tables }
    }

    /// A copy of one of the tables.
    fn table(&self, index: usize) -> Arc<TableReference> {
        Arc::new((*self.tables[index]).clone())
    }

    /// The same table at another offset.
    fn at(&self, offset: u64) -> Arc<TableReference> {
        Arc::new(TableReference { offset, ..(*self.tables[0]).clone() })
    }

    fn replay(&self) -> ManifestReplay<'_> {
        let (families, files) = (&self.families, &self.files);
        ManifestReplay::new(Target { families, files, operators: &[], absent: |_| None })
    }
}

fn create(id: u32, name: &str) -> Change {
    create_change(FamilyId(id), name, &tree_options())
}

fn add(id: u32, table: Arc<TableReference>) -> Change {
    Change::AddTable { family: FamilyId(id), level: 0, table }
}

/// The branch with this id, of which the next two families are head and base.
fn branch(id: u32, head: u32) -> Change {
    let (head, base) = (FamilyId(head), FamilyId(head + 1));
    Change::Branch(BranchChange::Recorded(Arc::new(BranchRecord {
        id: BranchId(id),
        name: format!("branch {id}"),
        parent: BranchId::MAIN,
        begun: SequenceNumber(1),
        begun_ms: 0,
        families: vec![BranchFamily { head, base, next_base: None }],
    })))
}

/// Each clone and branch of ten thousand would have a copy of each reference otherwise.
#[test]
fn families_that_share_a_table_have_one_reference_to_it() {
    let place = Place::new();
    let mut replay = place.replay();
    for id in 1..=3 {
        // As each edit of a manifest is read: by itself.
        let changes = vec![create(id, &format!("family {id}")), add(id, place.table(0))];
        replay.note(Edit { changes }).unwrap();
    }
    let references: Vec<_> =
        replay.families.values().map(|folded| table_of(&folded.tables[0])).collect();
    assert_eq!(references.len(), 3);
    assert!(references.iter().all(|table| Arc::ptr_eq(table, references[0])));
}

/// Creations count first and drops last, whatever their place, and tables keep their order.
#[test]
fn creations_come_before_tables_and_these_before_other_changes() {
    let place = Place::new();
    let mut replay = place.replay();
    let (level, file, offset) = (0, place.tables[0].file, 1);
    let changes = vec![
        Change::RenameFamily { id: FamilyId(1), name: "renamed".to_owned() },
        add(1, place.at(1)),
        Change::DropFamily { id: FamilyId(2) },
        create(1, "first"),
        Change::RemoveTable { family: FamilyId(1), level, file, offset },
        add(1, place.at(2)),
        create(2, "second"),
        add(2, place.at(3)),
        add(1, place.at(4)),
    ];
    replay.note(Edit { changes }).unwrap();
    assert_eq!(replay.families.keys().collect::<Vec<_>>(), [&FamilyId(1)]);
    let FoldedFamily { name, tables, .. } = &replay.families[&FamilyId(1)];
    let [one, two, three, four] = &tables[..] else { panic!("{:?}", replay.families) };
    assert_eq!(name, "renamed");
    assert_eq!([one, three, four].map(|change| table_of(change).offset), [1, 2, 4]);
    assert!(matches!(two, Change::RemoveTable { .. }));
    let twice = replay.note(Edit { changes: vec![add(1, place.at(5)), create(1, "first")] });
    assert_eq!(twice.unwrap_err().kind(), ErrorKind::Corruption);
}

fn table_of(change: &Change) -> &Arc<TableReference> {
    match change {
        Change::AddTable { table, .. } => table,
        other => panic!("no table: {other:?}"),
    }
}

#[test]
fn families_with_the_same_tables_share_their_version_and_are_not_made() {
    let place = Place::new();
    let mut replay = place.replay();
    let mut changes = vec![create(0, "default"), add(0, place.table(0)), add(0, place.table(1))];
    for id in [1, 2, 3, 4] {
        changes.push(create(id, "default"));
        changes.push(add(id, place.table(0)));
        // The last one has a table of its own.
        changes.push(add(id, place.table(if id == 4 { 2 } else { 1 })));
    }
    changes.extend([create(5, "empty"), create(6, "also empty"), branch(1, 1), branch(2, 3)]);
    replay.note(Edit { changes }).unwrap();
    replay.finish().unwrap();
    let families = place.families.load();
    assert_eq!((families.len(), families.made().count()), (7, 0));
    let of = |id: u32| families.lazy(FamilyId(id)).unwrap();
    let is_shared = |a: u32, b: u32| Arc::ptr_eq(&of(a).version(), &of(b).version());
    assert!(is_shared(0, 1) && is_shared(1, 2) && is_shared(2, 3) && !is_shared(3, 4));
    assert_eq!((of(3).version().count(), of(4).version().count()), (2, 2));
    assert!(is_shared(5, 6) && of(5).version().is_empty());
    // Without tables, with them, without, those of the branches, and the last one.
    assert_eq!(families.versions().count(), 5);
    assert!(
        Arc::ptr_eq(&of(1).name(), &of(4).name())
            && Arc::ptr_eq(&of(0).options(), &of(4).options())
    );
    let roles = [0, 1, 2, 3, 4, 5].map(|id| of(id).role);
    let (own, head, base) = (FamilyRole::Own, FamilyRole::Head, FamilyRole::Base);
    assert_eq!(roles, [own, head, base, head, base, own]);
    // What a family changes later is its own.
    let removed = usage::id_of(&place.tables[0]);
    let removal = Change::RemoveTable {
        family: FamilyId(2),
        level: 0,
        file: removed.file,
        offset: removed.offset,
    };
    of(2).get().tree.apply(&[removal], None).unwrap();
    assert_eq!((of(2).version().count(), of(1).version().count()), (1, 2));
    // Five families had the table.
    let usage = place.families.usage();
    (0..4).for_each(|_| usage.remove(removed));
    assert_eq!(usage.left_bytes(), 0);
    usage.remove(removed);
    assert_eq!(usage.left_bytes(), place.tables[0].length);
}

#[test]
fn two_families_of_one_name_and_a_branch_without_its_families_are_corruption() {
    let place = Place::new();
    let refused = |changes: Vec<Change>| {
        let mut replay = place.replay();
        replay.note(Edit { changes }).unwrap();
        let error = replay.finish().unwrap_err();
        assert!(place.families.load().is_empty());
        error.kind()
    };
    assert_eq!(refused(vec![create(1, "name"), create(2, "name")]), ErrorKind::Corruption);
    assert_eq!(refused(vec![create(1, "name"), branch(1, 1)]), ErrorKind::Corruption);
    let twice = vec![create(1, "name"), add(1, place.table(0)), add(1, place.table(0))];
    assert_eq!(refused(twice), ErrorKind::Corruption);
}
