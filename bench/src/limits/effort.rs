//! How much work the limits are measured with.

/// How much work each limit is measured with.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Memory that is copied and missed in: far more than the caches hold.
    pub memory_bytes: usize,
    /// Size of the files: far less than memory.
    pub file_bytes: usize,
    /// Calls of a kind, where calls are timed.
    pub calls: usize,
    /// Syncs of a kind.
    pub syncs: usize,
    /// Runs of each, after one that does not count.
    pub repeat: usize,
}

impl Default for Effort {
    /// Some ten seconds, 512 MiB of memory, 256 MiB of disk.
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
