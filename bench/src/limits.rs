//! `silt-bench limits`: what this machine can do at best, to stand next to.
//!
//! Each figure is the work an engine cannot avoid, with nothing around it. What is computed passes
//! through `black_box`, and what is written is read back once, so that no work can be left out.
//! It measures one thread, and does not judge: the runner decides which limit binds a row.

pub mod effort;
mod timing;
mod processor;
mod memory;
mod files;

use crate::limits::effort::Effort;
use crate::result::Limit;
use std::io;
use std::path::Path;

/// Measures everything, with files in `dir`; `begin` hears the name of each group before it starts.
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
