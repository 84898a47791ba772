//! A footprint remembers all reads, and repeated ones take no memory.

use super::{Bounds, CoveredRange, Footprint, Keys, lock};
use crate::{
    fixture::open,
    lock_state::lock_table::{LockMode, LockTarget},
};
use siltdb_base::{fs::mem::MemFs, slice::Slice};

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

#[test]
fn the_locks_of_a_footprint_cover_its_keys_and_ranges_and_nothing_where_there_is_nothing() {
    let engine = open(&MemFs::new());
    let family = engine.database().catalog.families.named("default").unwrap();
    let mut footprint = Footprint::default();
    footprint.add_key(&family, b"k");
    footprint.add_range(&family).set(bounds("b", "d"));
    footprint.add_range(&family).set(bounds("e", "e"));
    footprint.add_range(&family).set(bounds("d", "f"));
    footprint.add_range(&family).set(Bounds { lower: Some(Slice::copy_from(b"x")), upper: None });
    let _never_placed = footprint.add_range(&family);
    let requests = footprint.lock_requests();
    assert!(requests.iter().all(|request| request.mode == LockMode::Shared));
    let targets: Vec<_> = requests.iter().map(|request| request.target.to_string()).collect();
    let key = LockTarget::Key(Slice::copy_from(b"k")).to_string();
    // Ranges that touch are one.
    let ranges = [bounds("b", "f"), Bounds { lower: Some(Slice::copy_from(b"x")), upper: None }];
    let ranges = ranges.map(|range| LockTarget::Range(range).to_string());
    assert_eq!(targets, [&[key][..], &ranges].concat());
}

#[test]
fn ranges_of_readers_that_are_gone_are_joined_and_still_guard_their_keys() {
    let engine = open(&MemFs::new());
    let family = engine.database().catalog.families.named("default").unwrap();
    let mut footprint = Footprint::default();
    let live = footprint.add_range(&family);
    live.set(bounds("x", "y"));
    let apart = |number: u32| (format!("k{:06}", 2 * number), format!("k{:06}", 2 * number + 1));
    for number in 0..10_000 {
        let (lower, upper) = apart(number);
        // The same range, and one that ends where it begins.
        for _ in 0..2 {
            footprint.add_range(&family).set(bounds(&lower, &upper));
        }
        footprint.add_range(&family).set(bounds("k", "k"));
    }
    let once = 10_000 * (size_of::<(Slice, Option<Slice>)>() + 2 * 7);
    let bytes = footprint.memory_bytes();
    assert!(bytes < once + once / 10, "{bytes} bytes, {once} for each range once");
    live.extend_up(None);
    let requests = footprint.lock_requests();
    assert_eq!(requests.len(), 10_001);
    assert_eq!(requests[10_000].target.to_string(), "the keys from \"x\" to ..");
}
