//! The workers that drive SiltDB on other allocators.

use crate::peers::tools::{cargo_build, need};
use std::path::{Path, PathBuf};

/// Its folder below `peers`.
pub const NAME: &str = "allocators";

/// Builds the workers.
///
/// # Errors
/// The missing tool or the failed step, in words.
pub fn prepare(folder: &Path) -> Result<PathBuf, String> {
    need("cc", "a C compiler")?;
    need("make", "Make, to build jemalloc")?;
    cargo_build(folder, "silt-bench-mimalloc")
}
