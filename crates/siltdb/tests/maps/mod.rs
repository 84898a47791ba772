//! Families under random writes, and the maps that say what they hold.

use siltdb::{Family, FamilyOptions, Read, Result, Slice, merge};
use std::collections::BTreeMap;

pub type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Small, so that little data makes several levels.
pub fn small() -> FamilyOptions {
    let appending = merge::associative("append", |_, older, newer| Ok([older, newer].concat()));
    FamilyOptions::new()
        .block_bytes(1 << 10)
        .table_bytes(4 << 10)
        .base_level_bytes(16 << 10)
        .level0_runs(3)
        .merge_operator(appending)
}

pub fn key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

pub fn contents(source: &impl Read) -> Map {
    let pair = |pair: Result<_>| {
        let (key, value): (Slice, Slice) = pair.unwrap();
        (key.to_vec(), value.to_vec())
    };
    source.iter().unwrap().map(pair).collect()
}

/// Numbers that look random (splitmix64; Steele, Lea and Flood, 2014).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    pub fn bytes(&mut self, count: u64) -> Vec<u8> {
        (0..count).map(|_| self.below(256) as u8).collect()
    }
}

/// What random writes are drawn from.
pub struct Writes {
    /// Different keys.
    pub keys: u64,
    /// Keys in a deleted range, at most.
    pub range: u64,
    /// Different values of a key.
    pub values: u64,
    /// How often the text of a value is repeated.
    pub repeat: usize,
}

impl Writes {
    /// Puts, deletes, merges or deletes a range, in a family and in its map.
    pub fn write(&self, random: &mut Random, family: &Family, map: &mut Map) {
        let number = random.below(self.keys);
        let (what, width) = (random.below(20), 1 + random.below(self.range));
        let value = format!("{number}/{}", random.below(self.values)).repeat(self.repeat);
        let (key, end) = (key(number), key(number + width));
        match what {
            0..12 => {
                family.put(&key, &value).unwrap();
                map.insert(key, value.into_bytes());
            }
            12..16 => {
                family.delete(&key).unwrap();
                map.remove(&key);
            }
            16..19 => {
                family.merge(&key, b"+").unwrap();
                map.entry(key).or_default().push(b'+');
            }
            _ => {
                family.delete_range(&key..&end).unwrap();
                map.retain(|other, _| !(&key..&end).contains(&other));
            }
        }
    }
}
