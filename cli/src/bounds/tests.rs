//! Ranges from `--prefix`, `--from` and `--to`.

use super::*;
use proptest::prelude::*;
use std::ops::RangeBounds;

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0u8, 1, 0x61, 0xfe, 0xff]), 0..4)
}

proptest! {
    #[test]
    fn the_range_holds_exactly_the_keys_asked_for(
        prefix in prop::option::of(bytes()),
        from in prop::option::of(bytes()),
        to in prop::option::of(bytes()),
        key in bytes(),
    ) {
        let wanted = prefix.as_ref().is_none_or(|prefix| key.starts_with(prefix))
            && from.as_ref().is_none_or(|from| key >= *from)
            && to.as_ref().is_none_or(|to| key < *to);
        let range = key_range(prefix, from, to);
        prop_assert_eq!(range.is_some_and(|range| range.contains(&key)), wanted);
    }
}

#[test]
fn a_prefix_of_highest_bytes_has_no_end() {
    let range = key_range(Some(vec![0xff, 0xff]), None, None);
    assert_eq!(range, Some((Bound::Included(vec![0xff, 0xff]), Bound::Unbounded)));
}
