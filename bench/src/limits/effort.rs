//! The amount of work behind the limits.

/// The amount of work behind each limit.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Memory for copies and cache misses: far more than the caches hold.
    pub memory_bytes: usize,
    /// Size of the files: far less than memory.
    pub file_bytes: usize,
    /// Number of calls, where calls are timed.
    pub calls: usize,
    /// Number of syncs.
    pub syncs: usize,
    /// Runs of each measurement, after one that does not count.
    pub repeat: usize,
}

impl Default for Effort {
    /// About ten seconds, 512 MiB of memory, 256 MiB of disk.
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            file_bytes: 256 << 20,
            calls: 200_000,
            syncs: 100,
            repeat: 5,
        }
    }
}
