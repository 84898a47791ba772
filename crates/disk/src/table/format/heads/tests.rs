//! The answer is that of a search through all of them.

use super::*;
use proptest::{collection::vec, prelude::*};

fn check(mut heads: Vec<u64>, sought: impl IntoIterator<Item = u64>) {
    heads.sort_unstable();
    let searched = Heads::new(heads.clone());
    let neighbours =
        heads.iter().flat_map(|head| [head.wrapping_sub(1), *head, head.wrapping_add(1)]);
    for sought in sought.into_iter().chain(neighbours.clone()) {
        let start = heads.partition_point(|&head| head < sought);
        let end = heads.partition_point(|&head| head <= sought);
        assert_eq!(searched.equal(sought), start..end, "{sought:x} among {heads:x?}");
    }
    assert!(searched.starts.len() <= 2 * heads.len() + 1, "{searched:?}");
}

/// Numbers that spread over everything, crowd in one place, or lie at the ends.
fn number() -> impl Strategy<Value = u64> {
    let crowd = (0..3u64, 0..200u64).prop_map(|(upper, lower)| upper << 61 | 7 << 40 | lower);
    prop_oneof![any::<u64>(), crowd, Just(0), Just(u64::MAX)]
}

proptest! {
    #[test]
    fn equal_heads_are_found(heads in vec(number(), 0..200), sought in vec(number(), 20)) {
        check(heads, sought);
    }
}

#[test]
fn spread_heads_are_one_or_two_to_a_group() {
    let heads: Vec<u64> = (0..1000u64).map(|index| index * (u64::MAX / 999)).collect();
    let searched = Heads::new(heads.clone());
    let largest = searched.starts.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert_eq!(largest, Some(1));
    check(heads, [5, u64::MAX / 2]);
}

#[test]
fn one_head_and_equal_heads_are_searched() {
    check(vec![9], [0, 9, 10, u64::MAX]);
    check(vec![9; 100], [0, 8, 9, 10, u64::MAX]);
    check(vec![0, u64::MAX], [1, u64::MAX / 2]);
}
