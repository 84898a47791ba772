//! The worker of the engines that are written in Go.

use crate::peers::tools::{need, run_in};
use std::path::{Path, PathBuf};

/// Its folder below `peers`.
pub const NAME: &str = "go";

/// The program, as silt-bench looks for it.
const PROGRAM: &str = "silt-bench-go";

/// Builds.
///
/// # Errors
/// What is missing, or what failed, in words.
pub fn prepare(folder: &Path) -> Result<PathBuf, String> {
    if !folder.join("go.mod").is_file() {
        return Err("there is no worker in Go here".to_owned());
    }
    need("go", "Go")?;
    run_in(folder, "go", &["build", "-o", PROGRAM, "."])?;
    Ok(folder.join(PROGRAM))
}
