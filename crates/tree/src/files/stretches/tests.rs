//! Stretches of random sizes, put together in random pieces, beside a look at all of them.

use super::*;
use crate::fixture::TestRandom;

#[test]
fn pieces_tell_the_same_as_all_sizes_at_once() {
    for seed in 1..=40 {
        println!("seed {seed}");
        let mut random = TestRandom::new(seed);
        let sizes: Vec<u64> = (0..random.below(120)).map(|_| random.below(50)).collect();
        let largest_of = |stretch: &[u64]| stretch.iter().copied().max().unwrap_or(0);
        let smallest = sizes.windows(STRETCH).map(largest_of).min().unwrap_or(u64::MAX);
        let (mut pieces, mut rest) = (Vec::new(), &sizes[..]);
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(random.below(20).min(rest.len() as u64) as usize);
            pieces.push(Stretches::of_sizes(piece.iter().copied()));
            rest = after;
        }
        let whole = Stretches::of_sizes(sizes.iter().copied());
        let joined = Stretches::of_parts(pieces.iter());
        assert_eq!(whole, joined);
        assert_eq!(whole.smallest, smallest);
        assert!(
            !whole.has_below(smallest) && (smallest == u64::MAX || whole.has_below(smallest + 1))
        );
    }
}
