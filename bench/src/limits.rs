//! `silt-bench limits`: the limits of this machine, with which figures are compared.
//!
//! Each figure is work that no engine can avoid, alone. Computed results pass through `black_box`,
//! and written data is read back once, so that the compiler can omit no work. It measures one
//! thread and does not judge; the runner decides which limit binds a row.

pub mod effort;
mod timing;
mod processor;
mod memory;
mod files;

use crate::limits::effort::Effort;
use crate::result::Limit;
use std::io;
use std::path::Path;

/// Measures everything, with files in `dir`. Calls `begin` with the name of each group before it
/// starts.
///
/// # Errors
/// If a file cannot be written, mapped or read back as it was written.
pub fn measure(dir: &Path, effort: &Effort, mut begin: impl FnMut(&str)) -> io::Result<Vec<Limit>> {
    let mut limits = Vec::new();
    begin("processor");
    limits.extend(processor::measure(effort)?);
    begin("memory");
    limits.extend(memory::measure(effort)?);
    begin("files");
    limits.extend(files::measure(dir, effort)?);
    Ok(limits)
}

#[cfg(test)]
mod tests;
