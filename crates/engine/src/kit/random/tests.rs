//! The sequence is the published one, and seeds from the system differ.

use super::*;
use siltdb_base::process::run_in_fork;
use std::collections::BTreeSet;

#[test]
fn a_seed_gives_the_published_sequence() {
    let mut random = Random::new(Some(1_234_567));
    let numbers: Vec<u64> = (0..5).map(|_| random.next_u64()).collect();
    let published = [
        6_457_827_717_110_365_317,
        3_203_168_211_198_807_973,
        9_817_491_932_198_370_423,
        4_593_380_528_125_082_431,
        16_408_922_859_458_223_821,
    ];
    assert_eq!(numbers, published);
}

#[test]
fn without_a_seed_no_two_sequences_are_alike() {
    assert_ne!(Random::new(None).next_u64(), Random::new(None).next_u64());
}

/// A forked child begins with the state of the thread that has forked it.
#[test]
fn forked_children_draw_other_numbers() {
    let _ = Random::new(None);
    let draw = |_| run_in_fork(|| Random::new(None).next_u64() as u8).unwrap();
    let drawn: BTreeSet<u8> = (0..6).map(draw).collect();
    assert!(drawn.len() > 1, "{drawn:?}");
}

#[test]
fn sequences_of_different_salts_have_no_number_in_common() {
    let numbers = |salt| {
        let mut random = Random::new(Some(7)).salted(salt);
        (0..1000).map(|_| random.next_u64()).collect::<BTreeSet<_>>()
    };
    assert_eq!(numbers(3), numbers(3));
    let all: BTreeSet<u64> = (0..20).flat_map(numbers).collect();
    assert_eq!(all.len(), 20 * 1000);
}
