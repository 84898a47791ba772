//! The steps of a request.

use super::*;
use crate::fixture::{numbers, open_files, range, reference, version};
use siltdb_base::fs::mem::MemFs;
use std::sync::Arc;

fn shape(tables: &[(u8, u64, &str, &str)]) -> Version {
    let tables: Vec<_> = tables
        .iter()
        .map(|&(level, file, first, last)| {
            (level, reference(file, (first.as_bytes(), last.as_bytes()), (file, file), 10))
        })
        .collect();
    version(&open_files(&Arc::new(MemFs::new())), &tables)
}

fn step(version: &Version, request: &Request) -> Option<(PlanKind, Vec<u64>, usize)> {
    match plan_request(version, request, &TreeOptions::default(), &Busy::default()) {
        Step::Plan(plan) => Some((plan.kind, numbers(plan.tables()), plan.output_level)),
        Step::Wait => panic!("nothing is running"),
        Step::Done => None,
    }
}

fn keys(first: &[u8], last: &[u8]) -> Request {
    Request::new(Some(range(first, last)), SequenceNumber::MAX, FileNumber(0))
}

#[test]
fn a_table_never_passes_a_level_that_has_its_keys_outside_the_request() {
    let shape = shape(&[(2, 1, "a", "z"), (3, 2, "m", "p"), (4, 3, "a", "b")]);
    assert_eq!(step(&shape, &keys(b"a", b"c")), Some((PlanKind::Rewrite, vec![1, 2], 3)));
}

#[test]
fn neighbours_are_not_taken_past_a_level_that_has_their_keys() {
    // The seed, which is the last table of level 3, may go down to level 6; its neighbour may not.
    let run = [(3, 1, "a", "c"), (3, 2, "m", "n"), (4, 3, "b", "d"), (6, 4, "a", "z")];
    assert_eq!(step(&shape(&run), &keys(b"a", b"z")), Some((PlanKind::Rewrite, vec![2, 4], 6)));
    // The seed of level 0 drags along what overlaps it, and that has keys in level 4.
    let stack = [(0, 1, "m", "n"), (0, 2, "a", "m"), (4, 3, "b", "d"), (6, 4, "a", "z")];
    let (_, tables, level) = step(&shape(&stack), &keys(b"n", b"n")).unwrap();
    assert_eq!((tables, level), (vec![2, 1, 3], 4));
}

#[test]
fn a_request_touches_only_its_range() {
    let shape = shape(&[(0, 9, "x", "z"), (3, 1, "a", "c"), (4, 2, "b", "d"), (4, 3, "m", "n")]);
    assert_eq!(step(&shape, &keys(b"a", b"a")), None);
    assert_eq!(step(&shape, &keys(b"a", b"b")), Some((PlanKind::Rewrite, vec![1, 2], 4)));
    assert_eq!(step(&shape, &keys(b"e", b"l")), None);
    assert_eq!(step(&shape, &keys(b"y", b"y")), Some((PlanKind::TrivialMove, vec![9], 3)));
}

#[test]
fn the_last_tables_are_rewritten_if_they_are_older_than_the_request() {
    let shape = shape(&[(6, 4, "a", "c"), (6, 5, "d", "f"), (6, 9, "g", "h")]);
    let request = |before| Request::new(None, SequenceNumber::MAX, FileNumber(before));
    assert_eq!(step(&shape, &request(9)), Some((PlanKind::Rewrite, vec![4, 5], 6)));
    assert_eq!(step(&shape, &request(5)), Some((PlanKind::Rewrite, vec![4], 6)));
    assert_eq!(step(&shape, &request(4)), None);
    assert_eq!(step(&Version::empty(), &request(4)), None);
}

#[test]
fn what_a_running_plan_holds_is_waited_for() {
    let shape = shape(&[(3, 1, "a", "c"), (4, 2, "b", "d")]);
    let options = TreeOptions::default();
    let mut busy = Busy::default();
    let Step::Plan(plan) = plan_request(&shape, &keys(b"a", b"z"), &options, &busy) else {
        panic!("there is work");
    };
    busy.begin(&plan);
    let next = plan_request(&shape, &keys(b"a", b"z"), &options, &busy);
    assert!(matches!(next, Step::Wait));
}

#[test]
fn steps_of_a_rewrite_pass_from_the_first_table_to_the_last() {
    let keys: Vec<_> =
        (0..1000).map(|table| [format!("{table:03}a"), format!("{table:03}b")]).collect();
    let tables = keys.iter().zip(1..).map(|([first, last], file)| {
        // Each third is newer than the request.
        let file = if file % 3 == 0 { 10_000 + file } else { file };
        (6, file, first.as_str(), last.as_str())
    });
    let shape = shape(&tables.collect::<Vec<_>>());
    let mut request = Request::new(None, SequenceNumber::MAX, FileNumber(5_000));
    let mut passed = Vec::new();
    loop {
        let options = TreeOptions { table_bytes_target: 20, ..TreeOptions::default() };
        let plan = match plan_request(&shape, &request, &options, &Busy::default()) {
            Step::Plan(plan) => plan,
            Step::Wait => panic!("nothing is running"),
            Step::Done => break,
        };
        assert!(plan.tables().count() <= 2, "neighbours only");
        passed.extend(numbers(plan.tables()));
        assert!(passed.len() <= 1000, "a table is planned again");
        request = request.past(&plan);
    }
    let old: Vec<u64> = (1..=1000).filter(|file| file % 3 != 0).collect();
    assert_eq!(passed, old);
}

#[test]
fn a_step_from_level_to_level_passes_no_table() {
    let shape = shape(&[(3, 1, "a", "c"), (4, 2, "b", "d"), (4, 3, "e", "f")]);
    let request = Request::new(None, SequenceNumber::MAX, FileNumber(9));
    let Step::Plan(plan) =
        plan_request(&shape, &request, &TreeOptions::default(), &Busy::default())
    else {
        panic!("there is work");
    };
    assert_eq!(request.past(&plan).passed, None);
}
