//! Ranges outside of which two views hold the same.

use super::*;
use siltdb_base::slice::Slice;

fn span(first: &str, last: &str, end: RangeEnd) -> KeySpan {
    let [first, last] = [first, last].map(|key| Slice::copy_from(key.as_bytes()));
    KeySpan { first, last, end }
}

#[test]
fn ranges_that_overlap_are_joined_and_others_are_not() {
    use RangeEnd::{Exclusive, Inclusive};
    let ranges = vec![
        span("m", "p", Exclusive),
        span("a", "c", Inclusive),
        span("c", "d", Inclusive),
        span("p", "q", Inclusive),
        span("x", "x", Inclusive),
    ];
    let expected = [
        span("a", "d", Inclusive),
        span("m", "p", Exclusive),
        span("p", "q", Inclusive),
        span("x", "x", Inclusive),
    ];
    assert_eq!(joined(ranges), expected);
    assert_eq!(joined(Vec::new()), []);
}

#[test]
fn more_ranges_than_are_worth_it_become_one() {
    let single = |number: usize| {
        let key = format!("{number:05}");
        span(&key, &key, RangeEnd::Inclusive)
    };
    let at_the_bound: Vec<_> = (0..RANGES_MAX).map(single).collect();
    assert_eq!(joined(at_the_bound.clone()), at_the_bound);
    let beyond: Vec<_> = (0..=RANGES_MAX).map(single).collect();
    let last = format!("{RANGES_MAX:05}");
    assert_eq!(joined(beyond), [span("00000", &last, RangeEnd::Inclusive)]);
}
