//! The set against a set of the keys.

use super::*;
use crate::kit::random::Random;
use std::collections::BTreeSet;

const KEYS: u8 = 40;

/// Keys of one byte; 0 stands for the empty key and `KEYS` for no bound.
fn bounds(lower: u8, upper: u8) -> Bounds {
    let bound = |key: u8| (0 < key && key < KEYS).then(|| Slice::copy_from(&[key]));
    Bounds { lower: bound(lower), upper: bound(upper) }
}

#[test]
fn ranges_that_touch_are_one_and_cover_what_was_inserted() {
    let mut random = Random::new(Some(54));
    let mut below = |end: u8| ((random.next_u64() >> 32) % u64::from(end)) as u8;
    for _ in 0..2_000 {
        let (mut set, mut keys) = (RangeSet::default(), BTreeSet::new());
        for _ in 0..=below(12) {
            let lower = below(KEYS);
            let upper = lower + 1 + below(KEYS - lower).min(below(KEYS));
            set.insert(&bounds(lower, upper.min(KEYS)));
            keys.extend(lower..upper.min(KEYS));
        }
        // Nothing, of which the lower bound lies behind the upper one.
        set.insert(&bounds(9, 5));
        let runs = keys.iter().filter(|&&key| key == 0 || !keys.contains(&(key - 1))).count();
        assert_eq!(set.iter().count(), runs, "{set:?}");
        let bytes: usize = set.ends.iter().map(|(f, end)| range_bytes(f, end.as_ref())).sum();
        assert_eq!(set.memory_bytes(), bytes);
        for key in 1..KEYS {
            let at = [key];
            let span = (Bound::Included(&at[..]), Bound::Included(&at[..]));
            assert_eq!(set.overlaps(span), keys.contains(&key), "{key} {set:?}");
            for end in key + 1..KEYS {
                let to = [end];
                let span = (Bound::Included(&at[..]), Bound::Excluded(&to[..]));
                let expected = keys.range(key..end).next().is_some();
                assert_eq!(set.overlaps(span), expected, "{key}..{end} {set:?}");
            }
        }
    }
}
