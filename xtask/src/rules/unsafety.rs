//! The places where `unsafe` may stand, and the comment that must stand above it.

use crate::checkout::{Checkout, Source};
use crate::finding::Finding;
use crate::items::occurrences;

/// The memtable, the system interfaces of `base`, and the borders to C: sizes and trainer of
/// libzstd, the bindings and the C engines of the benchmark.
const ALLOWED: [&str; 10] = [
    "crates/memtable/",
    "crates/base/src/hint",
    "crates/base/src/memory/",
    "crates/base/src/process",
    "crates/base/src/fs/map",
    "crates/disk/src/zstd/sizes",
    "crates/disk/src/zstd/trainer",
    "bindings/c/",
    "bench/src/adapters/lmdb",
    "peers/",
];

/// Appends a finding for each `unsafe` in a wrong place, each one without its `SAFETY:`, and each
/// crate that does not forbid the rest.
pub fn check(checkout: &Checkout, findings: &mut Vec<Finding>) {
    for source in checkout.rust() {
        let allowed = ALLOWED.iter().any(|allowed| source.path.starts_with(allowed));
        for at in occurrences(&source.code, "unsafe") {
            let rest = source.code[at + "unsafe".len()..].trim_start();
            if !allowed {
                let message =
                    "`unsafe` outside memtable, hint, memory, process, fs/map and the C border";
                findings.push(source.finding(at, "unsafety", message.to_owned()));
            } else if (rest.starts_with('{') || rest.starts_with("impl")) && !explained(source, at)
            {
                let message = "no `SAFETY:` comment right above".to_owned();
                findings.push(source.finding(at, "unsafety", message));
            }
        }
        check_root(source, findings);
    }
}

/// The root of a crate forbids `unsafe`; `base` and `disk` deny it, so that some of their modules
/// may allow it.
fn check_root(source: &Source, findings: &mut Vec<Finding>) {
    let root = source.path.ends_with("src/lib.rs") || source.path.ends_with("src/main.rs");
    let crate_folder = source.path.split_inclusive("src/").next().unwrap_or("");
    let whole = ALLOWED.iter().any(|allowed| crate_folder.starts_with(allowed));
    if !root || whole {
        return;
    }
    let opens_doors = ALLOWED.iter().any(|allowed| allowed.starts_with(crate_folder));
    let attribute = if opens_doors { "#![deny(unsafe_code)]" } else { "#![forbid(unsafe_code)]" };
    if !source.code.contains(attribute) {
        let message = format!("the root of this crate lacks `{attribute}`");
        findings.push(source.finding_at_line(1, "unsafety", message));
    }
}

/// Whether a comment gives the reason for safety: right above the statement that holds `at`, or
/// before it on its line.
fn explained(source: &Source, at: usize) -> bool {
    let line = source.line(at) - 1;
    let comments: Vec<&str> = source.comments.lines().take(line + 1).collect();
    let code: Vec<&str> = source.code.lines().take(line + 1).collect();
    let is_comment = |line: usize| !comments[line].trim().is_empty();
    if comments[line].contains("SAFETY:") {
        return true;
    }
    for above in (0..line).rev() {
        if is_comment(above) {
            let block = (0..=above).rev().take_while(|&line| is_comment(line));
            return block.into_iter().any(|line| comments[line].contains("SAFETY:"));
        }
        let text = code[above].trim();
        let attribute = text.starts_with("#[");
        if text.is_empty() || (!attribute && text.ends_with([';', '{', '}', ','])) {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests;
