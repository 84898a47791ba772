//! The bytes of a file as shared pages: copying an image costs a pointer per page.
//!
//! It knows no durability; [`content`](super::content) keeps two of these per file.
//!
//! # Invariants
//! 1. There is a page slot for each begun page below `len`; an empty slot reads as zeros.
//! 2. Bytes of the last page at and beyond `len` are zero, so growing shows zeros.

use std::{ops::Range, sync::Arc};

/// Bytes of a page.
const PAGE: usize = 4096;

type Page = [u8; PAGE];

/// The bytes of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct MemPages {
    len: u64,
    pages: Vec<Option<Arc<Page>>>,
}

impl MemPages {
    /// The length, in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Cuts or grows (with zeros) to `len`.
    pub(super) fn set_len(&mut self, len: u64) {
        self.pages.resize(index(len.div_ceil(PAGE as u64)), None);
        let kept = index(len % PAGE as u64);
        // By (2): only a cut inside a page can leave bytes behind it.
        if len < self.len
            && kept != 0
            && let Some(Some(page)) = self.pages.last_mut()
        {
            Arc::make_mut(page)[kept..].fill(0);
        }
        self.len = len;
    }

    /// Copies from `offset` as much as there is; returns the bytes copied.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) -> usize {
        let there = index(self.len.saturating_sub(offset).min(out.len() as u64));
        for (place, part) in split(offset, there) {
            match &self.pages[place.page] {
                Some(page) => out[part].copy_from_slice(&page[place.bytes]),
                None => out[part].fill(0),
            }
        }
        there
    }

    /// Overwrites from `offset`, growing if need be.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        if end > self.len {
            self.set_len(end);
        }
        for (place, part) in split(offset, bytes.len()) {
            let page = self.pages[place.page].get_or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(page)[place.bytes].copy_from_slice(&bytes[part]);
        }
    }

    /// Takes the pages that `range` touches, whole, and the length over from `other`.
    pub(super) fn share(&mut self, other: &Self, range: Range<u64>) {
        self.set_len(other.len);
        let first = index(range.start / PAGE as u64);
        let last = index(range.end.min(other.len).div_ceil(PAGE as u64));
        for page in first..last {
            self.pages[page] = other.pages[page].clone();
        }
    }
}

/// A place within one page.
struct Place {
    page: usize,
    bytes: Range<usize>,
}

/// Splits `len` bytes at `offset` by pages: each place, and its part of the `len` bytes.
fn split(offset: u64, len: usize) -> impl Iterator<Item = (Place, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + done as u64;
        let start = index(at % PAGE as u64);
        let count = (PAGE - start).min(len - done);
        let part = done..done + count;
        done += count;
        Some((Place { page: index(at / PAGE as u64), bytes: start..start + count }, part))
    })
}

fn index(value: u64) -> usize {
    usize::try_from(value).expect("a file in memory is addressable")
}
