//! Tests of orders: how often each key is visited.

use super::{Order, Zipf, draw, uniform};
use std::collections::BTreeMap;

#[test]
fn random_visits_each_key_once_before_any_twice() {
    for size in [1, 2, 3, 1000, 1024, 1025] {
        let drawn = draw(Order::Random, size, u64::from(size) * 2, 7);
        for pass in drawn.chunks(size as usize) {
            let mut sorted = pass.to_vec();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..size), "size {size}");
        }
    }
    let drawn = draw(Order::Random, 1000, 2000, 7);
    let neighbours = drawn.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) == 1).count();
    assert!(neighbours < 20, "{neighbours} of 2,000 are neighbours");
    assert_ne!(drawn[..1000], drawn[1000..]);
}

#[test]
fn sequential_and_reverse_begin_anew_at_the_end() {
    assert_eq!(draw(Order::Sequential, 3, 5, 1), [0, 1, 2, 0, 1]);
    assert_eq!(draw(Order::Timestamp, 3, 5, 1), [0, 1, 2, 0, 1]);
    assert_eq!(draw(Order::Reverse, 3, 5, 1), [2, 1, 0, 2, 1]);
}

#[test]
fn uniform_collides() {
    let mut drawn = draw(Order::Uniform, 10_000, 10_000, 3);
    drawn.sort_unstable();
    drawn.dedup();
    // About 1 - 1/e of the keys.
    assert!((6_200..6_450).contains(&drawn.len()), "{} distinct", drawn.len());
}

#[test]
fn zipfian_is_as_skewed_as_ycsb_and_scattered() {
    let mut visits = BTreeMap::new();
    for index in draw(Order::Zipfian, 10_000, 200_000, 5) {
        *visits.entry(index).or_insert(0_u32) += 1;
    }
    let mut counts: Vec<u32> = visits.values().copied().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let zeta: f64 = (1..=10_000).map(|i| f64::from(i).powf(-0.99)).sum();
    let first = f64::from(counts[0]) / 200_000.0;
    assert!((first * zeta - 1.0).abs() < 0.1, "the first rank gets {first}, not 1/{zeta}");
    let hot = visits.iter().find(|(_, visits)| **visits == counts[0]).expect("one is hottest");
    assert_ne!(*hot.0, 0, "ranks are scattered over the keys");
    let first = draw(Order::ZipfianFirst, 10_000, 200_000, 5);
    let hottest = first.iter().filter(|index| **index == 0).count();
    assert_eq!(hottest as u32, counts[0], "the same, with the hottest first");
}

#[test]
fn ranks_stay_below_their_number() {
    for size in [1, 2, 3, 4, 1000] {
        let zipf = Zipf::new(size);
        assert!((0..5000).all(|i| zipf.rank(uniform(1, i)) < size), "size {size}");
    }
}
