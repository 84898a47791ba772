//! The allocator of the C library.
//!
//! It allocates nothing: it asks that what was freed goes back to the system.

/// Has the allocator give memory that was freed back to the system, as far as it can: otherwise it
/// may keep it for what is allocated next, however long that takes. Does nothing where the C
/// library is not glibc.
///
/// Takes the locks of the allocator, and a system call for each gap of a page and more: for use
/// after work that freed megabytes.
pub fn give_back_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    {
        // SAFETY: any thread may call it, and it touches no memory that is allocated.
        let _ = unsafe { libc::malloc_trim(0) };
    }
}
