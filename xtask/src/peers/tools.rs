//! The programs that build workers: their presence, and their error messages.

use std::path::{Path, PathBuf};
use std::process::Command;

/// An error if the program is missing; `package` names its package.
pub fn need(program: &str, package: &str) -> Result<(), String> {
    let found = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    });
    if found { Ok(()) } else { Err(format!("{program} is not installed ({package})")) }
}

/// Runs a program in a folder; the error is the end of its output.
pub fn run_in(folder: &Path, program: &str, arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder);
    let output = command.output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(format!("{program} failed: {}", reason(&String::from_utf8_lossy(&said))))
}

/// The most useful line of an output: the first with an error, or the last.
fn reason(output: &str) -> String {
    let lines = || output.lines().map(str::trim).filter(|line| !line.is_empty());
    let marks = ["panicked at", "error:", "error[", "[ERROR]", "ERROR"];
    let marked = lines().find(|line| marks.iter().any(|mark| line.contains(mark)));
    marked.or_else(|| lines().next_back()).unwrap_or("it said nothing").to_owned()
}

/// Builds a package that is a workspace of its own; silt-bench searches its release folder.
pub fn cargo_build(folder: &Path, program: &str) -> Result<PathBuf, String> {
    need("cargo", "Rust")?;
    // Cargo is run by its name, in the folder, so that the folder's own settings apply.
    let arguments = ["build", "--release", "--locked", "--target-dir", "target"];
    run_in(folder, "cargo", &arguments)?;
    Ok(folder.join("target/release").join(program))
}

#[cfg(test)]
mod tests;
