//! A footprint remembers all reads, and repeated ones take no memory.

use super::{Bounds, CoveredRange, Keys, lock};
use siltdb_base::slice::Slice;

fn bounds(lower: &str, upper: &str) -> Bounds {
    let bound = |key: &str| Some(Slice::copy_from(key.as_bytes()));
    Bounds { lower: bound(lower), upper: bound(upper) }
}

#[test]
fn keys_that_are_read_again_and_again_take_the_memory_of_one_each() {
    let mut keys = Keys::default();
    for round in 0..10_000_u32 {
        keys.add(format!("key{:02}", round % 50).as_bytes());
    }
    assert!(keys.memory_bytes() < 10_000, "{} bytes", keys.memory_bytes());
    let mut all: Vec<_> = keys.iter().map(<[u8]>::to_vec).collect();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 50);
}

#[test]
fn a_covered_range_grows_and_never_shrinks() {
    let range = CoveredRange { bounds: Default::default(), bytes: Default::default() };
    range.extend_up(None);
    assert_eq!(*lock(&range.bounds), None, "what was never placed covers nothing");
    range.set(bounds("d", "f"));
    range.extend_up(bounds("", "e").upper);
    range.extend_down(bounds("e", "").lower);
    assert_eq!(*lock(&range.bounds), Some(bounds("d", "f")));
    range.extend_up(bounds("", "h").upper);
    range.extend_down(bounds("b", "").lower);
    assert_eq!(*lock(&range.bounds), Some(bounds("b", "h")));
    range.extend_up(None);
    range.extend_down(None);
    assert_eq!(*lock(&range.bounds), Some(Bounds::default()));
}
