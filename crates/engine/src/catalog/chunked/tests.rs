//! The map against one of the standard library, and what a change copies.

use super::*;
use crate::kit::random::Random;
use std::collections::BTreeMap;

#[test]
fn it_holds_what_a_plain_map_holds_and_copies_stay_as_they_were() {
    for seed in 1..5 {
        println!("seed {seed}");
        let mut random = Random::new(Some(seed));
        let (mut map, mut model) = (ChunkedMap::default(), BTreeMap::new());
        let mut copies = Vec::new();
        for round in 0..6000_u64 {
            let key = random.next_u64() % 1500;
            // It grows, and in the end it shrinks to nothing.
            if round < 3000 || random.next_u64().is_multiple_of(8) && round < 5000 {
                assert_eq!(map.insert(key, round), model.insert(key, round));
            } else {
                let nearest = model.range(key..).next().map_or(key, |(nearest, _)| *nearest);
                assert_eq!(map.remove(&nearest), model.remove(&nearest));
            }
            assert_eq!(map.get(&key), model.get(&key));
            assert_eq!(map.contains_key(&key), model.contains_key(&key));
            if round % 500 == 0 {
                copies.push((map.clone(), model.clone()));
            }
        }
        while let Some((key, value)) = model.pop_last() {
            assert_eq!(map.remove(&key), Some(value));
        }
        copies.push((map.clone(), model.clone()));
        assert_eq!((map.len(), map.chunks.len()), (0, 0));
        for (copy, model) in copies {
            assert!(copy.values().eq(model.values()));
            assert_eq!(copy.len(), model.len());
            assert!(copy.chunks.iter().all(|chunk| !chunk.is_empty()));
        }
    }
}

#[test]
fn a_change_copies_one_chunk() {
    let mut map = ChunkedMap::default();
    for key in 0..10_000_u64 {
        map.insert(key, key);
    }
    let before = map.clone();
    map.insert(5_000_000, 0);
    map.remove(&5000);
    let shared = |chunk| before.chunks.iter().any(|other| Arc::ptr_eq(other, chunk));
    assert_eq!(map.chunks.iter().filter(|chunk| !shared(chunk)).count(), 2);
    assert!(map.chunks.len() <= 2 * 10_000 / (CHUNK_ENTRIES_MAX / 2));
    assert!(map.chunks.iter().all(|chunk| chunk.len() <= CHUNK_ENTRIES_MAX));
}
