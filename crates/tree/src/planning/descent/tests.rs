//! What comes along with a seed, and which plans exclude each other.

use super::*;
use crate::fixture::{FAMILY, numbers, open_files, reference, version};
use siltdb_base::fs::mem::MemFs;
use siltdb_disk::edit::{Change, TableReference};

const LIMITS: PlanLimits =
    PlanLimits { widen_bytes_max: 1000, under_bytes_max: 100, level_kinds: [0; LEVELS] };

fn shape(tables: &[(u8, TableReference)]) -> Version {
    version(&open_files(&Arc::new(MemFs::new())), tables)
}

fn table(file: u64, first: &str, last: &str) -> TableReference {
    reference(file, (first.as_bytes(), last.as_bytes()), (file, file), 10)
}

fn seed(version: &Version, file: u64) -> Vec<Arc<OpenReference>> {
    let mut tables = version.tables().map(|(_, table)| table);
    vec![tables.find(|table| table.id().file.0 == file).unwrap().clone()]
}

fn down(version: &Version, (from, to): (usize, usize), file: u64, busy: &Busy) -> Option<Plan> {
    bring_down(version, Descent { from, to }, seed(version, file), Reason::Request, LIMITS, busy)
}

fn inputs(plan: &Plan) -> Vec<(usize, Vec<u64>)> {
    plan.inputs.iter().map(|input| (input.level, numbers(&input.tables))).collect()
}

#[test]
fn a_seed_of_level_0_brings_what_overlaps_it_and_the_targets_of_all() {
    let version = shape(&[
        (0, table(9, "a", "f")),
        (0, table(8, "e", "m")),
        (0, table(7, "x", "z")),
        (6, table(1, "a", "b")),
        (6, table(2, "l", "q")),
        (6, table(3, "r", "s")),
    ]);
    let plan = down(&version, (0, 6), 8, &Busy::default()).unwrap();
    assert_eq!(plan.kind, PlanKind::Rewrite);
    assert_eq!(inputs(&plan), [(0, vec![9, 8]), (6, vec![1, 2])]);
    assert_eq!(plan.range, crate::fixture::range(b"a", b"q"));
    assert_eq!(plan.bytes(), 40);
}

#[test]
fn a_table_that_overlaps_nothing_moves_unless_it_would_weigh_on_what_is_under_it() {
    let version = shape(&[
        (3, table(1, "a", "c")),
        (3, table(2, "m", "p")),
        (4, table(3, "d", "e")),
        (5, reference(4, (b"n", b"o"), (1, 1), 101)),
    ]);
    let plan = down(&version, (3, 4), 1, &Busy::default()).unwrap();
    assert_eq!((plan.kind, inputs(&plan)), (PlanKind::TrivialMove, vec![(3, vec![1])]));
    let changes = plan.edit_changes(FAMILY);
    assert!(matches!(&changes[0], Change::RemoveTable { level: 3, file, .. } if file.0 == 1));
    assert!(matches!(&changes[1], Change::AddTable { level: 4, table, .. } if table.file.0 == 1));
    assert_eq!(changes.len(), 2);
    let plan = down(&version, (3, 4), 2, &Busy::default()).unwrap();
    assert_eq!((plan.kind, inputs(&plan)), (PlanKind::Rewrite, vec![(3, vec![2])]));
}

#[test]
fn sources_that_need_no_further_target_come_along() {
    let tables = [
        (3, table(1, "a", "b")),
        (3, table(2, "c", "d")),
        (3, table(3, "e", "m")),
        (4, table(4, "a", "f")),
        (4, table(5, "h", "k")),
    ];
    let version = shape(&tables);
    let plan = down(&version, (3, 4), 1, &Busy::default()).unwrap();
    // Table 3 would need table 5.
    assert_eq!(inputs(&plan), [(3, vec![1]), (4, vec![4])]);
    let version = shape(&tables[..4]);
    let plan = down(&version, (3, 4), 1, &Busy::default()).unwrap();
    assert_eq!(inputs(&plan), [(3, vec![1, 2, 3]), (4, vec![4])]);
}

#[test]
fn plans_that_share_a_table_or_write_to_the_same_keys_exclude_each_other() {
    let version = shape(&[
        (2, table(1, "c", "f")),
        (3, table(2, "a", "d")),
        (3, table(3, "h", "k")),
        (4, table(4, "j", "m")),
        (4, table(5, "x", "z")),
    ]);
    let mut busy = Busy::default();
    let first = down(&version, (2, 3), 1, &busy).unwrap();
    busy.begin(&first);
    assert!(busy.holds(first.inputs[0].tables[0].id()) && !busy.is_empty());
    // Table 2 is taken as a target.
    assert!(down(&version, (3, 4), 2, &busy).is_none());
    // Another table of that level goes its way.
    let second = down(&version, (3, 4), 3, &busy).unwrap();
    busy.begin(&second);
    // Nothing may be written between what the first plan writes.
    let inputs = vec![PlanInput { level: 3, tables: second.inputs[0].tables.clone() }];
    assert!(busy.conflicts(&Plan::new(PlanKind::Rewrite, Reason::Request, inputs, 5)));
    let (into, elsewhere) = (seed(&version, 5), first.range.clone());
    let mut third = Plan::new(
        PlanKind::Rewrite,
        Reason::Request,
        vec![PlanInput { level: 4, tables: into }],
        4,
    );
    assert!(!busy.conflicts(&third));
    third.range = second.range.clone();
    assert!(busy.conflicts(&third));
    third.range = elsewhere;
    assert!(!busy.conflicts(&third));
    busy.end(second.name());
    busy.end(first.name());
    assert!(busy.is_empty() && !busy.conflicts(&first));
}

#[test]
fn only_tables_on_their_way_down_drain_a_level() {
    let version = shape(&[(2, table(1, "c", "f")), (3, table(2, "a", "d"))]);
    let mut busy = Busy::default();
    let plan = down(&version, (2, 3), 1, &busy).unwrap();
    busy.begin(&plan);
    let [source, target] = [1, 2].map(|file| seed(&version, file)[0].id());
    assert!(busy.holds(source) && busy.holds(target));
    let leaving = |level| busy.taken(&version, level).leaving;
    assert_eq!((leaving(2), leaving(3)), (1, 0));
}

/// A version in which a plan takes all of level 0 but table 9 and brings it to level 6.
fn merging(left: &[(u8, TableReference)]) -> (Version, Busy, Plan) {
    let taken = [
        (0, table(2, "a", "m")),
        (0, table(1, "k", "z")),
        (6, table(3, "a", "h")),
        (6, table(4, "p", "z")),
    ];
    let before = shape(&taken);
    let mut busy = Busy::default();
    let plan = bring_down(
        &before,
        Descent { from: 0, to: 6 },
        seed(&before, 1),
        Reason::Level0,
        LIMITS,
        &busy,
    );
    let plan = plan.unwrap();
    busy.begin(&plan);
    (shape(&[left, &taken].concat()), busy, plan)
}

#[test]
fn a_plan_is_outdone_where_most_of_it_would_be_merged_again() {
    let outdone = |left: &[(u8, TableReference)], memory: &[KeySpan]| {
        let (version, busy, plan) = merging(left);
        busy.cancel_redundant(&version, memory);
        plan.given_up.is_cancelled()
    };
    // It takes all there is.
    assert!(!outdone(&[], &[]));
    assert!(outdone(&[(0, table(9, "b", "y"))], &[]));
    assert!(outdone(&[], &[crate::fixture::range(b"b", b"y")]));
    // Three of its four tables, and two.
    assert!(outdone(&[(0, table(9, "l", "q"))], &[]));
    assert!(!outdone(&[(0, table(9, "q", "y"))], &[]));
    // A request brings this one down to where the plan's output lies.
    assert!(outdone(&[(5, table(9, "b", "y"))], &[]));
    assert!(!outdone(&[(5, table(9, "i", "j"))], &[]));
}

#[test]
fn what_is_deeper_or_taken_outdoes_no_plan_and_none_that_was_asked_for_is() {
    let version =
        shape(&[(2, table(1, "a", "z")), (4, table(2, "a", "z")), (0, table(3, "a", "z"))]);
    let mut busy = Busy::default();
    let plan = bring_down(
        &version,
        Descent { from: 2, to: 3 },
        seed(&version, 1),
        Reason::Size,
        LIMITS,
        &busy,
    )
    .unwrap();
    busy.begin(&plan);
    let inputs = vec![PlanInput { level: 0, tables: seed(&version, 3) }];
    let level0 = Plan::new(PlanKind::Rewrite, Reason::WithinLevel0, inputs, 0);
    busy.begin(&level0);
    busy.cancel_redundant(&version, &[]);
    assert!(!plan.given_up.is_cancelled() && !level0.given_up.is_cancelled());
    busy.end(level0.name());
    busy.cancel_redundant(&version, &[]);
    assert!(plan.given_up.is_cancelled() && plan.clone().given_up.is_cancelled());
    busy.end(plan.name());
    let asked = down(&version, (2, 3), 1, &busy).unwrap();
    busy.begin(&asked);
    busy.cancel_redundant(&version, &[]);
    assert!(!asked.given_up.is_cancelled());
}

#[test]
fn a_merge_within_level_0_is_outdone_by_what_lies_beside_it() {
    let version = shape(&[(0, table(2, "a", "m")), (0, table(1, "k", "z"))]);
    let inputs = vec![PlanInput { level: 0, tables: seed(&version, 1) }];
    let plan = Plan::new(PlanKind::Rewrite, Reason::WithinLevel0, inputs, 0);
    let mut busy = Busy::default();
    busy.begin(&plan);
    busy.cancel_redundant(&version, &[]);
    assert!(plan.given_up.is_cancelled());
}

#[test]
fn an_ingested_table_goes_to_the_lowest_level_that_nothing_older_of_its_keys_lies_in_or_above() {
    let tables = [
        (0, table(9, "a", "c")),
        (2, table(4, "f", "h")),
        (6, table(1, "a", "f")),
        (6, table(2, "r", "s")),
    ];
    let version = shape(&tables);
    let place = |first: &str, last: &str, busy: &mut Busy| {
        let range = crate::fixture::range(first.as_bytes(), last.as_bytes());
        busy.place(&version, &range)
    };
    for (first, last, level) in
        [("m", "q", 6), ("g", "q", 1), ("d", "e", 5), ("r", "z", 5), ("b", "q", 0), ("c", "c", 0)]
    {
        assert_eq!(place(first, last, &mut Busy::default()).level, level, "{first} to {last}");
    }
    // A running plan writes there.
    let plan = down(&version, (2, 3), 4, &Busy::default()).unwrap();
    assert_eq!(plan.output_level, 3);
    let mut busy = Busy::default();
    busy.begin(&plan);
    busy.end(plan.name());
    let placed = place("m", "n", &mut busy);
    assert_eq!(placed.level, 6);
    assert!(!busy.is_empty());
    let plan = down(&shape(&[(5, table(7, "l", "o"))]), (5, 6), 7, &busy);
    assert!(plan.is_none(), "no plan writes where a table is being ingested");
    // Nor goes a second ingest there.
    assert_eq!(place("n", "p", &mut busy).level, 5);
    busy.release(placed);
    assert_eq!(place("m", "m", &mut busy).level, 6);
}
