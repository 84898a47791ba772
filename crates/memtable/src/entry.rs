//! How an entry lies in the arena, and what points to it.
//!
//! It knows nothing of the tree. An entry never changes once something points to it.
//!
//! ```text
//! | trailer u64 | key length u32 | value length u32 | key | value |   native, aligned to 8
//! ```
//!
//! # Invariants
//! 1. An [`EntryHeader`] that something points to is followed by its key and its value. All of them
//!    were written before the pointer was published, and are never written again.
//! 2. A pointer has the provenance of all of its entry. The entry lives as long as the arena, which
//!    outlives the `'t` of every [`EntryRef`].
//! 3. A [`EntrySlot`] is null or points to an entry of the arena that the slot itself lies in.

use siltdb_base::{
    id::SequenceNumber,
    key::{Entry, SortKey, Trailer},
    limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX},
    sync::atomic::{AtomicPtr, Ordering as Order},
};
use std::{cmp::Ordering, marker::PhantomData, ptr::NonNull};

/// The fixed part of an entry.
#[repr(C)]
pub struct EntryHeader {
    trailer: Trailer,
    key_bytes: u32,
    value_bytes: u32,
}

/// A place in the order of entries that is looked for.
#[derive(Clone, Copy)]
pub struct Probe<'a> {
    /// The user key.
    pub key: &'a [u8],
    /// Newer entries of the key come before it.
    pub sequence: SequenceNumber,
}

/// An entry in the arena.
#[derive(Clone, Copy)]
pub struct EntryRef<'t> {
    header: NonNull<EntryHeader>,
    arena: PhantomData<&'t EntryHeader>,
}

// SAFETY: an entry is immutable (1) and bound to no thread.
unsafe impl Send for EntryRef<'_> {}
// SAFETY: as above.
unsafe impl Sync for EntryRef<'_> {}

/// The alignment of an entry.
pub const ENTRY_ALIGN: usize = align_of::<EntryHeader>();

/// The bytes `entry` takes in the arena.
///
/// # Panics
/// If key or value exceed [`siltdb_base::limits`].
#[inline]
pub fn stored_bytes(entry: &Entry<'_>) -> usize {
    assert!(
        entry.key.len() <= KEY_BYTES_MAX && entry.value.len() <= VALUE_BYTES_MAX,
        "an entry above the limits. key={}, value={}",
        entry.key.len(),
        entry.value.len()
    );
    size_of::<EntryHeader>() + entry.key.len() + entry.value.len()
}

impl<'t> EntryRef<'t> {
    /// Writes `entry` to `place`.
    ///
    /// # Safety
    /// `place` is aligned to [`ENTRY_ALIGN`], has [`stored_bytes`] bytes, belongs to the caller
    /// alone, and lives for `'t`.
    #[inline]
    pub unsafe fn write(place: NonNull<u8>, entry: &Entry<'_>) -> Self {
        let header = place.cast::<EntryHeader>();
        let fixed = EntryHeader {
            trailer: Trailer::new(entry.sequence, entry.kind),
            key_bytes: entry.key.len() as u32,
            value_bytes: entry.value.len() as u32,
        };
        // SAFETY: aligned, large enough and ours, by the contract.
        unsafe { header.write(fixed) };
        // SAFETY: the header is followed by key and value within the same piece.
        let key = unsafe { place.add(size_of::<EntryHeader>()) };
        // SAFETY: the piece has room for the key, and is not where the caller's key lies.
        unsafe { key.copy_from_nonoverlapping(NonNull::from(entry.key).cast(), entry.key.len()) };
        // SAFETY: as above, the value follows the key.
        let value = unsafe { key.add(entry.key.len()) };
        let from = NonNull::from(entry.value).cast();
        // SAFETY: as for the key.
        unsafe { value.copy_from_nonoverlapping(from, entry.value.len()) };
        Self { header, arena: PhantomData }
    }

    /// An entry from its address.
    ///
    /// # Safety
    /// `header` came from [`Self::as_ptr`] of an entry whose arena lives for `'t`.
    #[inline]
    pub unsafe fn from_ptr(header: NonNull<EntryHeader>) -> Self {
        Self { header, arena: PhantomData }
    }

    /// The address of the entry.
    #[inline]
    pub fn as_ptr(self) -> NonNull<EntryHeader> {
        self.header
    }

    #[inline]
    fn fixed(self) -> &'t EntryHeader {
        // SAFETY: by (1) and (2).
        unsafe { self.header.as_ref() }
    }

    #[inline]
    fn bytes(self, offset: usize, length: usize) -> &'t [u8] {
        let start = self.header.cast::<u8>();
        // SAFETY: callers stay within the entry (1).
        let start = unsafe { start.add(size_of::<EntryHeader>() + offset) };
        // SAFETY: as above, and the bytes are never written again.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), length) }
    }

    /// The user key.
    #[inline]
    pub fn key(self) -> &'t [u8] {
        self.bytes(0, self.fixed().key_bytes as usize)
    }

    /// The sequence number.
    #[inline]
    pub fn sequence(self) -> SequenceNumber {
        self.fixed().trailer.sequence()
    }

    /// The whole entry.
    #[inline]
    pub fn entry(self) -> Entry<'t> {
        let fixed = self.fixed();
        let (key_bytes, value_bytes) = (fixed.key_bytes as usize, fixed.value_bytes as usize);
        Entry {
            key: self.bytes(0, key_bytes),
            sequence: fixed.trailer.sequence(),
            kind: fixed.trailer.kind().expect("the trailer was made from a kind"),
            value: self.bytes(key_bytes, value_bytes),
        }
    }

    /// Its own place in the order.
    #[inline]
    pub fn probe(self) -> Probe<'t> {
        Probe { key: self.key(), sequence: self.sequence() }
    }

    /// Where it stands, seen from `probe`.
    #[inline]
    pub fn compare(self, probe: Probe<'_>) -> Ordering {
        let own = SortKey::new(self.key(), self.sequence());
        own.cmp(&SortKey::new(probe.key, probe.sequence))
    }
}

/// A pointer to an entry that others may follow while it is being changed.
pub struct EntrySlot(AtomicPtr<EntryHeader>);

impl EntrySlot {
    /// A slot that is null.
    pub fn empty() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// The entry, if any.
    #[inline]
    pub fn load(&self) -> Option<EntryRef<'_>> {
        // Acquire pairs with the release in `store`: the entry's bytes were written before (1).
        // That holds also for a reader that finds out later that it looked at a node amid a change.
        let header = NonNull::new(self.0.load(Order::Acquire))?;
        Some(EntryRef { header, arena: PhantomData })
    }

    /// Points to `entry`, which must lie in the same arena (3).
    #[inline]
    pub fn store(&self, entry: EntryRef<'_>) {
        // Release pairs with the acquire in `load`.
        self.0.store(entry.header.as_ptr(), Order::Release);
    }

    /// Takes over what `other` points to.
    #[inline]
    pub fn copy_from(&self, other: &Self) {
        // Acquire and release as above, so that a thread that loads this slot is ordered after the
        // writer of the entry too.
        self.0.store(other.0.load(Order::Acquire), Order::Release);
    }
}
