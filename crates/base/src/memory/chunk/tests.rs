//! Chunks of every size are aligned, cleared and writable, and large ones begin untouched.

use super::*;
use std::slice;

const SIZES: [usize; 6] = [4 << 10, 32 << 10, 64 << 10, 256 << 10, 2 << 20, 6 << 20];

#[test]
fn a_new_chunk_is_aligned_all_zeros_and_writable() {
    for bytes in SIZES {
        for pages in [Pages::Huge, Pages::Small] {
            let chunk = Chunk::new(bytes, pages);
            assert_eq!(chunk.bytes(), bytes);
            assert_eq!(chunk.start().addr().get() % ALIGN_MAX, 0);
            // SAFETY: the chunk is so long, initialised, and ours alone.
            let all = unsafe { slice::from_raw_parts_mut(chunk.start().as_ptr(), bytes) };
            assert!(all.iter().all(|&byte| byte == 0), "{bytes}");
            all.fill(0xa5);
            assert_eq!(all[bytes - 1], 0xa5);
        }
    }
}

#[cfg(all(target_os = "linux", not(miri), not(loom)))]
#[test]
fn a_mapped_chunk_takes_memory_when_it_is_touched() {
    for bytes in SIZES.into_iter().filter(|&bytes| bytes >= 64 << 10) {
        let chunk = Chunk::new(bytes, Pages::Small);
        assert_eq!(present(&chunk), 0, "of {bytes}");
        // SAFETY: the first byte of the chunk, which is ours alone.
        unsafe { chunk.start().write(1) };
        let touched = present(&chunk);
        assert!((1..=HUGE_PAGE_BYTES / PAGE_BYTES).contains(&touched), "{touched} of {bytes}");
    }
}

/// Pages of a chunk that are in memory, as pagemap (proc_pid_pagemap(5)) has them.
#[cfg(all(target_os = "linux", not(miri), not(loom)))]
fn present(chunk: &Chunk) -> usize {
    use std::os::unix::fs::FileExt;
    const PRESENT: u64 = 1 << 63;
    let page_bytes = rustix::param::page_size();
    let mut entries = vec![0; chunk.bytes() / page_bytes * size_of::<u64>()];
    let offset = (chunk.start().addr().get() / page_bytes * size_of::<u64>()) as u64;
    let pagemap = std::fs::File::open("/proc/self/pagemap").unwrap();
    pagemap.read_exact_at(&mut entries, offset).unwrap();
    let is_present = |entry: &[u8; 8]| u64::from_ne_bytes(*entry) & PRESENT != 0;
    entries.as_chunks().0.iter().filter(|entry| is_present(entry)).count()
}
