//! Which cases a sweep visits.

use super::*;

#[test]
fn days_that_follow_each_other_visit_every_case_once() {
    let sweeps = (0..4).map(|first| Sweep { every: 4, first });
    let mut visited: Vec<_> = sweeps.flat_map(|sweep| sweep.of(0..103)).collect();
    visited.sort_unstable();
    assert_eq!(visited, (0..103).collect::<Vec<_>>());
}

#[test]
fn a_case_is_visited_by_its_number_or_by_its_place_alike() {
    for first in 0..3 {
        let sweep = Sweep { every: 3, first };
        let by_number: Vec<_> = (0..50).filter(|case| sweep.visits(*case)).collect();
        assert_eq!(by_number, sweep.of(0..50).collect::<Vec<_>>());
    }
}
