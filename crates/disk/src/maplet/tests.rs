//! Keys are led to their places, few others are, and nothing that is there is denied.

use super::*;
use proptest::prelude::*;
use siltdb_base::checksum::xxh3;
use std::{collections::HashMap, thread};

const BLOCK_KEYS: usize = 40;

fn hash(number: usize) -> u64 {
    xxh3(&number.to_be_bytes())
}

fn place(number: usize) -> EntryPlace {
    EntryPlace { block: number / BLOCK_KEYS, entry: number % BLOCK_KEYS }
}

fn shape(blocks: usize) -> MapletShape {
    MapletShape::new(blocks, (blocks * BLOCK_KEYS) as u64, BLOCK_KEYS as u32).unwrap()
}

fn add(maplet: &Maplet, block: usize) {
    maplet.add_block(block, || {
        (0..BLOCK_KEYS).map(|entry| (hash(block * BLOCK_KEYS + entry), entry))
    });
}

/// The places shown for a key, and whether it is in no other.
fn search(maplet: &Maplet, hash: u64) -> (Vec<EntryPlace>, bool) {
    let mut search = maplet.search(hash);
    let places = search.by_ref().collect();
    (places, search.is_certain())
}

#[test]
fn keys_are_found_but_for_a_few_and_others_hardly_ever() {
    let blocks = 1000;
    let maplet = Maplet::new(shape(blocks));
    for block in 0..blocks {
        assert!(!maplet.knows_all() && !maplet.has_block(block));
        add(&maplet, block);
        assert!(maplet.has_block(block));
    }
    assert!(maplet.knows_all());
    let count = blocks * BLOCK_KEYS;
    let mut without_room = 0;
    for number in 0..count {
        let (places, is_certain) = search(&maplet, hash(number));
        if !places.contains(&place(number)) {
            assert!(!is_certain, "{number}");
            without_room += 1;
        }
    }
    assert!(without_room < count / 100, "{without_room} of {count}");
    let (mut shown, mut uncertain) = (0, 0);
    for number in count..2 * count {
        let (places, is_certain) = search(&maplet, hash(number));
        shown += places.len();
        uncertain += usize::from(!is_certain);
    }
    // Tags of 16 bits.
    assert!(shown < count / 1000, "{shown} of {count}");
    assert!(uncertain < count / 10, "{uncertain} of {count}");
}

#[test]
fn nothing_is_certain_before_all_blocks_are_added() {
    let maplet = Maplet::new(shape(65));
    // Of ten lines not all are full.
    let is_one_certain = || (0..10).any(|absent| search(&maplet, hash(1_000_000 + absent)).1);
    for block in (0..65).rev() {
        assert!(!is_one_certain());
        add(&maplet, block);
    }
    assert!(is_one_certain());
}

#[test]
fn a_block_has_block_once() {
    let maplet = Maplet::new(shape(2));
    add(&maplet, 0);
    maplet.add_block(0, || -> std::iter::Empty<_> { panic!("it was added") });
    assert!(!maplet.knows_all());
    assert_eq!(search(&maplet, hash(3)).0, [place(3)]);
}

#[test]
fn who_finds_another_at_it_goes_without() {
    let maplet = Maplet::new(shape(2));
    maplet.add_block(0, || {
        thread::scope(|scope| scope.spawn(|| add(&maplet, 1)).join().unwrap());
        std::iter::empty()
    });
    assert!(maplet.has_block(0) && !maplet.has_block(1));
    add(&maplet, 1);
    assert!(maplet.knows_all());
}

#[test]
fn shapes_have_room_for_every_place_and_a_tag() {
    assert_eq!(MapletShape::new(0, 0, 0), None);
    // 2^24 places, and the 0 of an empty entry: the tag would have 7 bits.
    assert_eq!(MapletShape::new(1 << 16, 1 << 24, 1 << 8), None);
    for (blocks, entries_max) in [(1, 1), (1, 2), (3, 1), ((1 << 16) - 1, 1 << 8), (1, 1 << 23)] {
        let shape = MapletShape::new(blocks, 1, entries_max).unwrap();
        assert!(shape.bytes() >= 64 + 8 * blocks.div_ceil(64));
        let maplet = Maplet::new(shape);
        let last = EntryPlace { block: blocks - 1, entry: entries_max as usize - 1 };
        maplet.add_block(last.block, || [(u64::MAX, last.entry)].into_iter());
        assert_eq!(search(&maplet, u64::MAX).0, [last]);
    }
}

#[cfg(loom)]
#[test]
fn loom_a_reader_beside_two_mappers_is_denied_nothing() {
    use siltdb_base::sync::{Arc, thread};

    loom::model(|| {
        let maplet = Arc::new(Maplet::new(MapletShape::new(2, 2, 1).unwrap()));
        // One line, and one behind the other in it.
        let hashes = [5 << 32, 21 << 32];
        let mappers: Vec<_> = (0..2)
            .map(|block| {
                let maplet = maplet.clone();
                thread::spawn(move || maplet.add_block(block, || [(hashes[block], 0)].into_iter()))
            })
            .collect();
        for (block, hash) in hashes.into_iter().enumerate() {
            let (places, is_certain) = search(&maplet, hash);
            assert!(places.contains(&EntryPlace { block, entry: 0 }) || !is_certain);
        }
        for mapper in mappers {
            mapper.join().unwrap();
        }
    });
}

#[cfg(not(loom))]
#[test]
fn readers_beside_a_mapper_are_denied_nothing() {
    let blocks = if cfg!(miri) { 4 } else { 200 };
    let maplet = Maplet::new(shape(blocks));
    thread::scope(|scope| {
        for turn in 0..2 {
            let maplet = &maplet;
            scope.spawn(move || {
                while !maplet.knows_all() {
                    for block in (0..blocks).filter(|block| block % 2 == turn) {
                        add(maplet, block);
                    }
                }
            });
        }
        for number in (0..blocks * BLOCK_KEYS).cycle() {
            let had_all = maplet.knows_all();
            let (places, is_certain) = search(&maplet, hash(number));
            assert!(places.contains(&place(number)) || !is_certain, "{number}");
            if had_all && number == blocks * BLOCK_KEYS - 1 {
                break;
            }
        }
    });
}

proptest! {
    /// Also where lines are crowded, and keys have equal hashes.
    #[test]
    fn what_is_missing_is_never_denied(
        lines in 1..4_u64,
        blocks in prop::collection::vec(prop::collection::vec(any::<u16>(), 1..20), 1..6),
    ) {
        let spread = |number: u16| u64::from(number % 512).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let maplet = Maplet::new(MapletShape::new(blocks.len(), lines * LINE_KEYS, 20).unwrap());
        let mut there: HashMap<u64, Vec<EntryPlace>> = HashMap::new();
        for (block, keys) in blocks.iter().enumerate() {
            let places = || keys.iter().enumerate().map(|(entry, &key)| (spread(key), entry));
            maplet.add_block(block, places);
            for (hash, entry) in places() {
                there.entry(hash).or_default().push(EntryPlace { block, entry });
            }
        }
        for key in 0..512 {
            let (places, is_certain) = search(&maplet, spread(key));
            let expected = there.get(&spread(key)).map_or(&[][..], Vec::as_slice);
            let all_shown = expected.iter().all(|place| places.contains(place));
            prop_assert!(all_shown || !is_certain);
        }
    }
}
