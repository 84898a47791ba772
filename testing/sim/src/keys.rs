//! The keys and values of a run.
//!
//! An index names a key, so that operations meet on the same few hundred keys.

use crate::{draw::Draw, model::Shared};

/// The key under which commits write their numbers. It lies above every other key of a run, so that
/// no range deletion covers it.
pub const CLOCK_KEY: &[u8] = b"\xff\xffclock";

/// Key number `index` of those that are only put and single-deleted, in turn. No other deletion
/// reaches them.
#[must_use]
pub fn single_key(index: u8) -> Shared {
    [0xff, index % SINGLE_KEYS].as_slice().into()
}

/// The key number `index` of those that the prepared transaction number `number` writes: no other
/// commit reaches them.
#[must_use]
pub fn prepared_key(number: u64, index: u8) -> Shared {
    let mut key = vec![0xff, SINGLE_KEYS];
    key.extend_from_slice(&number.to_be_bytes());
    key.push(index);
    key.into()
}

/// The number of keys of [`single_key`].
pub const SINGLE_KEYS: u8 = 16;

/// The longest key the engine takes, in bytes.
const KEY_BYTES_MAX: usize = 64 << 10;

/// The shape of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyShape {
    /// Long common prefixes before a number.
    Prefixed,
    /// Short keys over a small alphabet: many are prefixes of each other, and the empty key is
    /// among them.
    Binary,
    /// Both shapes, and a few keys of the maximal length.
    Mixed,
}

impl KeyShape {
    /// The key with index `index`.
    #[must_use]
    pub fn key(self, index: u64) -> Shared {
        let bytes = match self {
            Self::Prefixed => prefixed(index),
            Self::Binary => binary(index),
            Self::Mixed if index % 64 == 13 => long(index),
            Self::Mixed if index.is_multiple_of(2) => prefixed(index),
            Self::Mixed => binary(index),
        };
        bytes.into()
    }
}

fn prefixed(index: u64) -> Vec<u8> {
    let table = ["orders", "users"][(index % 2) as usize];
    format!("/data/{table}/{:08}", index * 37 % 1009).into_bytes()
}

fn binary(index: u64) -> Vec<u8> {
    const ALPHABET: [u8; 6] = [0, 1, b'a', 0x7f, 0x80, 0xff];
    let mut draw = Draw::new(index, 0xb1);
    let mut bytes: Vec<u8> = (0..index % 6).map(|_| draw.pick(&ALPHABET)).collect();
    // 0xff is left to the clock key, so that it stays the largest.
    if bytes.first() == Some(&0xff) {
        bytes[0] = 0xfe;
    }
    bytes
}

fn long(index: u64) -> Vec<u8> {
    let len = [300, 1000, 5000, KEY_BYTES_MAX][(index / 64 % 4) as usize];
    let mut bytes = vec![b'l'; len - 8];
    bytes.extend_from_slice(&index.to_be_bytes());
    bytes
}

/// A value of 0 to `bytes_max` bytes, mostly short. It differs from all others unless it is too
/// short for that.
#[must_use]
pub fn value(draw: &mut Draw, bytes_max: usize) -> Shared {
    let len = match draw.below(100) {
        0..5 => 0,
        5..75 => draw.within(1..=120) as usize,
        75..96 => draw.within(100..=1500) as usize,
        96..99 => draw.index(bytes_max.min(16 << 10)),
        _ => draw.index(bytes_max),
    };
    let mut bytes = draw.bytes(len.min(16));
    if draw.chance(1, 2) {
        bytes.resize(len, b'.');
    } else {
        bytes.extend_from_slice(&draw.bytes(len - bytes.len()));
    }
    bytes.into()
}

/// A merge operand.
#[must_use]
pub fn operand(draw: &mut Draw) -> Shared {
    let len = draw.within(0..=9) as usize;
    draw.bytes(len).into()
}
