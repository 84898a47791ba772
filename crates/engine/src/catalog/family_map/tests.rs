//! The check of what a change touches refuses what the check of all families would, and nothing
//! else.

use super::*;
use crate::kit::random::Random;
use siltdb_base::{
    budget::Budget,
    fs::{ReadIo, mem::MemFs},
    id::BranchId,
};
use siltdb_disk::{
    branch_record::{BranchFamily, BranchRecord},
    cache::{Cache, TableMemory},
};
use siltdb_tree::{files::open_files::OpenFiles, options::TreeOptions, tree::Tree};

/// Ids of families that the tests use.
const IDS: u64 = 60;

fn open_files() -> Arc<OpenFiles> {
    let cache = Cache::new(Arc::new(Budget::new(usize::MAX)), 0, TableMemory::Beside);
    OpenFiles::new(Arc::new(MemFs::new()), ReadIo::Read, cache)
}

fn family(files: &Arc<OpenFiles>, id: FamilyId, role: FamilyRole) -> Arc<FamilyData> {
    let tree = Tree::new(id, TreeOptions::default(), Arc::clone(files));
    Arc::new(FamilyData::new(id, &format!("family {id}"), tree).with_role(role))
}

fn record(id: BranchId, head: FamilyId, bases: &[FamilyId]) -> BranchChange {
    let family = BranchFamily { head, base: bases[0], next_base: bases.get(1).copied() };
    BranchChange::Recorded(Arc::new(BranchRecord {
        id,
        name: format!("branch {id}"),
        parent: BranchId::MAIN,
        begun: SequenceNumber(1),
        begun_ms: 0,
        families: vec![family],
    }))
}

/// A few changes that are likely to fit: families that are free are created in the role that a
/// record gives them, and those of a branch that goes are removed. Some are left out.
fn change(builder: &mut FamilyMapBuilder, random: &mut Random, files: &Arc<OpenFiles>) {
    let mut below = |end: u64| random.next_u64() % end;
    let branch = BranchId(1 + below(12) as u32);
    let before = builder.map().branches().get(branch).ok().cloned();
    if let Some(before) = &before {
        for part in &before.families {
            for id in part.ids().filter(|_| below(12) > 0).collect::<Vec<_>>() {
                let _ = builder.remove(id);
            }
        }
    }
    if before.is_some() && below(2) == 0 {
        if below(12) > 0 {
            builder.change_branches(&BranchChange::Dropped(branch)).unwrap();
        }
        return;
    }
    let mut taken = Vec::new();
    while taken.len() < 3 {
        let id = FamilyId(below(IDS) as u32);
        if !taken.contains(&id) && (builder.map().get(id).is_none() || below(20) == 0) {
            taken.push(id);
        }
    }
    let bases = &taken[1..2 + below(2) as usize];
    for (index, id) in taken[..=bases.len()].iter().enumerate() {
        let role = match below(20) {
            0 => FamilyRole::Own,
            1 => FamilyRole::Head,
            _ if index == 0 => FamilyRole::Head,
            _ => FamilyRole::Base,
        };
        if below(20) > 0 {
            let _ = builder.add(family(files, *id, role));
        }
    }
    if below(12) > 0 {
        let _ = builder.change_branches(&record(branch, taken[0], bases));
    }
}

#[test]
fn a_change_is_refused_if_and_only_if_the_whole_map_does_not_fit() {
    let files = open_files();
    let (mut fitted, mut refused) = (0, 0);
    for seed in 1..5 {
        println!("seed {seed}");
        let mut random = Random::new(Some(seed));
        let mut map = FamilyMap::default();
        for _ in 0..600 {
            let mut builder = map.to_builder();
            for _ in 0..=random.next_u64() % 2 {
                change(&mut builder, &mut random, &files);
            }
            let fits = builder.map().check_branches().is_ok();
            match builder.finish() {
                Ok(next) => {
                    assert!(fits, "a map that does not fit is put in force");
                    map = next;
                    fitted += 1;
                }
                Err(error) => {
                    assert!(!fits, "a map that fits is refused: {error}");
                    assert_eq!(error.kind(), ErrorKind::Corruption);
                    refused += 1;
                }
            }
        }
        assert!(map.branches().iter().next().is_some(), "there are branches in the end");
    }
    assert!(fitted > 300 && refused > 300, "{fitted} fitted, {refused} did not");
}

#[test]
fn the_check_looks_at_what_a_change_touches_alone() {
    let files = open_files();
    let mut builder = FamilyMap::default().to_builder();
    for branch in 0..1_000_u32 {
        let [id, head, base] = [1, 2, 3].map(|part| 3 * branch + part);
        let (head, base) = (FamilyId(head), FamilyId(base));
        builder.add(family(&files, head, FamilyRole::Head)).unwrap();
        builder.add(family(&files, base, FamilyRole::Base)).unwrap();
        builder.change_branches(&record(BranchId(id), head, &[base])).unwrap();
    }
    let map = builder.finish().unwrap();
    let mut builder = map.to_builder();
    builder.change_branches(&BranchChange::CheckedOut(BranchId(4))).unwrap();
    assert_eq!(builder.touched, Touched::These([].into()));
    builder.remove(FamilyId(5)).unwrap();
    builder.remove(FamilyId(6)).unwrap();
    builder.change_branches(&BranchChange::Dropped(BranchId(4))).unwrap();
    assert_eq!(builder.touched, Touched::These([5, 6].map(FamilyId).into()));
    let next = builder.finish().unwrap();
    assert_eq!((map.len(), next.len()), (2_000, 1_998));
    assert_eq!(next.branches().checked_out(), BranchId::MAIN);
}
