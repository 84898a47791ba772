//! A crate whose bugs cost data asserts what only a bug can break, at least so many times in 1,000
//! lines. Does not judge what is asserted.

use crate::checkout::{Checkout, Role};
use crate::finding::Finding;
use crate::items::occurrences;

/// The folders that are judged.
const FOLDERS: [&str; 4] =
    ["crates/disk/src/", "crates/tree/src/", "crates/engine/src/", "crates/services/src/"];

/// The assertions that each has for 1,000 lines of code, at least.
const ASSERTIONS_PER_1000_MIN: usize = 5;

/// The macros that assert.
const MACROS: [&str; 7] = [
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "invariant",
];

/// Appends a finding for each folder with fewer assertions.
pub fn check(checkout: &Checkout, findings: &mut Vec<Finding>) {
    for folder in FOLDERS {
        judge(checkout, folder, findings);
    }
}

fn judge(checkout: &Checkout, folder: &str, findings: &mut Vec<Finding>) {
    let released = checkout.rust().filter(|source| source.role == Role::Production);
    let sources: Vec<_> = released.filter(|source| source.path.starts_with(folder)).collect();
    let is_code = |line: &&str| !line.trim().is_empty();
    let lines: usize =
        sources.iter().map(|source| source.production.lines().filter(is_code).count()).sum();
    let found: usize = sources.iter().map(|source| assertions(&source.production)).sum();
    if found * 1000 >= lines * ASSERTIONS_PER_1000_MIN {
        return;
    }
    let message = format!(
        "{found} assertions in {lines} lines of {folder}, fewer than {ASSERTIONS_PER_1000_MIN} in \
         1,000: assert what a bug would break before it costs data"
    );
    findings.extend(sources.first().map(|source| source.finding(0, "assertions", message)));
}

/// How many assertions there are. One in a constant does not count: the compiler checks it.
pub fn assertions(code: &str) -> usize {
    let is_checked_while_it_runs = |at: usize| {
        let line = code[..at].rfind('\n').map_or(0, |before| before + 1);
        !code[line..at].trim_start().starts_with("const _: () =")
    };
    let of = |name: &str| {
        let calls = occurrences(code, name).filter(|at| code[at + name.len()..].starts_with("!("));
        calls.filter(|at| is_checked_while_it_runs(*at)).count()
    };
    MACROS.into_iter().map(of).sum()
}

#[cfg(test)]
mod tests;
