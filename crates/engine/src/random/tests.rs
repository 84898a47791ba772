//! The sequence is the published one, and seeds from the system differ.

use super::*;

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
