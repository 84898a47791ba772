//! Finds entries of a block in memory by its arrays.
//!
//! It does not search a block whose arrays are not derived yet: `glance` does.

use super::{
    Block, ENTRY_FRONT_BYTES, WIDE,
    form::{HEAD_BYTES, Located, OffsetWidth, short_head},
};
use siltdb_base::{
    hint::{prefetch_address, prefetch_bytes},
    id::SequenceNumber,
    key::{self, SortKey},
};

impl Block {
    /// The first entry at or after (`key`, `sequence`); the count, if all entries lie before.
    #[must_use]
    pub fn lower_bound(&self, key: &[u8], sequence: SequenceNumber) -> usize {
        let prefix = self.prefix();
        let Some(suffix) = key.strip_prefix(prefix) else {
            return if key < prefix { 0 } else { self.count() };
        };
        let sought = short_head(suffix);
        let is_lower = |head| u32::from_le_bytes(head) < sought;
        let is_before = |index| self.is_before(index, suffix, sequence);
        key::lower_bound(self.heads(), sought.to_le_bytes(), is_lower, is_before)
    }

    /// The newest entry of `key` that is not newer than `visible`.
    #[inline]
    #[must_use]
    pub fn get(&self, key: &[u8], visible: SequenceNumber) -> Option<Located> {
        let suffix = key.strip_prefix(self.prefix())?;
        let heads = self.heads();
        let sought = short_head(suffix);
        let first = heads.partition_point(|head| u32::from_le_bytes(*head) < sought);
        let is_sought = |index: usize| heads.get(index) == Some(&sought.to_le_bytes());
        if !is_sought(first) {
            return None;
        }
        if !is_sought(first + 1) {
            self.prefetch_entry(first);
            let located = self.locate(first);
            let is_it = located.sequence <= visible && self.suffix_at(&located) == suffix;
            return is_it.then_some(located);
        }
        // Several: versions of a key, or keys that agree in their heads.
        let index = self.lower_bound(key, visible);
        if index == self.count() {
            return None;
        }
        let located = self.locate(index);
        (self.suffix_at(&located) == suffix).then_some(located)
    }

    /// Prefetches what [`Block::get_at`] will look at, of a block of this `layout` that begins at
    /// `front`. Where the entry at `index` lies is guessed from the length of others. The offset is
    /// prefetched only if it lies there, too.
    #[inline]
    pub fn prefetch_guess(front: *const u8, layout: u64, index: usize) {
        let (between, stride) = (layout as u32, (layout >> 32) as usize);
        let width = if between & WIDE == 0 { OffsetWidth::Short } else { OffsetWidth::Wide };
        let between = (between & !WIDE) as usize;
        let offsets = front.wrapping_add(between * HEAD_BYTES);
        prefetch_address(offsets.wrapping_add(index * width.bytes()));
        let raw = offsets.wrapping_add(between * width.bytes());
        prefetch_address(raw);
        prefetch_bytes(raw.wrapping_add(index.wrapping_mul(stride)), ENTRY_FRONT_BYTES);
    }

    /// The entry at `index`, if it is one of `key`.
    #[inline]
    #[must_use]
    pub fn get_at(&self, index: usize, key: &[u8]) -> Option<Located> {
        if index >= self.count() {
            return None;
        }
        let located = self.locate(index);
        let suffix = key.strip_prefix(self.prefix())?;
        (self.suffix_at(&located) == suffix).then_some(located)
    }

    /// Prefetches the cache lines of the front of the entry at `index`, which are looked at in
    /// order.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub fn prefetch_entry(&self, index: usize) {
        let offset = self.entries().offset(index);
        prefetch_bytes(self.raw.as_ptr().wrapping_add(offset), ENTRY_FRONT_BYTES);
    }

    #[inline]
    fn heads(&self) -> &[[u8; HEAD_BYTES]] {
        self.arrays[..self.count() * HEAD_BYTES].as_chunks().0
    }

    /// Whether the entry at `index`, which has the head of `suffix`, lies before (suffix,
    /// sequence).
    #[inline]
    fn is_before(&self, index: usize, suffix: &[u8], sequence: SequenceNumber) -> bool {
        let entry = self.entry(index);
        SortKey::new(entry.suffix, entry.sequence) < SortKey::new(suffix, sequence)
    }
}
