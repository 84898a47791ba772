//! Finds the part of a run that holds a key, without a look at any table.
//!
//! It compares heads of keys alone. Where they do not tell, the caller compares whole keys.

use siltdb_base::{key::head, slice::Slice};
use siltdb_disk::table_meta::KeySpan;
use std::ops::Range;

/// Which part of a run holds a key, as far as heads of keys tell.
#[derive(Clone, Copy, Debug)]
pub enum Seek {
    /// The one of this index.
    Within(usize),
    /// No part holds the key.
    Nowhere,
    /// The key has the head of a border: keys must be compared whole.
    Unclear,
}

/// The first and last keys of the parts of a run as integers, so that finding a part touches two
/// arrays and no table.
///
/// Heads are taken after the prefix that all keys of the run share: without that, keys such as
/// `user:0000123` would all have one head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finder {
    prefix: Vec<u8>,
    firsts: Vec<u64>,
    lasts: Vec<u64>,
}

impl Finder {
    /// Of parts with these ranges; `None` unless each ends before the next begins.
    #[must_use]
    pub fn of_disjoint<'r>(ranges: impl Iterator<Item = &'r KeySpan> + Clone) -> Option<Self> {
        let next = ranges.clone().skip(1);
        if !ranges.clone().zip(next).all(|(range, next)| range.is_before(&next.first)) {
            return None;
        }
        let (Some(first), Some(last)) = (ranges.clone().next(), ranges.clone().last()) else {
            return Some(Self::default());
        };
        let shared = common_prefix(&first.first, &last.last);
        let prefix = first.first[..shared].to_vec();
        // Between the first and the last key of the run all keys have the prefix.
        let head_after = |key: &Slice| head(&key[shared..]);
        let firsts = ranges.clone().map(|range| head_after(&range.first)).collect();
        let lasts = ranges.map(|range| head_after(&range.last)).collect();
        Some(Self { prefix, firsts, lasts })
    }

    /// The part whose range holds `key`.
    #[inline]
    #[must_use]
    pub fn find(&self, key: &[u8]) -> Seek {
        let Some(rest) = key.strip_prefix(self.prefix.as_slice()) else { return Seek::Nowhere };
        let wanted = head(rest);
        let index = self.lasts.partition_point(|&last| last < wanted);
        match (self.firsts.get(index), self.lasts.get(index)) {
            (Some(&first), Some(&last)) if first < wanted && wanted < last => Seek::Within(index),
            (Some(&first), Some(&last)) if first == wanted || wanted == last => Seek::Unclear,
            _ => Seek::Nowhere,
        }
    }

    /// The indexes among which the first part lies that reaches `key`: those before do not reach
    /// it, and those after do.
    #[inline]
    #[must_use]
    pub fn candidates(&self, key: &[u8]) -> Range<usize> {
        let shared = self.prefix.len();
        let Some(rest) = key.strip_prefix(self.prefix.as_slice()) else {
            let place = if key < self.prefix.as_slice() { 0 } else { self.lasts.len() };
            return place..place;
        };
        debug_assert!(shared <= key.len());
        let wanted = head(rest);
        let start = self.lasts.partition_point(|&last| last < wanted);
        let equal = self.lasts[start..].partition_point(|&last| last == wanted);
        start..start + equal
    }
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
