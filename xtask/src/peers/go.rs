//! The worker of the engines written in Go.

use crate::peers::tools::{need, run_in};
use std::path::{Path, PathBuf};

/// Its folder below `peers`.
pub const NAME: &str = "go";

/// The name of the program that silt-bench searches.
const PROGRAM: &str = "silt-bench-go";

/// Builds the worker.
///
/// # Errors
/// The missing tool or the failed step, in words.
pub fn prepare(folder: &Path) -> Result<PathBuf, String> {
    if !folder.join("go.mod").is_file() {
        return Err("there is no worker in Go here".to_owned());
    }
    need("go", "Go")?;
    run_in(folder, "go", &["build", "-o", PROGRAM, "."])?;
    Ok(folder.join(PROGRAM))
}
