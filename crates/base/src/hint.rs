//! Hints to the processor behind safe functions.
//!
//! A hint never changes a result, so there is no fallback to test beyond "does nothing".

/// Bytes that travel between memory and processor together.
pub const CACHE_LINE_BYTES: usize = 64;

/// Asks for the cache line at `place` to be loaded; does nothing where that is not possible.
#[inline(always)]
pub fn prefetch<T: ?Sized>(place: &T) {
    prefetch_address(std::ptr::from_ref(place).cast::<u8>());
}

/// Asks for the cache line that holds `address`; the address need not be valid.
#[inline(always)]
pub fn prefetch_address(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch never faults, whatever the address.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// Asks for all cache lines of `bytes` bytes from `address` on; the address need not be valid.
#[inline(always)]
pub fn prefetch_bytes(address: *const u8, bytes: usize) {
    for line in 0..bytes.div_ceil(CACHE_LINE_BYTES) {
        prefetch_address(address.wrapping_add(line * CACHE_LINE_BYTES));
    }
}
