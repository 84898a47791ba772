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

fn bounds() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        bytes().prop_map(Bound::Included),
        bytes().prop_map(Bound::Excluded),
        Just(Bound::Unbounded),
    ]
}

proptest! {
    #[test]
    fn parts_without_a_prefix_hold_exactly_the_other_keys_in_order(
        range in (bounds(), bounds()),
        prefix in bytes(),
        key in bytes(),
    ) {
        let wanted = range.contains(&key) && !key.starts_with(&prefix);
        let parts = without_prefix(range.clone(), &prefix);
        let holding = parts.iter().filter(|part| part.contains(&key)).count();
        prop_assert_eq!(holding, usize::from(wanted));
        prop_assert!(parts.len() <= 2 && parts.iter().all(|part| !is_empty(part)));
        if let [first, second] = &parts[..] {
            prop_assert_eq!(earlier(&first.1, second.1.clone()), first.1.clone());
        }
    }
}

#[test]
fn a_range_without_such_keys_stays_as_it_is() {
    let range = (Bound::Included(vec![1]), Bound::Unbounded);
    assert_eq!(without_prefix(range.clone(), &[0, 0xff]), [range]);
    let range = (Bound::Unbounded, Bound::Excluded(vec![0]));
    assert_eq!(without_prefix(range.clone(), &[0, 0xff]), [range]);
}

#[test]
fn a_prefix_of_highest_bytes_has_no_end() {
    let range = key_range(Some(vec![0xff, 0xff]), None, None);
    assert_eq!(range, Some((Bound::Included(vec![0xff, 0xff]), Bound::Unbounded)));
}
