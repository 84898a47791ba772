//! The worker of TidesDB, whose crate contains its C source.

use crate::peers::tools::{cargo_build, need};
use std::path::{Path, PathBuf};

/// Its folder below `peers`.
pub const NAME: &str = "tidesdb";

/// Builds the worker.
///
/// # Errors
/// The missing tool or the failed step, in words.
pub fn prepare(folder: &Path) -> Result<PathBuf, String> {
    need("cc", "a C compiler")?;
    need("cmake", "CMake")?;
    if !Path::new("/usr/include/lz4.h").is_file()
        && !Path::new("/usr/local/include/lz4.h").is_file()
    {
        return Err("lz4.h is not installed (liblz4-dev)".to_owned());
    }
    cargo_build(folder, "silt-bench-tidesdb")
}
