//! The records of every row: distinct 16-byte keys and 100-byte values that follow from an index.
//!
//! It stores nothing; whatever was read back can be compared with what it makes anew.

use std::error::Error;

/// What a measurement may end with.
pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Length of a key, in bytes.
pub const KEY_BYTES: usize = 16;
/// Length of a value, in bytes.
pub const VALUE_BYTES: usize = 100;

/// Bytes at the front of a value that do not compress; the last 8 do not either.
const RANDOM_BYTES: usize = 42;
const SEED: u64 = 0x51_17_db;

/// How keys follow from indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Ascending.
    Sequential,
    /// By a bijection on 64 bits: no key twice, no order.
    Random,
}

/// A bijection on 64 bits (the finalizer of SplitMix64, Steele, Lea and Flood 2014).
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The key of an index: 8 bytes by which it is ordered, then the index.
#[inline]
pub fn key(order: Order, index: u64) -> [u8; KEY_BYTES] {
    let place = match order {
        Order::Sequential => index,
        Order::Random => mix(index.wrapping_add(SEED)),
    };
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&place.to_be_bytes());
    key[8..].copy_from_slice(&index.to_be_bytes());
    key
}

/// The value of an index: half of it random, half of it the same everywhere.
#[inline]
pub fn value(index: u64) -> [u8; VALUE_BYTES] {
    let mut value = [b'-'; VALUE_BYTES];
    let mut state = mix(index ^ SEED.rotate_left(32));
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(state).to_le_bytes()
    };
    value[VALUE_BYTES - 8..].copy_from_slice(&next());
    for part in value[..RANDOM_BYTES].chunks_mut(8) {
        part.copy_from_slice(&next()[..part.len()]);
    }
    value
}

/// What a reader adds up: the first and the last 8 bytes of a value.
#[inline]
pub fn sum(value: &[u8]) -> u64 {
    let word = |bytes: Option<&[u8; 8]>| bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes));
    word(value.first_chunk()).wrapping_add(word(value.last_chunk()))
}

/// The sum over the values of `indexes`.
pub fn sum_of(indexes: impl Iterator<Item = u64>) -> u64 {
    indexes.fold(0, |total, index| total.wrapping_add(sum(&value(index))))
}

/// Fails unless the sum of what was read is that of what should have been.
pub fn check_sum(found: u64, expected: u64) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(format!("values do not add up. expected={expected}, found={found}").into())
}

/// The indexes below `count` in random order (Fisher and Yates).
///
/// Readers must not meet records in the order in which they were written: memory would favour them.
pub fn shuffled(count: u64) -> Vec<u32> {
    let count = u32::try_from(count).expect("rows have fewer than 2^32 records");
    let mut indexes: Vec<u32> = (0..count).collect();
    for place in (1..indexes.len()).rev() {
        let other = mix(place as u64 ^ SEED) % (place as u64 + 1);
        indexes.swap(place, other as usize);
    }
    indexes
}

/// Compares records that come in key order with all that were written: each in full, their order
/// and, at the end, their number.
#[derive(Debug)]
pub struct Verification {
    order: Order,
    count: u64,
    seen: u64,
    last: Option<[u8; KEY_BYTES]>,
}

impl Verification {
    /// Expects the records of the indexes below `count`.
    pub fn new(order: Order, count: u64) -> Self {
        Self { order, count, seen: 0, last: None }
    }

    /// Takes the next record.
    pub fn see(&mut self, found_key: &[u8], found_value: &[u8]) -> Result<()> {
        let found: [u8; KEY_BYTES] = found_key.try_into().map_err(|_| "a key of another length")?;
        let index = u64::from_be_bytes(*found.last_chunk().expect("a key is longer than 8 bytes"));
        if index >= self.count || found != key(self.order, index) {
            return Err(format!("a key that was not written. found={found:02x?}").into());
        }
        if self.last >= Some(found) {
            return Err(format!("a key out of order. index={index}").into());
        }
        if found_value != value(index) {
            return Err(format!("a wrong value. index={index}").into());
        }
        self.last = Some(found);
        self.seen += 1;
        Ok(())
    }

    /// Ends it: keys ascend and belong to indexes below the count, so as many are all.
    pub fn finish(self) -> Result<()> {
        if self.seen == self.count {
            return Ok(());
        }
        let (seen, count) = (self.seen, self.count);
        Err(format!("wrong number of records. expected={count}, found={seen}").into())
    }
}
